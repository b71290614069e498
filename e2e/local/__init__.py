"""A control plane on this machine, without a container engine.

The rule of this package: every process and every file it makes ends with it, however it ends; only built programs
stay, in a cache outside the tree.
"""
