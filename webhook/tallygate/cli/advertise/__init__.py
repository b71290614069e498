"""The commands `tallygate advertise` and `tallygate withdraw`: amounts of counted resources in the status of nodes.

Every check of every node comes before the first change.
"""
