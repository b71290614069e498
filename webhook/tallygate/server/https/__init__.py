"""Sockets, TLS, the HTTPS server and the reload of its files.

Requests go to any WSGI application, and none is imported.
"""
