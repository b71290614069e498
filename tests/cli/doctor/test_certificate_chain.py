"""Verification of certificate chains against a CA bundle, with real certificates."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tallygate.cli.doctor.certificate_chain import CertificateChainError, find_distrust, load_certificates
from tallygate_certs.authority import create_ca, create_serving_certificate
from tallygate_certs.certificate_names import parse_names
from tests.certs.damaged_certificates import DAMAGES, damage_certificate
from tests.cli.doctor.healthy_gate import NOW, encode_pem, get_ca, leaf

HOST = "tallygate.tallygate-system.svc"


def test_a_certificate_of_a_bundled_ca_is_trusted() -> None:
    other = create_ca(NOW).certificate
    assert find_distrust([leaf().certificate], [other, get_ca().certificate], HOST, NOW) == ""


def test_a_bundled_certificate_is_trusted() -> None:
    assert find_distrust([leaf().certificate], [leaf().certificate], HOST, NOW) == ""


def test_a_certificate_of_another_ca_of_the_same_name_is_not_trusted() -> None:
    problem = find_distrust([leaf().certificate], [create_ca(NOW).certificate], HOST, NOW)
    assert problem == "no authority in caBundle has signed the certificate"


def test_a_ca_that_is_not_yet_valid_is_not_trusted() -> None:
    coming = create_ca(NOW + timedelta(days=10))
    made = create_serving_certificate(coming, parse_names([HOST]), NOW - timedelta(days=1)).certificate
    assert "no authority" in find_distrust([made], [coming.certificate], HOST, NOW)


@pytest.mark.parametrize(
    ("names", "host", "is_named"),
    [
        (["*.tallygate-system.svc"], HOST, True),
        (["*.svc"], HOST, False),
        (["TALLYGATE.tallygate-system.svc"], HOST, True),
        (["tallygate.tallygate-system"], HOST, False),
        (["10.0.0.7"], "10.0.0.7", True),
        (["10.0.0.7"], "10.0.0.8", False),
        (["example.com"], "10.0.0.7", False),
    ],
)
def test_a_certificate_needs_the_name_that_the_api_server_calls(names: list[str], host: str, *, is_named: bool) -> None:
    made = create_serving_certificate(get_ca(), parse_names(names), NOW - timedelta(days=1)).certificate
    problem = find_distrust([made], [get_ca().certificate], host, NOW)
    assert problem == ("" if is_named else f"the certificate is not for {host}")


_CA = x509.BasicConstraints(ca=True, path_length=None)
_SIGNS = ("key_cert_sign", "crl_sign")


def _create_usage(*true: str) -> x509.KeyUsage:
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
        "encipher_only decipher_only"
    )
    return x509.KeyUsage(**{name: name in true for name in names.split()})


def _create_certificate(
    key: CertificateIssuerPrivateKeyTypes,
    issuer_key: CertificateIssuerPrivateKeyTypes,
    *extensions: x509.ExtensionType,
    subject: str = "ca",
) -> x509.Certificate:
    """Return a certificate of the issuer `ca`."""
    subject_name, issuer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, "ca"))
    builder = x509.CertificateBuilder(issuer, subject_name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(NOW - timedelta(days=1)).not_valid_after(NOW + timedelta(days=365))
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    is_ed25519 = isinstance(issuer_key, ed25519.Ed25519PrivateKey)
    return builder.sign(issuer_key, None if is_ed25519 else hashes.SHA256())


@pytest.mark.parametrize(
    ("key", "extensions", "is_trusted"),
    [
        pytest.param(ec.generate_private_key(ec.SECP256R1()), [_CA], True, id="a CA"),
        pytest.param(ec.generate_private_key(ec.SECP256R1()), [_CA, _create_usage(*_SIGNS)], True, id="that signs"),
        pytest.param(ec.generate_private_key(ec.SECP256R1()), [], False, id="no CA by no word"),
        pytest.param(
            ec.generate_private_key(ec.SECP256R1()),
            [x509.BasicConstraints(ca=False, path_length=None)],
            False,
            id="no CA by its constraints",
        ),
        pytest.param(
            ec.generate_private_key(ec.SECP256R1()), [_CA, _create_usage("crl_sign")], False, id="no CA by its usage"
        ),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), [_CA], True, id="Ed25519, which the library rejects"),
        pytest.param(ec.generate_private_key(ec.SECP224R1()), [_CA], True, id="P-224, which the library rejects"),
    ],
)
def test_what_go_accepts_as_a_ca_is_one(
    key: CertificateIssuerPrivateKeyTypes, extensions: list[x509.ExtensionType], *, is_trusted: bool
) -> None:
    """Compare with the answers of Go 1.26."""
    leaf_key = ec.generate_private_key(ec.SECP256R1())
    served = _create_certificate(leaf_key, key, x509.SubjectAlternativeName([x509.DNSName(HOST)]), subject="tallygate")
    problem = find_distrust([served], [_create_certificate(key, key, *extensions)], HOST, NOW)
    assert problem == ("" if is_trusted else "no authority in caBundle has signed the certificate")


@pytest.mark.parametrize(
    ("usage", "is_for_servers"),
    [
        (ExtendedKeyUsageOID.SERVER_AUTH, True),
        (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, True),
        (ExtendedKeyUsageOID.CLIENT_AUTH, False),
    ],
)
def test_an_extended_key_usage_must_include_servers(usage: x509.ObjectIdentifier, *, is_for_servers: bool) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName(HOST)])
    served = _create_certificate(key, key, names, x509.ExtendedKeyUsage([usage]), subject="tallygate")
    problem = find_distrust([served], [_create_certificate(key, key, _CA)], HOST, NOW)
    assert problem == (
        "" if is_for_servers else "the certificate is not for servers: its extended key usage lacks serverAuth"
    )


@pytest.mark.parametrize(("days", "problem"), [(-100, "has expired"), (3, "is not valid before")])
def test_a_certificate_must_be_valid_now(days: int, problem: str) -> None:
    made = leaf(NOW + timedelta(days=days)).certificate
    assert problem in find_distrust([made], [get_ca().certificate], HOST, NOW)


@pytest.mark.parametrize(
    "hostile", [b"", b"\xff" * 100, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_an_invalid_certificate_is_reported(hostile: bytes) -> None:
    with pytest.raises(CertificateChainError, match="no certificate"):
        load_certificates(hostile)


@pytest.mark.parametrize("is_authority", [True, False], ids=["of the authority", "of the gate"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_certificate_is_not_trusted(damage: str, *, is_authority: bool) -> None:
    before, after = DAMAGES[damage]
    pems = [encode_pem(leaf()), encode_pem(get_ca())]
    pems[is_authority] = damage_certificate(pems[is_authority], before, after)
    try:
        chain, trusted = map(load_certificates, pems)
    except CertificateChainError:
        return
    assert find_distrust(chain, trusted, HOST, NOW)


def test_at_most_twenty_certificates_of_a_file_are_read() -> None:
    assert len(load_certificates(encode_pem(leaf()) * 100)) == 20
