"""What is kept in a Secret: everything comes back, and whatever cannot be used is left out and nothing else."""

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from hypothesis import example, given, settings
from hypothesis import strategies as st

from certs.authority import LEAF_LIFETIME, new_authority, new_leaf
from certs.kept import (
    SINCE,
    Kept,
    annotations_of,
    authorities_in,
    data_of,
    fingerprint,
    leaf_of,
    pem,
    read_kept,
    read_leaf,
)
from certs.names import parse_names
from certs.status import status_of
from certs.succession import Sight, next_step
from tests.effort import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEWEST, OLD = new_authority(NOW), new_authority(NOW)
NAMES = parse_names(["gate.tally.svc"])
LEAF = leaf_of(new_leaf(OLD, NAMES, NOW))
KEPT = Kept(NEWEST, (OLD.certificate,), LEAF, NOW, "authority")


def read(**changed: bytes) -> Kept:
    """What is read when these are other than they should be; names with _ for the dot."""
    data = data_of(KEPT) | {name.replace("_", "."): value for name, value in changed.items()}
    return read_kept(data, annotations_of(KEPT))


def test_everything_comes_back() -> None:
    found = read()
    assert found.authority
    assert found.authority.key.private_numbers() == NEWEST.key.private_numbers()
    assert replace(found, authority=None) == replace(KEPT, authority=None)
    assert found.authorities == (NEWEST.certificate, OLD.certificate)


@pytest.mark.parametrize(
    "text",
    [b"", b"x", pem([OLD.certificate]), LEAF.key],
    ids=["nothing", "no-pem", "a-certificate", "the-key-of-another"],
)
def test_an_authority_without_its_key_is_trusted_and_signs_nothing(text: bytes) -> None:
    found = read(ca_key=text)
    assert (found.authority, found.trusted, found.since) == (None, (NEWEST.certificate, OLD.certificate), None)
    assert found.leaf == LEAF


@pytest.mark.parametrize(
    ("chain", "key"),
    [(b"", b""), (b"x", LEAF.key), (LEAF.chain, b"x"), (LEAF.chain, b"")],
    ids=["nothing", "no-chain", "no-key", "an-empty-key"],
)
def test_a_serving_certificate_without_its_key_is_none(chain: bytes, key: bytes) -> None:
    found = read(tls_crt=chain, tls_key=key)
    assert (found.leaf, found.authorities) == (None, KEPT.authorities)


def test_no_key_is_shown_where_a_leaf_is_shown() -> None:
    assert "PRIVATE" not in repr(KEPT)


def test_a_key_of_another_certificate_is_none_of_this() -> None:
    other = leaf_of(new_leaf(OLD, NAMES, NOW))
    assert read_leaf(LEAF.chain, other.key) is None


def test_what_is_no_authority_is_not_trusted() -> None:
    assert authorities_in(pem([NEWEST.certificate]) + LEAF.chain) == (NEWEST.certificate,)


def test_since_counts_only_for_the_authority_that_it_names() -> None:
    said = annotations_of(KEPT)
    assert read_kept(data_of(KEPT), said).since == NOW
    for text in ("", "x", f"{fingerprint(OLD.certificate)} 2026-01-01T00:00:00Z", f"{said[SINCE][:16]} soon"):
        assert read_kept(data_of(KEPT), said | {SINCE: text}).since is None
    naive = f"{fingerprint(NEWEST.certificate)} 2026-01-01T00:00:00"
    assert read_kept(data_of(KEPT), {SINCE: naive}).since is None


def test_a_leaf_is_good_until_it_or_its_authority_has_expired() -> None:
    assert LEAF.is_good([NEWEST.certificate, OLD.certificate], NOW)
    assert not LEAF.is_good([NEWEST.certificate], NOW)
    assert not LEAF.is_good([], NOW)
    assert not LEAF.is_good([OLD.certificate], NOW + LEAF_LIFETIME)


def test_a_leaf_of_an_rsa_key_and_an_intermediate_is_as_good_as_any() -> None:
    top, middle = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    root = _signed("root", top, "root", top, is_authority=True)
    between = _signed("middle", middle, "root", top, is_authority=True)
    key = rsa.generate_private_key(65537, 2048)
    own = _signed("leaf", key, "middle", middle, is_authority=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    leaf = read_leaf(pem([own, between]), private)
    assert leaf
    assert leaf.is_good([NEWEST.certificate, root], NOW)
    assert not leaf.is_good([NEWEST.certificate], NOW)


def _signed(
    subject: str, key: rsa.RSAPrivateKey, issuer: str, signer: rsa.RSAPrivateKey, *, is_authority: bool
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    return builder.sign(signer, hashes.SHA256())


@given(
    st.dictionaries(st.sampled_from(["ca.crt", "ca.key", "tls.crt", "tls.key"]), st.binary(max_size=200)),
    st.dictionaries(st.just(SINCE), st.text(max_size=60)),
)
@settings(max_examples=examples(200), deadline=None)
def test_nothing_that_stands_in_a_secret_keeps_it_from_being_read(data: dict[str, bytes], said: dict[str, str]) -> None:
    whole = read_kept(data_of(KEPT) | data, annotations_of(KEPT) | said)
    assert set(whole.authorities) <= set(KEPT.authorities)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # it is read all the same, for now
@given(st.sampled_from(["ca.crt", "tls.crt"]), st.integers(0, 5000), st.binary(min_size=1, max_size=3))
@example("tls.crt", 244, b"/")  # a key of a kind that nobody knows
@settings(max_examples=examples(300), deadline=None)
def test_whatever_bytes_are_damaged_there_is_a_next_step_and_everything_can_be_told(
    name: str, at: int, by: bytes
) -> None:
    text = bytearray(data_of(KEPT)[name])
    text[at % len(text)] = by[0]
    der = bytearray(x509.load_pem_x509_certificate(data_of(KEPT)[name]).public_bytes(serialization.Encoding.DER))
    for offset, each in enumerate(by):
        der[(at + offset) % len(der)] = each
    again = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(bytes(der)) + b"-----END CERTIFICATE-----\n"
    for damaged in (bytes(text), again):
        found = read_kept(data_of(KEPT) | {name: damaged}, annotations_of(KEPT))
        next_step(Sight(found, (), is_published=True, settled=lambda _: True, served=LEAF, names=NAMES, now=NOW))
        status_of(found, (), NOW)
        told = found.leaf
        assert told is None or told.key == LEAF.key
