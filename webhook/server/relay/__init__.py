"""The failover proxy.

It keeps the connections of API servers open, reads only the bytes of a review, and decides nothing.
"""
