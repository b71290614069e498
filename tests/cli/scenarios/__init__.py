"""Sequence tests of policies: the command `tallygate test`, and the world that it plays in."""
