"""Certificates with one wrong byte: the library loads most of them, and raises when the wrong field is used first."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

COMMON_NAME = bytes.fromhex("0603550403")
"""The object identifier of the common name, the only attribute of our names, in DER."""

COUNTRY = bytes.fromhex("0603550406")
"""That of the country, whose names have two letters: the library warns of another length."""

KEY_KIND = bytes.fromhex("06072a8648ce3d0201")
"""The object identifier of the keys of elliptic curves."""

DAMAGES = {
    "another version": (bytes.fromhex("a003020102"), bytes.fromhex("a003020105")),
    "a key of an unknown kind": (KEY_KIND, bytes.fromhex("06072a8648ce3d022f")),
    "a key that is no point": (bytes.fromhex("03420004"), bytes.fromhex("03420009")),
    "bits as a name": (COMMON_NAME + b"\x0c", COMMON_NAME + b"\x03"),
    "a name that is no text": (b"tallygate", b"\xffallygate"),
    "two extensions of one kind": (bytes.fromhex("0603551d0f"), bytes.fromhex("0603551d13")),
    "an extension that cannot be read": (bytes.fromhex("0603551d0e"), bytes.fromhex("0603551d13")),
}
"""Damages that certificates of every kind can have: the bytes in DER, and those in their place."""


def damage_certificate(pem: bytes, before: bytes, after: bytes) -> bytes:
    """Return the first certificate of a PEM text with other bytes in all places of some in its DER, of one length."""
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert before in der
    assert len(before) == len(after)
    return encode_der(der.replace(before, after))


def encode_der(der: bytes) -> bytes:
    """Return a certificate in PEM, whatever its bytes are."""
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
