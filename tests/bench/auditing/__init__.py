"""What an audit on a schedule costs those who are answered meanwhile."""
