"""The state in a Secret: it is read back unchanged, and unusable parts, and only those, are left out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tallygate_certs.authority import SERVING_LIFETIME, create_ca, create_serving_certificate
from tallygate_certs.ca_rotation import RotationInput, choose_step
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.certificate_status import create_status
from tallygate_certs.secret_state import (
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
from tests.certs.damaged_certificates import COMMON_NAME, COUNTRY, KEY_KIND, encode_der
from tests.effort import examples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEWEST, OLD = create_ca(NOW), create_ca(NOW)
NAMES = parse_names(["gate.tally.svc"])
SERVING_PAIR = convert_key_pair(create_serving_certificate(OLD, NAMES, NOW))
STATE = SecretState(NEWEST, (OLD.certificate,), SERVING_PAIR, NOW, "authority")


def read_state(**changed: bytes) -> SecretState:
    """Return the state that is read from data with these changes; names have _ for the dot."""
    data = encode_data(STATE) | {name.replace("_", "."): value for name, value in changed.items()}
    return parse_secret_state(data, encode_annotations(STATE))


def test_a_state_is_read_back_unchanged() -> None:
    found = read_state()
    assert found.ca
    assert found.ca.key.private_numbers() == NEWEST.key.private_numbers()
    assert replace(found, ca=None) == replace(STATE, ca=None)
    assert found.ca_certificates == (NEWEST.certificate, OLD.certificate)


@pytest.mark.parametrize(
    "text",
    [b"", b"x", encode_pem([OLD.certificate]), SERVING_PAIR.key],
    ids=["nothing", "no-pem", "a-certificate", "the-key-of-another"],
)
def test_a_ca_without_its_key_is_trusted_and_signs_nothing(text: bytes) -> None:
    found = read_state(ca_key=text)
    assert (found.ca, found.previous_cas, found.ca_since) == (None, (NEWEST.certificate, OLD.certificate), None)
    assert found.serving == SERVING_PAIR


@pytest.mark.parametrize(
    ("chain", "key"),
    [(b"", b""), (b"x", SERVING_PAIR.key), (SERVING_PAIR.chain, b"x"), (SERVING_PAIR.chain, b"")],
    ids=["nothing", "no-chain", "no-key", "an-empty-key"],
)
def test_a_serving_certificate_without_its_key_is_ignored(chain: bytes, key: bytes) -> None:
    found = read_state(tls_crt=chain, tls_key=key)
    assert (found.serving, found.ca_certificates) == (None, STATE.ca_certificates)


def test_the_representation_of_a_state_contains_no_key() -> None:
    assert "PRIVATE" not in repr(STATE)


def test_a_key_of_another_certificate_is_rejected() -> None:
    other = convert_key_pair(create_serving_certificate(OLD, NAMES, NOW))
    assert parse_serving_certificate(SERVING_PAIR.chain, other.key) is None


def test_a_certificate_that_is_not_a_ca_is_not_trusted() -> None:
    assert parse_ca_certificates(encode_pem([NEWEST.certificate]) + SERVING_PAIR.chain) == (NEWEST.certificate,)


def test_the_since_annotation_counts_only_for_the_ca_that_it_names() -> None:
    annotations = encode_annotations(STATE)
    assert parse_secret_state(encode_data(STATE), annotations).ca_since == NOW
    for text in (
        "",
        "x",
        f"{compute_fingerprint(OLD.certificate)} 2026-01-01T00:00:00Z",
        f"{annotations[SINCE_ANNOTATION][:16]} soon",
    ):
        assert parse_secret_state(encode_data(STATE), annotations | {SINCE_ANNOTATION: text}).ca_since is None
    naive = f"{compute_fingerprint(NEWEST.certificate)} 2026-01-01T00:00:00"
    assert parse_secret_state(encode_data(STATE), {SINCE_ANNOTATION: naive}).ca_since is None


def test_a_certificate_is_trusted_until_it_or_its_ca_expires() -> None:
    assert SERVING_PAIR.is_trusted_by([NEWEST.certificate, OLD.certificate], NOW)
    assert not SERVING_PAIR.is_trusted_by([NEWEST.certificate], NOW)
    assert not SERVING_PAIR.is_trusted_by([], NOW)
    assert not SERVING_PAIR.is_trusted_by([OLD.certificate], NOW + SERVING_LIFETIME)


def test_an_rsa_certificate_of_an_intermediate_ca_is_trusted() -> None:
    top, middle = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    root = _sign("root", top, "root", top, is_authority=True)
    between = _sign("middle", middle, "root", top, is_authority=True)
    key = rsa.generate_private_key(65537, 2048)
    own = _sign("leaf", key, "middle", middle, is_authority=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    serving_pair = parse_serving_certificate(encode_pem([own, between]), private)
    assert serving_pair
    assert serving_pair.is_trusted_by([NEWEST.certificate, root], NOW)
    assert not serving_pair.is_trusted_by([NEWEST.certificate], NOW)


def _sign(
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
def test_no_content_of_a_secret_prevents_its_reading(data: dict[str, bytes], annotations: dict[str, str]) -> None:
    whole = parse_secret_state(encode_data(STATE) | data, encode_annotations(STATE) | annotations)
    assert set(whole.ca_certificates) <= set(STATE.ca_certificates)


def read_der(name: str) -> bytes:
    """Return the first certificate of a key of the Secret in DER."""
    return x509.load_pem_x509_certificate(encode_data(STATE)[name]).public_bytes(serialization.Encoding.DER)


def find_last_byte(name: str, identifier: bytes) -> int:
    """Return the offset of the last byte of an object identifier in DER; the length of the serial number varies."""
    return read_der(name).index(identifier) + len(identifier) - 1


# cryptography warns of both, and reads them all the same
@pytest.mark.filterwarnings("ignore:Parsed a serial number", "ignore:Attribute's length must be")
@given(st.sampled_from(["ca.crt", "tls.crt"]), st.integers(0, 5000), st.binary(min_size=1, max_size=3))
@example("tls.crt", find_last_byte("tls.crt", KEY_KIND), b"/")  # a key of an unknown kind
@example("tls.crt", find_last_byte("tls.crt", COMMON_NAME), COUNTRY[-1:])  # a country of more than two letters
@example("ca.crt", find_last_byte("ca.crt", COMMON_NAME), COUNTRY[-1:])
@settings(max_examples=examples(300), deadline=None)
def test_every_damaged_state_has_a_next_step_and_a_status(name: str, at: int, by: bytes) -> None:
    text = bytearray(encode_data(STATE)[name])
    text[at % len(text)] = by[0]
    der = bytearray(read_der(name))
    for offset, each in enumerate(by):
        der[(at + offset) % len(der)] = each
    for damaged in (bytes(text), encode_der(bytes(der))):
        found = parse_secret_state(encode_data(STATE) | {name: damaged}, encode_annotations(STATE))
        choose_step(
            RotationInput(
                found, (), is_published=True, is_propagated=lambda _: True, served=SERVING_PAIR, names=NAMES, now=NOW
            )
        )
        create_status(found, (), NOW)
        serving = found.serving
        assert serving is None or serving.key == SERVING_PAIR.key
