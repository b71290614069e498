"""The contents of the Secret: `ca.crt`, `ca.key`, `tls.crt`, `tls.key`, as in a folder, and two annotations.

The first CA of `ca.crt` is the newest, and `ca.key` is its key; the others are trusted only. The parser leaves out
invalid contents, whichever client wrote them, so that a gate can repair any Secret.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tallygate_certs.authority import KeyPair
from tallygate_certs.cert_files import CA_FILE, CA_KEY_FILE, CHAIN_FILE, KEY_FILE
from tallygate_certs.certificate_names import CertificateNames, read_names
from tallygate_certs.certificate_parser import PARSE_ERRORS, check_fields
from tallygate_certs.errors import CertsError

SINCE_ANNOTATION = "tallygate.dev/authority-since"
"""The annotation with the start of the newest CA: its fingerprint, a space, and the time as in RFC 3339."""

RENEW_ANNOTATION = "tallygate.dev/renew"
"""The annotation by which a user requests a renewal: `certificate` or `authority`."""

MAX_CA_CERTIFICATES = 32
"""The maximum number of trusted CAs; a bundle of them takes some 24 KiB, and every webhook has a copy."""


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """A serving certificate, the chain that is sent with it, and its key, in PEM as they were read."""

    certificate: x509.Certificate
    chain: bytes
    key: bytes = field(repr=False)

    def read_names(self) -> CertificateNames | None:
        """Return the names of the certificate, or None if they cannot be read."""
        try:
            return read_names(self.certificate)
        except CertsError:
            return None

    def is_signed_by(self, ca: x509.Certificate) -> bool:
        """Return whether the chain leads to this CA, by names and signatures; expiry is not checked."""
        links = [*x509.load_pem_x509_certificates(self.chain), ca]
        return all(_has_signed(issuer, link) for link, issuer in pairwise(links))

    def is_trusted_by(self, ca_certificates: Iterable[x509.Certificate], now: datetime) -> bool:
        """Return whether a client that trusts these CAs accepts it, by our clock: a client's may be behind."""
        if self.certificate.not_valid_after_utc <= now:
            return False
        return any(
            certificate.not_valid_after_utc > now and self.is_signed_by(certificate) for certificate in ca_certificates
        )


@dataclass(frozen=True, slots=True)
class SecretState:
    """The valid parts of a Secret. `ca_since` has a value only if the annotation names the CA `ca`."""

    ca: KeyPair | None = None
    previous_cas: tuple[x509.Certificate, ...] = ()
    serving: ServingCertificate | None = None
    ca_since: datetime | None = None
    requested: str = ""

    @property
    def ca_certificates(self) -> tuple[x509.Certificate, ...]:
        """All trusted CAs, the newest first."""
        return (self.ca.certificate, *self.previous_cas) if self.ca else self.previous_cas


def compute_fingerprint(certificate: x509.Certificate) -> str:
    """Return the name of a certificate in annotations and logs: the first 16 digits of its SHA-256."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:16]


def encode_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Return these certificates, and nothing else, in PEM."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def parse_ca_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """Return the CAs in a PEM text without duplicates; none if it cannot be parsed as a whole."""
    try:
        certificates = dict.fromkeys(x509.load_pem_x509_certificates(text))
    except PARSE_ERRORS:
        return ()
    return tuple(certificate for certificate in certificates if _is_ca(certificate))


def convert_key_pair(pair: KeyPair) -> ServingCertificate:
    return ServingCertificate(pair.certificate, encode_pem([pair.certificate]), _encode_key(pair.key))


def parse_serving_certificate(chain: bytes, key: bytes) -> ServingCertificate | None:
    """Parse `tls.crt` and `tls.key`; return None if they are invalid or do not belong together."""
    try:
        certificate = x509.load_pem_x509_certificates(chain)[0]
        private_key = serialization.load_pem_private_key(key, password=None)
        _parse_fully(certificate)
        is_match = _encode_public_key(private_key.public_key()) == _encode_public_key(certificate.public_key())
    except PARSE_ERRORS:
        return None
    return ServingCertificate(certificate, chain, key) if is_match else None


def parse_secret_state(data: Mapping[str, bytes], annotations: Mapping[str, str]) -> SecretState:
    """Parse the valid parts of a Secret."""
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
    """Return the data of the Secret by key, without the missing parts."""
    data = {CA_FILE: encode_pem(state.ca_certificates)}
    if state.ca:
        data[CA_KEY_FILE] = _encode_key(state.ca.key)
    if state.serving:
        data |= {CHAIN_FILE: state.serving.chain, KEY_FILE: state.serving.key}
    return data


def encode_annotations(state: SecretState) -> dict[str, str]:
    """Return our annotations of the Secret; the caller removes those of ours that are not among them."""
    annotations = {RENEW_ANNOTATION: state.requested} if state.requested else {}
    if state.ca and state.ca_since:
        annotations[SINCE_ANNOTATION] = (
            f"{compute_fingerprint(state.ca.certificate)} {state.ca_since:%Y-%m-%dT%H:%M:%SZ}"
        )
    return annotations


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except PARSE_ERRORS:
        return False
    return True


def _is_ca(certificate: x509.Certificate) -> bool:
    """Return whether a certificate is a CA by its basic constraints, and valid as a whole."""
    try:
        _parse_fully(certificate)
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except PARSE_ERRORS:
        return False


def _parse_fully(certificate: x509.Certificate) -> None:
    """Read all fields that are used later: the library defers some, and raises for an invalid one only then."""
    check_fields(certificate)
    _encode_public_key(certificate.public_key())


def _parse_key(text: bytes) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except PARSE_ERRORS:
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _encode_public_key(key: object) -> bytes:
    """Return a public key of any kind as bytes. Raises AttributeError if the object is not a public key."""
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
