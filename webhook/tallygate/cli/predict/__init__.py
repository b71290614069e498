"""The command `predict` and the input and output that `headroom` shares.

It predicts the placement of pods in a cluster in columns.
"""
