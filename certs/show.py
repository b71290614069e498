"""What there is to know of the certificates in a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.errors import CertsError
from certs.files import read_authorities, read_authority, read_chain, read_leaf
from certs.names import Names, names_of
from certs.renewal import authority_due, leaf_due


@dataclass(frozen=True, slots=True)
class Facts:
    """One certificate. `days_left` is negative when it has expired; `fingerprint` is SHA-256 in hexadecimal."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    days_left: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Overview:
    """A folder: its authorities, the one that signs first, its leaf, whether `renew` has work, and every problem."""

    authorities: tuple[Facts, ...]
    leaf: Facts | None
    due: bool
    problems: tuple[str, ...]


def show(folder: Path, now: datetime) -> Overview:
    """Everything about the certificates in a folder, and whether they can be used.

    Raises:
        CertsError: a certificate file is there but cannot be read.
    """
    authorities = read_authorities(folder)
    chain = read_chain(folder)
    problems = _pair_problems(folder)
    if not authorities or not chain:
        return Overview(tuple(facts_of(each, now) for each in authorities), None, due=False, problems=problems)
    leaf = chain[0]
    due = authority_due(authorities[0], now) or bool(leaf_due(leaf, authorities[0], now))
    problems += _chain_problems(leaf, authorities, now)
    return Overview(tuple(facts_of(each, now) for each in authorities), facts_of(leaf, now), due, problems)


def chain_problem(leaf: x509.Certificate, authorities: Sequence[x509.Certificate], now: datetime) -> str:
    """Why a client that trusts these authorities would refuse the leaf; empty when it would not (RFC 5280, 6)."""
    name = _subject(names_of(leaf))
    verifier = PolicyBuilder().store(Store(list(authorities))).time(now).build_server_verifier(name)
    try:
        verifier.verify(leaf, [])
    except VerificationError as error:
        return f"the serving certificate is not valid: {error}"
    return ""


def _subject(names: Names) -> x509.DNSName | x509.IPAddress:
    if names.dns:
        return x509.DNSName(names.dns[0].replace("*.", "any."))
    return x509.IPAddress(names.addresses[0])


def _chain_problems(leaf: x509.Certificate, authorities: Sequence[x509.Certificate], now: datetime) -> tuple[str, ...]:
    problem = chain_problem(leaf, authorities, now)
    return (problem,) if problem else ()


def _pair_problems(folder: Path) -> tuple[str, ...]:
    problems = []
    for read in (read_authority, read_leaf):
        try:
            read(folder)
        except CertsError as error:
            problems.append(str(error))
    return tuple(problems)


def facts_of(certificate: x509.Certificate, now: datetime) -> Facts:
    """What is to be said of one."""
    try:
        names = names_of(certificate).texts()
    except (CertsError, ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        names = ()
    return Facts(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        names,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        (certificate.not_valid_after_utc - now).days,
        certificate.fingerprint(hashes.SHA256()).hex(),
    )
