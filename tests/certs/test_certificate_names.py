"""Certificate names: their syntax, and their order in certificates."""

import ipaddress

import pytest

from tallygate_certs.certificate_names import CertificateNames, create_service_names, parse_names
from tallygate_certs.errors import CertsError

GOOD = {
    "a word": ("gate", CertificateNames(("gate",))),
    "capital letters become small": ("Gate.Example", CertificateNames(("gate.example",))),
    "a wildcard": ("*.example.com", CertificateNames(("*.example.com",))),
    "an IPv4 address": ("127.0.0.1", CertificateNames((), (ipaddress.ip_address("127.0.0.1"),))),
    "an IPv6 address": ("::1", CertificateNames((), (ipaddress.ip_address("::1"),))),
    "digits are a name": ("10", CertificateNames(("10",))),
}
BAD = {
    "empty": "",
    "a blank": "a b",
    "an underscore": "a_b",
    "a leading hyphen": "-a",
    "a trailing hyphen": "a-",
    "two dots": "a..b",
    "a trailing dot": "a.",
    "a label of 64": "a" * 64,
    "254 characters": ".".join(["a" * 62] * 5),
    "a wildcard inside": "a.*.b",
    "an address with a port": "127.0.0.1:443",
    "Arabic digits": "٣",
    "a line end": "a\n",
}


@pytest.mark.parametrize("case", GOOD)
def test_a_valid_name_is_parsed(case: str) -> None:
    word, names = GOOD[case]
    assert parse_names([word]) == names


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_name_is_rejected(case: str) -> None:
    with pytest.raises(CertsError, match="neither a DNS name nor an IP address"):
        parse_names([BAD[case]])


def test_a_service_has_four_names_and_the_api_server_uses_the_first() -> None:
    assert create_service_names("gate", "system").to_texts() == (
        "gate.system.svc",
        "gate.system.svc.cluster.local",
        "gate.system",
        "gate",
    )


def test_a_cluster_may_have_another_domain() -> None:
    assert "gate.system.svc.example.org" in create_service_names("gate", "system", "example.org").to_texts()


def test_names_add_up_and_each_stays_once() -> None:
    both = parse_names(["a", "::1"]) + parse_names(["b", "a", "::1", "10.0.0.1"])
    assert both.to_texts() == ("a", "b", "::1", "10.0.0.1")


def test_a_certificate_needs_a_name() -> None:
    with pytest.raises(CertsError, match="needs a name"):
        parse_names([])
