"""The CA and its serving certificates: their fields, and their use by TLS libraries."""

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tallygate_certs.authority import CLOCK_SKEW, SERVING_LIFETIME, KeyPair, create_ca, create_serving_certificate
from tallygate_certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE, write_ca, write_serving_pair
from tallygate_certs.certificate_names import parse_names

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = parse_names(["gate.tally.svc", "localhost", "127.0.0.1", "::1"])


@pytest.fixture(scope="module")
def ca() -> KeyPair:
    return create_ca(NOW)


@pytest.fixture(scope="module")
def serving_pair(ca: KeyPair) -> KeyPair:
    return create_serving_certificate(ca, NAMES, NOW)


def handshake(folder: Path, name: str) -> dict[str, object]:
    """Return the server certificate that a client receives which trusts `ca.crt` and requests a name."""
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
def test_a_client_that_trusts_the_ca_accepts_the_certificate_by_each_name(
    tmp_path: Path, ca: KeyPair, serving_pair: KeyPair, name: str
) -> None:
    write_ca(tmp_path, ca)
    write_serving_pair(tmp_path, serving_pair)
    assert handshake(tmp_path, name)["subject"] == ((("commonName", "tallygate"),),)


def test_a_client_rejects_another_name(tmp_path: Path, ca: KeyPair, serving_pair: KeyPair) -> None:
    write_ca(tmp_path, ca)
    write_serving_pair(tmp_path, serving_pair)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path, "gate.other.svc")


def test_a_client_rejects_the_certificate_of_another_ca(tmp_path: Path, serving_pair: KeyPair) -> None:
    write_ca(tmp_path, create_ca(NOW))
    write_serving_pair(tmp_path, serving_pair)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(tmp_path, "localhost")


def test_a_client_that_trusts_two_cas_accepts_the_certificates_of_both(
    tmp_path: Path, ca: KeyPair, serving_pair: KeyPair
) -> None:
    write_ca(tmp_path, create_ca(NOW), previous_cas=[ca.certificate])
    write_serving_pair(tmp_path, serving_pair)
    assert handshake(tmp_path, "localhost")


def test_a_ca_signs_serving_certificates_and_no_intermediate_cas(ca: KeyPair) -> None:
    extensions = ca.certificate.extensions
    constraints = extensions.get_extension_for_class(x509.BasicConstraints)
    usage = extensions.get_extension_for_class(x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert (usage.critical, usage.value.key_cert_sign, usage.value.digital_signature) == (True, True, False)


def test_a_serving_certificate_cannot_sign_certificates(serving_pair: KeyPair) -> None:
    extensions = serving_pair.certificate.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert (usage.key_cert_sign, usage.digital_signature) == (False, True)
    assert list(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_serving_certificate_names_the_key_of_its_ca(ca: KeyPair, serving_pair: KeyPair) -> None:
    signer = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    named = serving_pair.certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert named.key_identifier == signer.digest


def test_a_serving_certificate_is_valid_for_ninety_days_with_clock_skew(serving_pair: KeyPair) -> None:
    assert serving_pair.certificate.not_valid_before_utc == NOW - CLOCK_SKEW
    assert serving_pair.certificate.not_valid_after_utc == NOW + SERVING_LIFETIME


def test_a_serving_certificate_does_not_outlive_its_ca(ca: KeyPair) -> None:
    end = ca.certificate.not_valid_after_utc
    late = create_serving_certificate(ca, NAMES, end - timedelta(days=10))
    assert late.certificate.not_valid_after_utc == end


def test_certificates_differ_in_serial_number_key_and_ca_name(ca: KeyPair, serving_pair: KeyPair) -> None:
    other, other_leaf = create_ca(NOW), create_serving_certificate(ca, NAMES, NOW)
    assert other.certificate.subject != ca.certificate.subject
    assert other_leaf.certificate.serial_number != serving_pair.certificate.serial_number
    assert other_leaf.key.private_numbers() != serving_pair.key.private_numbers()
