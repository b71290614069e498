"""Which chains a bundle trusts, on real certificates."""

from datetime import timedelta

import pytest

from certs.authority import create_ca, create_serving_certificate
from certs.certificate_names import parse_names
from tests.cli.doctor.world import NOW, authority, leaf, pem
from webhook.cli.doctor.certificate_chain import CertificateChainError, find_distrust, load_certificates

HOST = "tallygate.tallygate-system.svc"


def test_what_an_authority_of_the_bundle_has_signed_is_trusted() -> None:
    other = create_ca(NOW).certificate
    assert find_distrust([leaf().certificate], [other, authority().certificate], HOST, NOW) == ""


def test_what_is_itself_in_the_bundle_is_trusted() -> None:
    assert find_distrust([leaf().certificate], [leaf().certificate], HOST, NOW) == ""


def test_what_a_stranger_of_the_same_name_has_signed_is_not() -> None:
    told = find_distrust([leaf().certificate], [create_ca(NOW).certificate], HOST, NOW)
    assert told == "no authority in caBundle has signed the certificate"


def test_an_authority_that_is_not_valid_yet_trusts_nothing() -> None:
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
def test_it_is_for_the_name_by_which_the_gate_is_called(names: list[str], host: str, *, is_named: bool) -> None:
    made = create_serving_certificate(authority(), parse_names(names), NOW - timedelta(days=1)).certificate
    told = find_distrust([made], [authority().certificate], host, NOW)
    assert told == ("" if is_named else f"the certificate is not for {host}")


@pytest.mark.parametrize(("days", "told"), [(-100, "has expired"), (3, "is not valid before")])
def test_it_is_judged_by_the_time(days: int, told: str) -> None:
    made = leaf(NOW + timedelta(days=days)).certificate
    assert told in find_distrust([made], [authority().certificate], HOST, NOW)


@pytest.mark.parametrize(
    "hostile", [b"", b"\xff" * 100, b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_told(hostile: bytes) -> None:
    with pytest.raises(CertificateChainError, match="no certificate"):
        load_certificates(hostile)


def test_a_file_of_very_many_is_read_in_part() -> None:
    assert len(load_certificates(pem(leaf()) * 100)) == 20
