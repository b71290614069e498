"""Whether a chain of certificates is trusted by a bundle: as an API server decides it (Go crypto/x509, verify.go).

A certificate that is itself in the bundle is trusted, and one that is signed by what is trusted, step by step.
"""

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from webhook.errors import TallygateError

_MOST = 20  # certificates in a file


class ChainError(TallygateError):
    """What should be certificates is none."""


def certificates(pem: bytes) -> list[x509.Certificate]:
    """Those of a file.

    Raises:
        ChainError: it is none.
    """
    try:
        return x509.load_pem_x509_certificates(pem)[:_MOST]
    except ValueError as error:
        raise ChainError(f"no certificate: {error}") from None


def distrust(chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], host: str, now: datetime) -> str:
    """Why who trusts `trusted` would not talk to `host` that shows this chain; empty when it would."""
    leaf = chain[0]
    if not now <= leaf.not_valid_after_utc:
        return f"the certificate has expired on {leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < leaf.not_valid_before_utc:
        return f"the certificate is not valid before {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if not _names(leaf, host):
        return f"the certificate is not for {host}"
    return "" if _leads(chain, trusted, now) else "no authority in caBundle has signed the certificate"


def _leads(chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], now: datetime) -> bool:
    valid = [each for each in trusted if each.not_valid_before_utc <= now <= each.not_valid_after_utc]
    step = chain[0]
    for _ in range(_MOST):
        if step in valid or any(_signs(authority, step) for authority in valid):
            return True
        above = next((each for each in chain[1:] if each != step and _signs(each, step)), None)
        if above is None:
            return False
        step = above
    return False


def _signs(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(leaf: x509.Certificate, host: str) -> bool:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    try:
        return ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return any(_is(pattern, host) for pattern in names.get_values_for_type(x509.DNSName))


def _is(pattern: str, host: str) -> bool:
    """A `*` stands for the first label, and for nothing else."""
    if not pattern.startswith("*."):
        return pattern.lower() == host.lower()
    return host.lower().partition(".")[2] == pattern[2:].lower()
