"""The folder of certificates: `ca.crt` (all trusted CAs), `ca.key`, `tls.crt`, `tls.key`."""

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tallygate_certs.authority import KeyPair
from tallygate_certs.certificate_parser import PARSE_ERRORS, check_fields
from tallygate_certs.errors import CertsError

CA_FILE = "ca.crt"
CA_KEY_FILE = "ca.key"
CHAIN_FILE = "tls.crt"
KEY_FILE = "tls.key"
_PUBLIC_MODE = 0o644
_PRIVATE_MODE = 0o600
_MAX_FILE_BYTES = 1 << 20


def read_ca_certificates(folder: Path) -> tuple[x509.Certificate, ...]:
    """Return the CAs in `ca.crt`, the signing one first; none if the file does not exist.

    Raises:
        CertsError: if the file cannot be read or is not PEM.
    """
    return _read_certificates(folder / CA_FILE)


def read_ca(folder: Path) -> KeyPair:
    """Return the signing CA and its key.

    Raises:
        CertsError: if its files are missing, cannot be read or do not belong together.
    """
    return _read_key_pair(folder / CA_FILE, folder / CA_KEY_FILE)


def read_serving_pair(folder: Path) -> KeyPair:
    """Return the serving certificate and its key.

    Raises:
        CertsError: if its files are missing, cannot be read or do not belong together.
    """
    return _read_key_pair(folder / CHAIN_FILE, folder / KEY_FILE)


def read_chain(folder: Path) -> tuple[x509.Certificate, ...]:
    """Return the serving certificate and the chain that is sent with it, without the key; none without the file.

    Raises:
        CertsError: if the file cannot be read or is not PEM.
    """
    return _read_certificates(folder / CHAIN_FILE)


def write_ca(folder: Path, ca: KeyPair, previous_cas: Sequence[x509.Certificate] = ()) -> None:
    """Write the signing CA with its key, and the previous CAs, which stay trusted."""
    certificates = b"".join(
        certificate.public_bytes(serialization.Encoding.PEM) for certificate in (ca.certificate, *previous_cas)
    )
    _write(folder / CA_KEY_FILE, _encode_key(ca.key), _PRIVATE_MODE)
    _write(folder / CA_FILE, certificates, _PUBLIC_MODE)


def write_ca_certificates(folder: Path, ca_certificates: Sequence[x509.Certificate]) -> None:
    """Write the trusted CAs, the signing one first."""
    _write(
        folder / CA_FILE,
        b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in ca_certificates),
        _PUBLIC_MODE,
    )


def write_serving_pair(folder: Path, serving: KeyPair) -> None:
    """Write the serving certificate and its key: two files, so a watching reader must check that they match."""
    _write(folder / KEY_FILE, _encode_key(serving.key), _PRIVATE_MODE)
    _write(folder / CHAIN_FILE, serving.certificate.public_bytes(serialization.Encoding.PEM), _PUBLIC_MODE)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CertsError(f"{path}: {error.strerror}; `tallygate certs issue` makes it") from None
    if len(content) > _MAX_FILE_BYTES:
        raise CertsError(f"{path}: larger than 1 MiB; this is not a certificate")
    return content


def _read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    if not path.exists():
        return ()
    try:
        certificates = tuple(x509.load_pem_x509_certificates(_read(path)))
        for certificate in certificates:
            check_fields(certificate)
    except PARSE_ERRORS as error:
        raise CertsError(f"{path}: not a certificate in PEM: {error}") from None
    return certificates


def _read_key_pair(certificate: Path, key: Path) -> KeyPair:
    certificates = _read_certificates(certificate)
    if not certificates:
        raise CertsError(f"{certificate}: not there; `tallygate certs issue` makes it")
    try:
        private = serialization.load_pem_private_key(_read(key), password=None)
    except PARSE_ERRORS as error:
        raise CertsError(f"{key}: not an unencrypted private key in PEM: {error}") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise CertsError(f"{key}: not an elliptic-curve key, so tallygate did not make it")
    try:
        public = certificates[0].public_key()
    except PARSE_ERRORS as error:
        raise CertsError(f"{certificate}: its key cannot be read: {error}") from None
    if private.public_key() != public:
        raise CertsError(f"{key} is not the key of {certificate}")
    return KeyPair(certificates[0], private)


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically: to a temporary file beside it, flushed to disk, then renamed over it.

    Raises:
        CertsError: if the file cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except OSError:
            with suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise CertsError(f"{path}: cannot be written: {error.strerror}") from None
