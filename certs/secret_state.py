"""What is kept in the Secret: `ca.crt`, `ca.key`, `tls.crt`, `tls.key`, as in a folder, and two annotations.

The first authority of `ca.crt` is the newest, the one whose key is kept; the others are trusted only. What cannot be
used is left out here, whoever has written it, so that nothing that a Secret may hold keeps a gate from mending it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.authority import KeyPair
from certs.cert_files import CA_FILE, CA_KEY_FILE, CHAIN_FILE, KEY_FILE
from certs.certificate_names import CertificateNames, read_names
from certs.errors import CertsError

SINCE_ANNOTATION = "tallygate.dev/authority-since"
"""The annotation that says since when the newest authority is the newest: its fingerprint, a space, RFC 3339."""

RENEW_ANNOTATION = "tallygate.dev/renew"
"""The annotation by which somebody asks for a renewal: `certificate` or `authority`."""

MAX_CA_CERTIFICATES = 32
"""So many are trusted at a time; a bundle of them takes some 24 KiB, and every webhook holds a copy."""


_PARSE_ERRORS = (  # what the library says of bytes that are no certificate, or one of a kind that it does not know
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


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A serving certificate with what is sent with it and its key, in PEM as they were found."""

    certificate: x509.Certificate
    chain: bytes
    key: bytes = field(repr=False)

    def read_names(self) -> CertificateNames | None:
        """Those that it is good for, if they can be told."""
        try:
            return read_names(self.certificate)
        except (*_PARSE_ERRORS, CertsError):
            return None

    def is_signed_by(self, ca: x509.Certificate) -> bool:
        """Whether the chain leads there, by names and signatures; not whether anything has expired."""
        links = [*x509.load_pem_x509_certificates(self.chain), ca]
        return all(_has_signed(issuer, each) for each, issuer in pairwise(links))

    def is_trusted_by(self, ca_certificates: Iterable[x509.Certificate], now: datetime) -> bool:
        """Whether a client that trusts these would take it. The clock of a client that is behind is its own affair."""
        if self.certificate.not_valid_after_utc <= now:
            return False
        return any(each.not_valid_after_utc > now and self.is_signed_by(each) for each in ca_certificates)


@dataclass(frozen=True, slots=True)
class SecretState:
    """What there is of it that can be used. `since` is None unless it is about this very authority."""

    ca: KeyPair | None = None
    previous_cas: tuple[x509.Certificate, ...] = ()
    serving: ServingCertificate | None = None
    ca_since: datetime | None = None
    requested: str = ""

    @property
    def ca_certificates(self) -> tuple[x509.Certificate, ...]:
        """All that are to be trusted, the newest first."""
        return (self.ca.certificate, *self.previous_cas) if self.ca else self.previous_cas


def compute_fingerprint(certificate: x509.Certificate) -> str:
    """Names a certificate in annotations and logs: the beginning of its SHA-256."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:16]


def encode_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """These and nothing else."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def parse_ca_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """The authorities in a PEM text, each once; none when it cannot be read as a whole."""
    try:
        certificates = dict.fromkeys(x509.load_pem_x509_certificates(text))
    except _PARSE_ERRORS:
        return ()
    return tuple(each for each in certificates if _is_ca(each))


def convert_key_pair(pair: KeyPair) -> ServingCertificate:
    """One that was made here."""
    return ServingCertificate(pair.certificate, encode_pem([pair.certificate]), _encode_key(pair.key))


def parse_serving_certificate(chain: bytes, key: bytes) -> ServingCertificate | None:
    """What was found as `tls.crt` and `tls.key`; None when they cannot be read or do not belong together."""
    try:
        certificate = x509.load_pem_x509_certificates(chain)[0]
        private_key = serialization.load_pem_private_key(key, password=None)
        _parse_fully(certificate)
        is_match = _encode_public_key(private_key.public_key()) == _encode_public_key(certificate.public_key())
    except _PARSE_ERRORS:
        return None
    return ServingCertificate(certificate, chain, key) if is_match else None


def parse_secret_state(data: Mapping[str, bytes], annotations: Mapping[str, str]) -> SecretState:
    """What of a Secret can be used."""
    ca_certificates = parse_ca_certificates(data.get(CA_FILE, b""))
    key = _parse_key(data.get(CA_KEY_FILE, b""))
    serving = parse_serving_certificate(data.get(CHAIN_FILE, b""), data.get(KEY_FILE, b""))
    requested = annotations.get(RENEW_ANNOTATION, "")
    if not ca_certificates or key is None or key.public_key() != ca_certificates[0].public_key():
        return SecretState(None, ca_certificates, serving, None, requested)
    ca = KeyPair(ca_certificates[0], key)
    return SecretState(
        ca,
        ca_certificates[1:],
        serving,
        _parse_ca_since(annotations.get(SINCE_ANNOTATION, ""), ca.certificate),
        requested,
    )


def encode_data(state: SecretState) -> dict[str, bytes]:
    """As it is written into the Secret: what is there, by its name."""
    data = {CA_FILE: encode_pem(state.ca_certificates)}
    if state.ca:
        data[CA_KEY_FILE] = _encode_key(state.ca.key)
    if state.serving:
        data |= {CHAIN_FILE: state.serving.chain, KEY_FILE: state.serving.key}
    return data


def encode_annotations(state: SecretState) -> dict[str, str]:
    """The annotations beside it; one that is not among them is to be taken away."""
    annotations = {RENEW_ANNOTATION: state.requested} if state.requested else {}
    if state.ca and state.ca_since:
        annotations[SINCE_ANNOTATION] = (
            f"{compute_fingerprint(state.ca.certificate)} {state.ca_since:%Y-%m-%dT%H:%M:%SZ}"
        )
    return annotations


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except _PARSE_ERRORS:
        return False
    return True


def _is_ca(certificate: x509.Certificate) -> bool:
    """Whether it says so of itself, and can be read as a whole."""
    try:
        _parse_fully(certificate)
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _PARSE_ERRORS:
        return False


def _parse_fully(certificate: x509.Certificate) -> None:
    """Read what is read later on: the library puts off some of it, and what cannot be read is told only then."""
    _ = certificate.subject, certificate.issuer, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    _encode_public_key(certificate.public_key())


def _parse_key(text: bytes) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except _PARSE_ERRORS:
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _encode_public_key(key: object) -> bytes:
    """A public key of any kind as bytes; AttributeError for what is none."""
    encoded: bytes = getattr(key, "public_bytes")(  # noqa: B009  the kinds have no type in common
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _parse_ca_since(text: str, ca: x509.Certificate) -> datetime | None:
    ca_fingerprint, _, timestamp = text.partition(" ")
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if ca_fingerprint == compute_fingerprint(ca) and moment.tzinfo else None
