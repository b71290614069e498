"""What there is to know of the certificates in a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.errors import CertsError
from certs.files import read_ca, read_ca_certificates, read_chain, read_serving_pair
from certs.names import CertificateNames, read_names
from certs.renewal import get_renewal_reason, is_ca_due


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """One certificate. `days_left` is negative when it has expired; `fingerprint` is SHA-256 in hexadecimal."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    days_left: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class CertificatesOverview:
    """A folder: its authorities, the one that signs first, its leaf, whether `renew` has work, and every problem."""

    ca_certificates: tuple[CertificateFacts, ...]
    serving: CertificateFacts | None
    is_renewal_due: bool
    problems: tuple[str, ...]


def inspect_certificates(folder: Path, now: datetime) -> CertificatesOverview:
    """Everything about the certificates in a folder, and whether they can be used.

    Raises:
        CertsError: a certificate file is there but cannot be read.
    """
    ca_certificates = read_ca_certificates(folder)
    chain = read_chain(folder)
    problems = _find_pair_problems(folder)
    if not ca_certificates or not chain:
        return CertificatesOverview(
            tuple(create_facts(each, now) for each in ca_certificates), None, is_renewal_due=False, problems=problems
        )
    serving = chain[0]
    is_renewal_due = is_ca_due(ca_certificates[0], now) or bool(get_renewal_reason(serving, ca_certificates[0], now))
    problems += _find_chain_problems(serving, ca_certificates, now)
    return CertificatesOverview(
        tuple(create_facts(each, now) for each in ca_certificates), create_facts(serving, now), is_renewal_due, problems
    )


def find_chain_problem(serving: x509.Certificate, ca_certificates: Sequence[x509.Certificate], now: datetime) -> str:
    """Why a client that trusts these authorities would refuse the leaf; empty when it would not (RFC 5280, 6)."""
    name = _choose_subject(read_names(serving))
    verifier = PolicyBuilder().store(Store(list(ca_certificates))).time(now).build_server_verifier(name)
    try:
        verifier.verify(serving, [])
    except VerificationError as error:
        return f"the serving certificate is not valid: {error}"
    return ""


def _choose_subject(names: CertificateNames) -> x509.DNSName | x509.IPAddress:
    if names.dns:
        return x509.DNSName(names.dns[0].replace("*.", "any."))
    return x509.IPAddress(names.addresses[0])


def _find_chain_problems(
    serving: x509.Certificate, ca_certificates: Sequence[x509.Certificate], now: datetime
) -> tuple[str, ...]:
    problem = find_chain_problem(serving, ca_certificates, now)
    return (problem,) if problem else ()


def _find_pair_problems(folder: Path) -> tuple[str, ...]:
    problems = []
    for read in (read_ca, read_serving_pair):
        try:
            read(folder)
        except CertsError as error:
            problems.append(str(error))
    return tuple(problems)


def create_facts(certificate: x509.Certificate, now: datetime) -> CertificateFacts:
    """What is to be said of one."""
    try:
        names = read_names(certificate).to_texts()
    except (CertsError, ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        names = ()
    return CertificateFacts(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        names,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        (certificate.not_valid_after_utc - now).days,
        certificate.fingerprint(hashes.SHA256()).hex(),
    )
