"""Certificates: issued, renewed, shown, and used in real handshakes."""
