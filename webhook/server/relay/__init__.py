"""The failover proxy.

It holds the connections of API servers, reads only the bytes of a review, and decides nothing.
"""
