"""`deploy/`: what is generated is current, and what is written by hand fits the server's own settings."""
