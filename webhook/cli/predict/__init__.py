"""The command `predict` and the input and output that `headroom` shares.

A cluster in columns and pods go in, a prediction comes out.
"""
