"""The names in a serving certificate."""

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509

from tallygate_certs.certificate_parser import PARSE_ERRORS
from tallygate_certs.errors import CertsError

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE | re.ASCII)
_MAX_DNS_NAME_LENGTH = 253

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """DNS names and IP addresses, at least one in total, in the given order and without duplicates."""

    dns: tuple[str, ...] = ()
    addresses: tuple[IPAddress, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is a name: a certificate without one is useless.

        Raises:
            CertsError: if there is no name.
        """
        if not self.dns and not self.addresses:
            raise CertsError("a serving certificate needs a name: a service, a DNS name or an IP address")

    def __add__(self, other: "CertificateNames") -> "CertificateNames":
        """Return the names of both, without duplicates."""
        return CertificateNames(
            tuple(dict.fromkeys(self.dns + other.dns)), tuple(dict.fromkeys(self.addresses + other.addresses))
        )

    def to_texts(self) -> tuple[str, ...]:
        return (*self.dns, *map(str, self.addresses))

    def to_extension(self) -> x509.SubjectAlternativeName:
        """Return the names as a certificate's extension (RFC 5280, 4.2.1.6)."""
        return x509.SubjectAlternativeName([*map(x509.DNSName, self.dns), *map(x509.IPAddress, self.addresses)])


def parse_names(words: Iterable[str]) -> CertificateNames:
    """Parse DNS names and IP addresses as a user writes them, in any order.

    Raises:
        CertsError: if a word is neither, or there are no words.
    """
    dns: dict[str, None] = {}
    addresses: dict[IPAddress, None] = {}
    for word in words:
        try:
            addresses[ipaddress.ip_address(word)] = None
        except ValueError:
            dns[_parse_dns_name(word)] = None
    return CertificateNames(tuple(dns), tuple(addresses))


def create_service_names(service: str, namespace: str, cluster_domain: str = "cluster.local") -> CertificateNames:
    """Return every name by which clients reach a Service; the API server uses `<service>.<namespace>.svc`.

    Raises:
        CertsError: if one of them is not a DNS name.
    """
    short = f"{service}.{namespace}"
    return parse_names([f"{short}.svc", f"{short}.svc.{cluster_domain}", short, service])


def read_names(certificate: x509.Certificate) -> CertificateNames:
    """Return the names in a certificate.

    Raises:
        CertsError: if it has no valid names.
    """
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        raise CertsError("the certificate has no subject alternative names") from None
    except PARSE_ERRORS as error:
        raise CertsError(f"the names of the certificate cannot be read: {error}") from None
    addresses = extension.get_values_for_type(x509.IPAddress)
    return parse_names([*extension.get_values_for_type(x509.DNSName), *map(str, addresses)])


def _parse_dns_name(word: str) -> str:
    if len(word) > _MAX_DNS_NAME_LENGTH or not _DNS_NAME.fullmatch(word):
        raise CertsError(f"{word[:_MAX_DNS_NAME_LENGTH]!r} is neither a DNS name nor an IP address")
    return word.lower()
