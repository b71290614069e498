"""The command `usage`.

It computes plain values and tables from an observed cluster and caps, with the stores that the gate counts by.
"""
