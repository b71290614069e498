"""The command `usage`.

An observed cluster and caps go in, plain values and tables come out, counted with what the gate counts with.
"""
