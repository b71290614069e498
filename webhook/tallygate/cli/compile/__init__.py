"""The command `tallygate compile`."""
