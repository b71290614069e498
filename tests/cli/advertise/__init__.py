"""`tallygate usage` and `tallygate snapshot`."""
