"""The files of the serving certificate: its chain, its key and the client CA, read and checked together before use."""

import hashlib
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tallygate.errors import TallygateError

_MAX_FILE_BYTES = 1 << 20
_FINGERPRINT_DIGITS = 16
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 8192
PARSE_ERRORS = (TypeError, ValueError, x509.InvalidVersion)
"""The errors of the library for an invalid certificate: some at once, some when a field is used first."""


class CertificateError(TallygateError):
    """The certificate files cannot be used."""


@dataclass(frozen=True, slots=True)
class ServingCertificates:
    """The chain, its key and the CAs of clients in PEM (b"" for none), with subject and expiry."""

    chain: bytes
    key: bytes
    client_ca: bytes
    subject: str
    not_after: datetime
    proxy_ca: bytes = b""

    @property
    def digest(self) -> str:
        """The SHA-256 of all files: the same bytes have the same digest."""
        return hashlib.sha256(b"\0".join((self.chain, self.key, self.client_ca, self.proxy_ca))).hexdigest()

    @property
    def fingerprint(self) -> str:
        """The first 16 hex digits of the serving certificate's SHA-256, as `tallygate certs` shows it."""
        return x509.load_pem_x509_certificates(self.chain)[0].fingerprint(hashes.SHA256()).hex()[:_FINGERPRINT_DIGITS]


class ClientBundles(NamedTuple):
    """The CAs that sign for users, and for front proxies, in PEM; b"" for none."""

    users: bytes
    proxies: bytes = b""


def read_certificates(chain: Path, key: Path, client_ca: Path | None = None) -> ServingCertificates:
    """Read the files once, and check that key and certificate belong together.

    Raises:
        CertificateError: if a file cannot be read or is not PEM, if the type of the key is not supported, or if the key
            does not belong to the certificate.
    """
    chain_pem, key_pem = _read_file(chain), _read_file(key)
    leaf = _parse_chain(chain, chain_pem)
    try:
        is_supported, subject, not_after = _is_supported(leaf), leaf.subject.rfc4514_string(), leaf.not_valid_after_utc
    except PARSE_ERRORS as error:
        raise CertificateError(f"{chain}: not a valid certificate: {error}") from None
    if not is_supported:
        raise CertificateError(f"{chain}: create it again with a key on P-256 or P-384, RSA from 2048 bits, or Ed25519")
    client_ca_pem = read_authorities(client_ca) if client_ca else b""
    certificates = ServingCertificates(chain_pem, key_pem, client_ca_pem, subject, not_after)
    _check_key_pair(certificates, chain, key)
    return certificates


def read_authorities(path: Path) -> bytes:
    """Return a file of CA certificates in PEM, after a check: an empty one must never mean that all are accepted.

    Raises:
        CertificateError: if the file cannot be read or is not PEM.
    """
    content = _read_file(path)
    _parse_chain(path, content)
    return content


def read_ca_bundle(chain: Path) -> bytes:
    """Return the CAs in `ca.crt` beside a certificate, as in a Secret of cert-manager; b"" if there is no such file."""
    try:
        return chain.with_name("ca.crt").read_bytes()
    except OSError:
        return b""


def _parse_chain(path: Path, content: bytes) -> x509.Certificate:
    """Return the first certificate of a PEM file."""
    try:
        return x509.load_pem_x509_certificates(content)[0]
    except PARSE_ERRORS as error:
        raise CertificateError(f"{path}: not a PEM certificate: {error}") from None


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CertificateError(f"certificate file {path} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise CertificateError(f"{path}: larger than 1 MiB; this is not a certificate")
    return content


def _is_supported(leaf: x509.Certificate) -> bool:
    """Return whether the certificate is X.509 version 3, with a key that rustls (ring) can sign with."""
    try:
        key = leaf.public_key()
    except UnsupportedAlgorithm:
        return False
    if isinstance(key, rsa.RSAPublicKey):
        is_known = _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS
    elif isinstance(key, ec.EllipticCurvePublicKey):
        is_known = isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    else:
        is_known = isinstance(key, ed25519.Ed25519PublicKey)
    return is_known and leaf.version is x509.Version.v3


def _check_key_pair(certificates: ServingCertificates, chain: Path, key: Path) -> None:
    with create_memory_files(certificates) as files:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.chain, files.key, password="")
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{key} is not the unencrypted key of {chain}: {error}") from None


_MAX_FLIGHTS = 8  # of messages in one handshake; TLS 1.3 needs three


def find_trust_problem(certificates: ServingCertificates, bundle: bytes, host: str) -> str:
    """Return why a client that trusts these CAs (PEM) refuses the certificates for a host; empty if it accepts them.

    A TLS handshake in memory decides, so that this agrees with clients about chains, names and validity.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.hostname_checks_common_name = False  # as in Go
    try:
        client_context.load_verify_locations(cadata=bundle.decode("ascii"))
        server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with create_memory_files(certificates) as files:
            server_context.load_cert_chain(files.chain, files.key, password="")
        _shake_hands(client_context, server_context, host)
    except ssl.SSLCertVerificationError as error:
        return f"the served certificate is not valid for {host}: {error.verify_message}"
    except (ssl.SSLError, OSError, ValueError) as error:
        return f"the CA bundle or the served certificate cannot be used: {error}"
    return ""


def _shake_hands(client_context: ssl.SSLContext, server_context: ssl.SSLContext, host: str) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    unfinished = [client, server]
    for _ in range(_MAX_FLIGHTS):
        for connection in tuple(unfinished):
            with suppress(ssl.SSLWantReadError):
                connection.do_handshake()
                unfinished.remove(connection)
        if not unfinished:
            return
    raise ssl.SSLError("the handshake does not end")


@dataclass(frozen=True, slots=True)
class _TlsFilePaths:
    """Paths to the contents of `ServingCertificates`, for libraries that only read files."""

    chain: str
    key: str
    client_ca: str | None


@contextmanager
def create_memory_files(certificates: ServingCertificates) -> Iterator[_TlsFilePaths]:
    """Yield paths to memory files with the certificates; they are valid until the block ends.

    The files on disk may be replaced between a check and a use. Memory files cannot be replaced, need no writable
    folder, and leave nothing behind.
    """
    contents = (certificates.chain, certificates.key, certificates.client_ca)
    descriptors = [os.memfd_create("tallygate", os.MFD_CLOEXEC) for _ in contents]
    try:
        for descriptor, content in zip(descriptors, contents, strict=True):
            os.write(descriptor, content)
        chain, key, client_ca = (f"/proc/self/fd/{descriptor}" for descriptor in descriptors)
        yield _TlsFilePaths(chain, key, client_ca if certificates.client_ca else None)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
