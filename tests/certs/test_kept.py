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

from certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from certs.ca_rotation import RotationInput, choose_step
from certs.certificate_names import parse_names
from certs.certificate_status import create_status
from certs.secret_state import (
    SINCE_ANNOTATION,
    SecretState,
    compute_fingerprint,
    convert_key_pair,
    encode_annotations,
    encode_data,
    encode_pem,
    parse_ca_certificates,
    parse_secret_state,
    parse_serving_certificate,
)
from tests.effort import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEWEST, OLD = create_ca(NOW), create_ca(NOW)
NAMES = parse_names(["gate.tally.svc"])
LEAF = convert_key_pair(create_serving_certificate(OLD, NAMES, NOW))
KEPT = SecretState(NEWEST, (OLD.certificate,), LEAF, NOW, "authority")


def read(**changed: bytes) -> SecretState:
    """What is read when these are other than they should be; names with _ for the dot."""
    data = encode_data(KEPT) | {name.replace("_", "."): value for name, value in changed.items()}
    return parse_secret_state(data, encode_annotations(KEPT))


def test_everything_comes_back() -> None:
    found = read()
    assert found.ca
    assert found.ca.key.private_numbers() == NEWEST.key.private_numbers()
    assert replace(found, ca=None) == replace(KEPT, ca=None)
    assert found.ca_certificates == (NEWEST.certificate, OLD.certificate)


@pytest.mark.parametrize(
    "text",
    [b"", b"x", encode_pem([OLD.certificate]), LEAF.key],
    ids=["nothing", "no-pem", "a-certificate", "the-key-of-another"],
)
def test_an_authority_without_its_key_is_trusted_and_signs_nothing(text: bytes) -> None:
    found = read(ca_key=text)
    assert (found.ca, found.previous_cas, found.ca_since) == (None, (NEWEST.certificate, OLD.certificate), None)
    assert found.serving == LEAF


@pytest.mark.parametrize(
    ("chain", "key"),
    [(b"", b""), (b"x", LEAF.key), (LEAF.chain, b"x"), (LEAF.chain, b"")],
    ids=["nothing", "no-chain", "no-key", "an-empty-key"],
)
def test_a_serving_certificate_without_its_key_is_none(chain: bytes, key: bytes) -> None:
    found = read(tls_crt=chain, tls_key=key)
    assert (found.serving, found.ca_certificates) == (None, KEPT.ca_certificates)


def test_no_key_is_shown_where_a_leaf_is_shown() -> None:
    assert "PRIVATE" not in repr(KEPT)


def test_a_key_of_another_certificate_is_none_of_this() -> None:
    other = convert_key_pair(create_serving_certificate(OLD, NAMES, NOW))
    assert parse_serving_certificate(LEAF.chain, other.key) is None


def test_what_is_no_authority_is_not_trusted() -> None:
    assert parse_ca_certificates(encode_pem([NEWEST.certificate]) + LEAF.chain) == (NEWEST.certificate,)


def test_since_counts_only_for_the_authority_that_it_names() -> None:
    said = encode_annotations(KEPT)
    assert parse_secret_state(encode_data(KEPT), said).ca_since == NOW
    for text in (
        "",
        "x",
        f"{compute_fingerprint(OLD.certificate)} 2026-01-01T00:00:00Z",
        f"{said[SINCE_ANNOTATION][:16]} soon",
    ):
        assert parse_secret_state(encode_data(KEPT), said | {SINCE_ANNOTATION: text}).ca_since is None
    naive = f"{compute_fingerprint(NEWEST.certificate)} 2026-01-01T00:00:00"
    assert parse_secret_state(encode_data(KEPT), {SINCE_ANNOTATION: naive}).ca_since is None


def test_a_leaf_is_good_until_it_or_its_authority_has_expired() -> None:
    assert LEAF.is_trusted_by([NEWEST.certificate, OLD.certificate], NOW)
    assert not LEAF.is_trusted_by([NEWEST.certificate], NOW)
    assert not LEAF.is_trusted_by([], NOW)
    assert not LEAF.is_trusted_by([OLD.certificate], NOW + SERVING_LIFETIME)


def test_a_leaf_of_an_rsa_key_and_an_intermediate_is_as_good_as_any() -> None:
    top, middle = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    root = _signed("root", top, "root", top, is_authority=True)
    between = _signed("middle", middle, "root", top, is_authority=True)
    key = rsa.generate_private_key(65537, 2048)
    own = _signed("leaf", key, "middle", middle, is_authority=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    leaf = parse_serving_certificate(encode_pem([own, between]), private)
    assert leaf
    assert leaf.is_trusted_by([NEWEST.certificate, root], NOW)
    assert not leaf.is_trusted_by([NEWEST.certificate], NOW)


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
    st.dictionaries(st.just(SINCE_ANNOTATION), st.text(max_size=60)),
)
@settings(max_examples=examples(200), deadline=None)
def test_nothing_that_stands_in_a_secret_keeps_it_from_being_read(data: dict[str, bytes], said: dict[str, str]) -> None:
    whole = parse_secret_state(encode_data(KEPT) | data, encode_annotations(KEPT) | said)
    assert set(whole.ca_certificates) <= set(KEPT.ca_certificates)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")  # it is read all the same, for now
@given(st.sampled_from(["ca.crt", "tls.crt"]), st.integers(0, 5000), st.binary(min_size=1, max_size=3))
@example("tls.crt", 244, b"/")  # a key of a kind that nobody knows
@settings(max_examples=examples(300), deadline=None)
def test_whatever_bytes_are_damaged_there_is_a_next_step_and_everything_can_be_told(
    name: str, at: int, by: bytes
) -> None:
    text = bytearray(encode_data(KEPT)[name])
    text[at % len(text)] = by[0]
    der = bytearray(x509.load_pem_x509_certificate(encode_data(KEPT)[name]).public_bytes(serialization.Encoding.DER))
    for offset, each in enumerate(by):
        der[(at + offset) % len(der)] = each
    again = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(bytes(der)) + b"-----END CERTIFICATE-----\n"
    for damaged in (bytes(text), again):
        found = parse_secret_state(encode_data(KEPT) | {name: damaged}, encode_annotations(KEPT))
        choose_step(
            RotationInput(found, (), is_published=True, is_propagated=lambda _: True, served=LEAF, names=NAMES, now=NOW)
        )
        create_status(found, (), NOW)
        told = found.serving
        assert told is None or told.key == LEAF.key
