"""The command `ask`, and the client of the server of asks that other commands share.

Credentials are sent only over TLS, to a server whose certificate is verified.
"""
