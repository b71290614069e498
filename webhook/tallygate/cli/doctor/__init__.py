"""The command `doctor`.

`gather` reads the API server and sends pods as a dry run only; it changes nothing. A value that cannot be read is
`Unavailable` and never counts as PASS.
"""
