"""The command `serve`.

And the controller that puts the certificates of the package `certs` and the server together.
"""
