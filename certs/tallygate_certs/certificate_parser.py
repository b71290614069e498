"""Errors of certificates and keys that the library cannot read.

`cryptography` reads a part of a certificate when it loads it, and each other field when it is used first, so that any
use may raise them. It only warns (UserWarning) of some contents that it reads all the same: a serial number that is not
positive, and a country whose name has not two letters.
"""

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

PARSE_ERRORS = (
    AttributeError,
    IndexError,
    InvalidSignature,
    TypeError,
    UnsupportedAlgorithm,
    ValueError,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""The errors of the library for bytes that are no certificate or key, or one of an unknown kind; not all are
ValueErrors."""


def check_fields(certificate: x509.Certificate) -> None:
    """Read the names of subject and issuer and the validity of a certificate, which are used later.

    Raises:
        one of `PARSE_ERRORS`: if one of them is invalid.
    """
    _ = certificate.subject, certificate.issuer, certificate.not_valid_before_utc, certificate.not_valid_after_utc
