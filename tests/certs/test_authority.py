"""The authority and its leaves: what is in them, and that TLS libraries take them."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import CLOCK_SKEW, SERVING_LIFETIME, KeyPair, create_ca, create_serving_certificate
from certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE, write_ca, write_serving_pair
from certs.certificate_names import parse_names

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = parse_names(["gate.tally.svc", "localhost", "127.0.0.1", "::1"])


@pytest.fixture(scope="module")
def authority() -> KeyPair:
    return create_ca(NOW)


@pytest.fixture(scope="module")
def leaf(authority: KeyPair) -> KeyPair:
    return create_serving_certificate(authority, NAMES, NOW)


def handshake(folder: Path, name: str) -> dict[str, object]:
    """The server's certificate, as a client saw it that trusts `ca.crt` and asked for a name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / CHAIN_FILE, folder / KEY_FILE)
    client = ssl.create_default_context(cafile=str(folder / CA_FILE))
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as tls:
                tls.recv(1)
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=name) as tls:
            seen = tls.getpeercert()
    finally:
        ours.close()
        thread.join()
    assert seen is not None
    return dict(seen)


@pytest.mark.parametrize("name", NAMES.to_texts())
def test_a_client_that_trusts_the_authority_takes_the_leaf_by_any_of_its_names(
    tmp_path: Path, authority: KeyPair, leaf: KeyPair, name: str
) -> None:
    write_ca(tmp_path, authority)
    write_serving_pair(tmp_path, leaf)
    assert handshake(tmp_path, name)["subject"] == ((("commonName", "tallygate"),),)


def test_a_client_refuses_another_name(tmp_path: Path, authority: KeyPair, leaf: KeyPair) -> None:
    write_ca(tmp_path, authority)
    write_serving_pair(tmp_path, leaf)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path, "gate.other.svc")


def test_a_client_refuses_the_leaf_of_another_authority(tmp_path: Path, leaf: KeyPair) -> None:
    write_ca(tmp_path, create_ca(NOW))
    write_serving_pair(tmp_path, leaf)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(tmp_path, "localhost")


def test_a_client_that_trusts_two_authorities_takes_the_leaf_of_either(
    tmp_path: Path, authority: KeyPair, leaf: KeyPair
) -> None:
    write_ca(tmp_path, create_ca(NOW), previous_cas=[authority.certificate])
    write_serving_pair(tmp_path, leaf)
    assert handshake(tmp_path, "localhost")


def test_an_authority_signs_certificates_and_nothing_below_may(authority: KeyPair) -> None:
    extensions = authority.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)


def test_a_leaf_serves_and_signs_no_certificates(leaf: KeyPair) -> None:
    extensions = leaf.certificate.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert (usage.key_cert_sign, usage.digital_signature) == (False, True)
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_leaf_names_the_key_that_signed_it(authority: KeyPair, leaf: KeyPair) -> None:
    signer = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    named = leaf.certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert named.key_identifier == signer.digest


def test_a_leaf_is_valid_from_a_little_before_for_ninety_days(leaf: KeyPair) -> None:
    assert leaf.certificate.not_valid_before_utc == NOW - CLOCK_SKEW
    assert leaf.certificate.not_valid_after_utc == NOW + SERVING_LIFETIME


def test_a_leaf_does_not_outlive_its_authority(authority: KeyPair) -> None:
    end = authority.certificate.not_valid_after_utc
    late = create_serving_certificate(authority, NAMES, end - timedelta(days=10))
    assert late.certificate.not_valid_after_utc == end


def test_no_two_have_the_same_serial_number_key_or_authority_name(authority: KeyPair, leaf: KeyPair) -> None:
    other, other_leaf = create_ca(NOW), create_serving_certificate(authority, NAMES, NOW)
    assert other.certificate.subject != authority.certificate.subject
    assert other_leaf.certificate.serial_number != leaf.certificate.serial_number
    assert other_leaf.key.private_numbers() != leaf.key.private_numbers()
