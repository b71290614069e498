"""`tallygate doctor`: each check on tables of facts, and the command before API servers of every kind."""
