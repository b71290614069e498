"""Verification of certificate chains against a CA bundle, with real certificates."""

from datetime import timedelta

import pytest

from tallygate.cli.doctor.certificate_chain import CertificateChainError, find_distrust, load_certificates
from tallygate_certs.authority import create_ca, create_serving_certificate
from tallygate_certs.certificate_names import parse_names
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


def test_at_most_twenty_certificates_of_a_file_are_read() -> None:
    assert len(load_certificates(encode_pem(leaf()) * 100)) == 20
