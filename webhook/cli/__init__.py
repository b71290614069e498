"""The command line: `tallygate`.

The rule of this room: read arguments into plain values, call the rooms below, print. Every command answers with exit
code 0 (ok), 1 (findings) or 2 (misuse).
"""
