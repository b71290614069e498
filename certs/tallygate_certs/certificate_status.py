"""The status of the certificates in a folder, and of those in the Secret of a gate.

The status of a Secret covers its certificates, the webhook configurations that trust them, and the next changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from tallygate_certs.ca_rotation import find_request_error, get_retirement_time
from tallygate_certs.cert_files import read_ca, read_ca_certificates, read_chain, read_serving_pair
from tallygate_certs.certificate_names import CertificateNames, read_names
from tallygate_certs.certificate_reconciler import WebhookTrust
from tallygate_certs.errors import CertsError
from tallygate_certs.renewal import SERVING_MARGIN, get_renewal_reason, is_ca_due
from tallygate_certs.secret_state import SecretState, compute_fingerprint, encode_pem, parse_ca_certificates


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
    """A folder: its CAs, the signing one first, its serving certificate, whether `renew` is due, and all problems."""

    ca_certificates: tuple[CertificateFacts, ...]
    serving: CertificateFacts | None
    is_renewal_due: bool
    problems: tuple[str, ...]


def inspect_certificates(folder: Path, now: datetime) -> CertificatesOverview:
    """Return the facts about the certificates in a folder, and their problems.

    Raises:
        CertsError: if a certificate file is there but cannot be read.
    """
    ca_certificates = read_ca_certificates(folder)
    chain = read_chain(folder)
    problems = _find_pair_problems(folder)
    if not ca_certificates or not chain:
        return CertificatesOverview(
            tuple(create_facts(certificate, now) for certificate in ca_certificates),
            None,
            is_renewal_due=False,
            problems=problems,
        )
    serving = chain[0]
    is_renewal_due = is_ca_due(ca_certificates[0], now) or bool(get_renewal_reason(serving, ca_certificates[0], now))
    problems += _find_chain_problems(serving, ca_certificates, now)
    return CertificatesOverview(
        tuple(create_facts(certificate, now) for certificate in ca_certificates),
        create_facts(serving, now),
        is_renewal_due,
        problems,
    )


def find_chain_problem(serving: x509.Certificate, ca_certificates: Sequence[x509.Certificate], now: datetime) -> str:
    """Return why a client that trusts these CAs refuses the certificate; empty if it accepts it (RFC 5280, 6)."""
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
    try:
        names = read_names(certificate).to_texts()
    except CertsError:
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


_LATE_MARGIN = SERVING_MARGIN - timedelta(days=2)  # a running gate renews long before


@dataclass(frozen=True, slots=True)
class ConfigurationTrust:
    """A webhook configuration, and whether its webhooks trust exactly the CAs of the Secret."""

    kind: str
    webhooks: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class SecretStatus:
    """The CAs, the newest first, the serving certificate, the configurations, unfinished changes and problems."""

    ca_certificates: tuple[CertificateFacts, ...]
    serving: CertificateFacts | None
    trust: tuple[ConfigurationTrust, ...]
    activities: tuple[str, ...]
    problems: tuple[str, ...]


def create_status(state: SecretState | None, webhook_trust: Sequence[WebhookTrust], now: datetime) -> SecretStatus:
    """Return the status of a Secret (None: it does not exist) and of the webhook configurations."""
    if state is None:
        return SecretStatus(
            (), None, _create_trust(SecretState(), webhook_trust), (), ("there is no such Secret: no gate has made it",)
        )
    return SecretStatus(
        tuple(create_facts(certificate, now) for certificate in state.ca_certificates),
        create_facts(state.serving.certificate, now) if state.serving else None,
        _create_trust(state, webhook_trust),
        _describe_activities(state),
        tuple(_find_problems(state, webhook_trust, now)),
    )


def _create_trust(state: SecretState, webhook_trust: Sequence[WebhookTrust]) -> tuple[ConfigurationTrust, ...]:
    bundle = encode_pem(state.ca_certificates)
    return tuple(
        ConfigurationTrust(
            trust.kind, len(trust.bundles), bool(bundle) and all(text == bundle for text in trust.bundles)
        )
        for trust in webhook_trust
    )


def _describe_activities(state: SecretState) -> tuple[str, ...]:
    activities = []
    if state.ca and state.serving and not state.serving.is_signed_by(state.ca.certificate):
        activities.append("a new authority is published; it signs what is served when every API server has taken it up")
    if state.ca_since and state.previous_cas:
        previous_cas = ", ".join(map(compute_fingerprint, state.previous_cas))
        activities.append(
            f"{previous_cas}: trusted until {get_retirement_time(state.ca_since):%Y-%m-%d}, when all that it has "
            "signed has expired"
        )
    if state.requested:
        activities.append(f"asked for: {state.requested}")
    return tuple(activities)


def _find_problems(state: SecretState, webhook_trust: Sequence[WebhookTrust], now: datetime) -> list[str]:
    problems = []
    if state.ca is None:
        problems.append("ca.crt and ca.key hold no authority that can sign; a gate that runs makes a new one")
    if state.serving is None:
        problems.append("tls.crt and tls.key hold no certificate with its key; a gate that runs makes a new one")
    elif not state.serving.is_trusted_by(state.ca_certificates, now):
        problems.append("the serving certificate has expired, or nothing in ca.crt has signed it")
    elif state.serving.certificate.not_valid_after_utc - now < _LATE_MARGIN:
        problems.append(
            "the serving certificate should have been renewed: see the gate's log, certificate-rotation-failed"
        )
    problems += [request_error] if (request_error := find_request_error(state)) else []
    return problems + [text for trust in webhook_trust if (text := _find_trust_problem(state, trust, now))]


def _find_trust_problem(state: SecretState, trust: WebhookTrust, now: datetime) -> str:
    """Return why the webhooks of a configuration do not trust the Secret's certificates; empty if they do."""
    distrusting = [
        text
        for text in trust.bundles
        if state.serving is None or not state.serving.is_trusted_by(parse_ca_certificates(text), now)
    ]
    if distrusting:
        return f"{len(distrusting)} of {len(trust.bundles)} webhooks of the {trust.kind} do not trust the certificate"
    if any(text != encode_pem(state.ca_certificates) for text in trust.bundles):
        return f"the {trust.kind} does not trust exactly what ca.crt says; a running gate corrects it within seconds"
    return ""
