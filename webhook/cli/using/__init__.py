"""Usage: what caps are, hold and promise, whose pods that is, and whether the ledgers are right.

The rule of this room: a cluster as it was seen and caps in, plain values and tables out. It counts with what the gate
counts with (`gate.sight`, `state.watch.view`), so that both can never disagree.
"""
