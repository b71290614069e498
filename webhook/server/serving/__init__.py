"""Serving: sockets, TLS and the HTTP server under the application, and the files that are taken up while it serves.

It hands requests to whatever application it is given, and knows none.
"""
