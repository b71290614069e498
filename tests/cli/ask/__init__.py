"""`tallygate ask`: what it sends and to whom, and what it prints."""
