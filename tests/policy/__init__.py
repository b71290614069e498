"""What policy files say, what is wrong with them, and whom they are for."""
