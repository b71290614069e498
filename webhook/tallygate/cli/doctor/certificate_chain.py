"""Verification of certificate chains against CA bundles.

`find_distrust` decides as an API server does (crypto/x509 of Go 1.26, verify.go and x509.go): a certificate in the
bundle is trusted, and so is a certificate that a trusted certificate has signed, step by step. For these decisions
`cryptography.x509.verification` is too strict: it rejects CAs with an Ed25519, P-224 or short RSA key, which Go
accepts.

`fetch_served_certificate` connects from this machine to a gate. OpenSSL verifies the whole chain of the connection,
which may differ from the chain that a gate that is called by URL sends to the API server.
"""

import socket
import ssl
from collections.abc import Iterable, Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tallygate.cli.doctor.facts import ServedCertificate, Unavailable
from tallygate.errors import TallygateError
from tallygate_certs.certificate_parser import PARSE_ERRORS

E = TypeVar("E", bound=x509.ExtensionType)

_SERVER_USAGES = frozenset({ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})
_MAX_CERTIFICATES = 20  # certificates in a file
_CONNECT_SECONDS = 5.0
_MAX_MESSAGE_CHARACTERS = 300


class CertificateChainError(TallygateError):
    """PEM data that contains no valid certificate."""


def load_certificates(pem: bytes) -> list[x509.Certificate]:
    """Return the certificates of a PEM file, at most 20.

    Raises:
        CertificateChainError: if the data contains no valid certificate.
    """
    try:
        return x509.load_pem_x509_certificates(pem)[:_MAX_CERTIFICATES]
    except PARSE_ERRORS as error:
        raise CertificateChainError(f"no certificate: {error}") from None


def find_distrust(
    chain: Sequence[x509.Certificate],
    trusted: Sequence[x509.Certificate],
    host: str,
    now: datetime,
    source: str = "caBundle",
) -> str:
    """Return why a client with the CAs `trusted` rejects this chain for `host`; an empty string if it accepts it.

    `source` is where the CAs are from.
    """
    serving_certificate = chain[0]
    if not now <= serving_certificate.not_valid_after_utc:
        return f"the certificate has expired on {serving_certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < serving_certificate.not_valid_before_utc:
        return f"the certificate is not valid before {serving_certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if not _is_valid_for(serving_certificate, host):
        return f"the certificate is not for {host}"
    if not _is_for_servers(serving_certificate):
        return "the certificate is not for servers: its extended key usage lacks serverAuth"
    return "" if _is_trusted(chain, trusted, now) else f"no authority in {source} has signed the certificate"


def _is_trusted(chain: Sequence[x509.Certificate], trusted: Sequence[x509.Certificate], now: datetime) -> bool:
    valid_cas = [
        candidate for candidate in trusted if candidate.not_valid_before_utc <= now <= candidate.not_valid_after_utc
    ]
    certificate = chain[0]
    for _ in range(_MAX_CERTIFICATES):
        if certificate in valid_cas or any(_is_issuer(ca, certificate) for ca in valid_cas):
            return True
        issuer = next((each for each in chain[1:] if each != certificate and _is_issuer(each, certificate)), None)
        if issuer is None:
            return False
        certificate = issuer
    return False


def _is_issuer(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
        return _may_issue(issuer)
    except PARSE_ERRORS:
        return False


def _may_issue(issuer: x509.Certificate) -> bool:
    """Return whether a certificate is one of a CA (Go's Certificate.CheckSignatureFrom).

    Raises:
        one of `PARSE_ERRORS`: if its extensions cannot be read.
    """
    constraints = _find_extension(issuer, x509.BasicConstraints)
    usage = _find_extension(issuer, x509.KeyUsage)
    is_ca = issuer.version is not x509.Version.v3 if constraints is None else constraints.ca
    return is_ca and (usage is None or usage.key_cert_sign)


def _is_for_servers(certificate: x509.Certificate) -> bool:
    try:
        usages = _find_extension(certificate, x509.ExtendedKeyUsage)
    except PARSE_ERRORS:
        return False
    return usages is None or bool(_SERVER_USAGES & {*usages})


def _find_extension(certificate: x509.Certificate, extension: type[E]) -> E | None:
    try:
        return certificate.extensions.get_extension_for_class(extension).value
    except x509.ExtensionNotFound:
        return None


def _is_valid_for(certificate: x509.Certificate, host: str) -> bool:
    try:
        names = _find_extension(certificate, x509.SubjectAlternativeName)
    except PARSE_ERRORS:
        return False
    if names is None:
        return False
    try:
        return ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return any(_matches_host(pattern, host) for pattern in names.get_values_for_type(x509.DNSName))


def _matches_host(pattern: str, host: str) -> bool:
    """Return whether a DNS name pattern matches a host; `*` stands for exactly the first label."""
    if not pattern.startswith("*."):
        return pattern.lower() == host.lower()
    return host.lower().partition(".")[2] == pattern[2:].lower()


def fetch_served_certificate(
    url: str, bundles: Iterable[bytes], address: tuple[str, int] | None = None
) -> ServedCertificate | Unavailable:
    """Return the certificate served at a URL and the trust failure for each CA bundle.

    An empty bundle stands for the system's CAs. The address is that of the URL, unless another host and port is given.
    """
    parts = urlsplit(url)
    try:
        host = parts.hostname or ""
        reached = address or (host, parts.port or 443)
        certificate = ssl.get_server_certificate(reached, timeout=_CONNECT_SECONDS).encode()
        failures = {bundle: _find_trust_failure(reached, host, bundle) for bundle in bundles}
        return ServedCertificate(certificate, failures)
    except (OSError, ValueError) as error:
        return Unavailable(f"{parts.netloc} cannot be reached from here: {error}"[:_MAX_MESSAGE_CHARACTERS])


def _find_trust_failure(address: tuple[str, int], host: str, bundle: bytes) -> str:
    """Return why a client of `host` with this CA bundle rejects the connection; an empty string if it accepts it.

    Raises:
        OSError: if no connection can be made.
    """
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii") if bundle else None)
    except (ssl.SSLError, ValueError):
        return "caBundle is not a certificate"
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go: every certificate in the bundle is a trust anchor
    try:
        with (
            socket.create_connection(address, _CONNECT_SECONDS) as raw_socket,
            context.wrap_socket(raw_socket, server_hostname=host),
        ):
            return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
