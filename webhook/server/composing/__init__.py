"""Gates put together: one that stands alone, and one beside a cluster that is followed.

The rule of this room: nothing is decided, read or written here but which parts there are and who is handed whom. What
only a gate beside a cluster needs is a third of what it takes to start, so who stands alone does not import it.
"""
