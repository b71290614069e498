"""A control plane on this machine, without a container engine.

The rule of this room: every process and every file it makes ends with it, however it ends; only what was built is kept,
in a cache outside the tree.
"""
