"""The command `doctor`.

Gather reads the API server and changes nothing but by dry run; a value that cannot be read is Unavailable, never
good.
"""
