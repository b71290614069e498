"""The command `tallygate advertise`: amounts of counted resources in the status of nodes.

Every check of every node comes before the first change.
"""
