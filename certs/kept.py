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

from certs.authority import Pair
from certs.errors import CertsError
from certs.files import AUTHORITIES, AUTHORITY_KEY, CHAIN, KEY
from certs.names import Names, names_of

SINCE = "tallygate.dev/authority-since"
"""The annotation that says since when the newest authority is the newest: its fingerprint, a space, RFC 3339."""

ASKED = "tallygate.dev/renew"
"""The annotation by which somebody asks for a renewal: `certificate` or `authority`."""

MOST_AUTHORITIES = 32
"""So many are trusted at a time; a bundle of them takes some 24 KiB, and every webhook holds a copy."""


_UNUSABLE = (  # what the library says of bytes that are no certificate, or one of a kind that it does not know
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
class Leaf:
    """A serving certificate with what is sent with it and its key, in PEM as they were found."""

    certificate: x509.Certificate
    chain: bytes
    key: bytes = field(repr=False)

    def names(self) -> Names | None:
        """Those that it is good for, if they can be told."""
        try:
            return names_of(self.certificate)
        except (*_UNUSABLE, CertsError):
            return None

    def is_signed_by(self, authority: x509.Certificate) -> bool:
        """Whether the chain leads there, by names and signatures; not whether anything has expired."""
        links = [*x509.load_pem_x509_certificates(self.chain), authority]
        return all(_has_signed(issuer, each) for each, issuer in pairwise(links))

    def is_good(self, authorities: Iterable[x509.Certificate], now: datetime) -> bool:
        """Whether a client that trusts these would take it. The clock of a client that is behind is its own affair."""
        if self.certificate.not_valid_after_utc <= now:
            return False
        return any(each.not_valid_after_utc > now and self.is_signed_by(each) for each in authorities)


@dataclass(frozen=True, slots=True)
class Kept:
    """What there is of it that can be used. `since` is None unless it is about this very authority."""

    authority: Pair | None = None
    trusted: tuple[x509.Certificate, ...] = ()
    leaf: Leaf | None = None
    since: datetime | None = None
    asked: str = ""

    @property
    def authorities(self) -> tuple[x509.Certificate, ...]:
        """All that are to be trusted, the newest first."""
        return (self.authority.certificate, *self.trusted) if self.authority else self.trusted


def fingerprint(certificate: x509.Certificate) -> str:
    """Names a certificate in annotations and logs: the beginning of its SHA-256."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:16]


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """These and nothing else."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def authorities_in(text: bytes) -> tuple[x509.Certificate, ...]:
    """The authorities in a PEM text, each once; none when it cannot be read as a whole."""
    try:
        found = dict.fromkeys(x509.load_pem_x509_certificates(text))
    except _UNUSABLE:
        return ()
    return tuple(each for each in found if _is_authority(each))


def leaf_of(pair: Pair) -> Leaf:
    """One that was made here."""
    return Leaf(pair.certificate, pem([pair.certificate]), _key_pem(pair.key))


def read_leaf(chain: bytes, key: bytes) -> Leaf | None:
    """What was found as `tls.crt` and `tls.key`; None when they cannot be read or do not belong together."""
    try:
        certificate = x509.load_pem_x509_certificates(chain)[0]
        private = serialization.load_pem_private_key(key, password=None)
        _read_whole(certificate)
        belong = _public(private.public_key()) == _public(certificate.public_key())
    except _UNUSABLE:
        return None
    return Leaf(certificate, chain, key) if belong else None


def read_kept(data: Mapping[str, bytes], annotations: Mapping[str, str]) -> Kept:
    """What of a Secret can be used."""
    authorities = authorities_in(data.get(AUTHORITIES, b""))
    key = _key(data.get(AUTHORITY_KEY, b""))
    leaf = read_leaf(data.get(CHAIN, b""), data.get(KEY, b""))
    asked = annotations.get(ASKED, "")
    if not authorities or key is None or key.public_key() != authorities[0].public_key():
        return Kept(None, authorities, leaf, None, asked)
    newest = Pair(authorities[0], key)
    return Kept(newest, authorities[1:], leaf, _since(annotations.get(SINCE, ""), newest.certificate), asked)


def data_of(kept: Kept) -> dict[str, bytes]:
    """As it is written into the Secret: what is there, by its name."""
    data = {AUTHORITIES: pem(kept.authorities)}
    if kept.authority:
        data[AUTHORITY_KEY] = _key_pem(kept.authority.key)
    if kept.leaf:
        data |= {CHAIN: kept.leaf.chain, KEY: kept.leaf.key}
    return data


def annotations_of(kept: Kept) -> dict[str, str]:
    """The annotations beside it; one that is not among them is to be taken away."""
    said = {ASKED: kept.asked} if kept.asked else {}
    if kept.authority and kept.since:
        said[SINCE] = f"{fingerprint(kept.authority.certificate)} {kept.since:%Y-%m-%dT%H:%M:%SZ}"
    return said


def _has_signed(issuer: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except _UNUSABLE:
        return False
    return True


def _is_authority(certificate: x509.Certificate) -> bool:
    """Whether it says so of itself, and can be read as a whole."""
    try:
        _read_whole(certificate)
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except _UNUSABLE:
        return False


def _read_whole(certificate: x509.Certificate) -> None:
    """Read what is read later on: the library puts off some of it, and what cannot be read is told only then."""
    _ = certificate.subject, certificate.issuer, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    _public(certificate.public_key())


def _key(text: bytes) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except _UNUSABLE:
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public(key: object) -> bytes:
    """A public key of any kind as bytes; AttributeError for what is none."""
    encoded: bytes = getattr(key, "public_bytes")(  # noqa: B009  the kinds have no type in common
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _since(text: str, newest: x509.Certificate) -> datetime | None:
    about, _, when = text.partition(" ")
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return None
    return moment if about == fingerprint(newest) and moment.tzinfo else None
