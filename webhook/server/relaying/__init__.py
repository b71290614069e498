"""The relay: it holds the API server's connections, and asks a gate that lives.

The API server never sends a review twice: one whose connection breaks is a create that fails. Who holds the connection
must therefore be another than who may run out of memory. The rule of this room: it judges nothing and reads nothing of
a review but its bytes.
"""
