"""The inspection of the gate by a server of asks: certificates, and those checks of `doctor` that it can make.

It runs in a pod beside the gate, with rights to read a part. Facts that need more are left out; a check that meets such
a fact is reported as not run, unless it has found a fault without it.
"""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509

from tallygate.answers.usage_report import format_time
from tallygate.cli.doctor.certificate_chain import CertificateChainError, find_distrust, load_certificates
from tallygate.cli.doctor.check_result import Check, CheckStatus
from tallygate.cli.doctor.command import CHECKS, collapse_whitespace
from tallygate.cli.doctor.facts import GateFacts, NotRead, ServedCertificate, Unavailable, WorkloadFacts
from tallygate.cli.doctor.gather import DoctorRequest, gather_facts_of_pod
from tallygate.cli.doctor.listed_facts import ClusterLists, ListedFacts
from tallygate.cli.doctor.mounted_policies import GATE_NAME
from tallygate.errors import TallygateError
from tallygate.server.asking.answerer import OpenState
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.gate_inspection import CertificateRecord, GateCheckRecord, Inspection, InspectionRequest
from tallygate.state.kubernetes.ask_address_store import ASK_NAME, CA_KEY, AskAddress, AskAddressStore
from tallygate_certs.certificate_parser import PARSE_ERRORS

_STATE_SECONDS: Final = 5.0
_MAX_NAMES: Final = 50
_MAX_CHARACTERS: Final = 2000  # of a reason or a command: one may name thousands of namespaces
_CA_SOURCE: Final = f"{CA_KEY} of the ConfigMap {ASK_NAME}"


def inspect_gate(request: InspectionRequest) -> Inspection:
    """Return what is found now.

    Raises:
        TallygateError: if the API server cannot be reached.
    """
    listed = _take_lists(request.open_state)
    asked = DoctorRequest(request.namespace, request.policies)
    facts = gather_facts_of_pod(request.client_config, asked, listed)
    certificates = [_describe_gate_certificate(facts), _describe_own_certificate(request, facts.now)]
    return Inspection(datetime.now(UTC), certificates, [run_check(each, facts) for each in CHECKS])


def _take_lists(open_state: OpenState) -> ListedFacts:
    """Return what the watches have; asks wait meanwhile, some milliseconds."""
    try:
        with open_state(_STATE_SECONDS) as opened:
            return ClusterLists.take(opened.state).read_without_pods()
    except AskError as error:
        return ListedFacts(*[Unavailable(error.message)] * len(ListedFacts._fields))


class _Recorder:
    """Facts that record those of them that were left out, when a check reads them."""

    left_out: list[NotRead]

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if isinstance(value, NotRead):
            self.left_out.append(value)
        return value


class _RecordedFacts(_Recorder, GateFacts):
    """The facts."""


class _RecordedWorkloads(_Recorder, WorkloadFacts):
    """The facts about kinds of other projects."""


def run_check(check: Check, facts: GateFacts) -> GateCheckRecord:
    """Return the result of a check; without a fact that was left out, only a fault that it finds is a result."""
    left_out: list[NotRead] = []
    workloads = _RecordedWorkloads(facts.workloads.known, facts.workloads.served, facts.workloads.unread)
    recorded = _RecordedFacts(
        **{each.name: getattr(replace(facts, workloads=workloads), each.name) for each in fields(facts)}
    )
    for made in (workloads, recorded):
        object.__setattr__(made, "left_out", left_out)  # they are frozen
    result = collapse_whitespace(check.run(recorded))
    if left_out and result.status in {CheckStatus.PASS, CheckStatus.UNKNOWN}:
        needs = "; ".join(dict.fromkeys(each.reason for each in left_out))
        return GateCheckRecord(check.name, check.title, "NOT RUN", f"needs {needs}", ())
    commands = [command for command in result.fix_commands if len(command) <= _MAX_CHARACTERS]
    return GateCheckRecord(check.name, check.title, result.status.value, _shorten(result.reason), commands)


def _shorten(reason: str) -> str:
    if len(reason) <= _MAX_CHARACTERS:
        return reason
    return f"{reason[:_MAX_CHARACTERS]} … and {len(reason) - _MAX_CHARACTERS} characters more"


def _describe_gate_certificate(facts: GateFacts) -> CertificateRecord:
    """Return the certificate that the gate has shown in a handshake."""
    host = f"{GATE_NAME}.{facts.location.namespace}.svc"
    server, served = f"the gate, {host}", facts.served_certificate
    if not isinstance(served, ServedCertificate):
        reason = served.reason if isinstance(served, Unavailable) else "it shows none"
        return _describe_failure(server, reason)
    try:
        leaf = load_certificates(served.certificate)[0]
    except CertificateChainError as error:
        return _describe_failure(server, str(error))
    if not served.trust_failures:
        problem = facts.registration_problem or "no webhook has a caBundle"
        return _describe(server, leaf, facts.now, trusted=None, problem=problem)
    failures = [failure for failure in served.trust_failures.values() if failure]
    return _describe(server, leaf, facts.now, trusted=not failures, problem=next(iter(failures), None))


def _describe_own_certificate(request: InspectionRequest, now: datetime) -> CertificateRecord:
    """Return the certificate in the file of this server, for those who trust the published CAs."""
    host = f"{ASK_NAME}.{request.namespace}.svc"
    try:
        address = AskAddressStore(request.client_config, request.namespace).read()
    except TallygateError as error:
        address, problem = AskAddress("", ""), f"the ConfigMap {ASK_NAME} cannot be read: {error}"
    else:
        host = urlsplit(address.url).hostname or host
        problem = "" if address.ca_bundle else f"there is no {_CA_SOURCE}"
    server = f"serve-ask, {host}"
    try:
        chain = load_certificates((request.certificate_file or Path()).read_bytes())
        trusted = load_certificates(address.ca_bundle.encode()) if address.ca_bundle else ()
    except (OSError, CertificateChainError) as error:
        return _describe_failure(server, str(error))
    if problem:
        return _describe(server, chain[0], now, trusted=None, problem=problem)
    distrust = find_distrust(chain, trusted, host, now, _CA_SOURCE)
    return _describe(server, chain[0], now, trusted=not distrust, problem=distrust or None)


def _describe_failure(server: str, reason: str) -> CertificateRecord:
    return CertificateRecord(server, (), None, None, None, None, reason)


def _describe(
    server: str, leaf: x509.Certificate, now: datetime, *, trusted: bool | None, problem: str | None
) -> CertificateRecord:
    end = leaf.not_valid_after_utc
    return CertificateRecord(
        server,
        _list_names(leaf)[:_MAX_NAMES],
        leaf.issuer.rfc4514_string(),
        format_time(end),
        (end - now) // timedelta(days=1),
        trusted,
        problem,
    )


def _list_names(leaf: x509.Certificate) -> list[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, *PARSE_ERRORS):
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
