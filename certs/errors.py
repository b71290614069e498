"""What certificates can fail with."""


class CertsError(Exception):
    """Something cannot be done with the certificates, and this text says what, where and what would help."""
