"""What a server of asks knows of itself, its policies and the gate, and by name what it does not know.

It is for admins: policies and their findings have texts that their authors wrote.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from tallygate.answers.columns import API_VERSION
from tallygate.answers.usage_report import format_time
from tallygate.kube.informer import InformerStatus
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.lint_overrides import lint_ended_overrides
from tallygate.policy.model import PolicySet, SourceLocation
from tallygate.policy.store import PolicyStatus
from tallygate.server.asking.gate_inspection import CertificateRecord, GateCheckRecord, Inspection
from tallygate.server.asking.gate_replicas import GateReplica
from tallygate.server.interfaces import ReadinessCheck

_REPLICAS_NOT_KNOWN: Final = (
    "which replicas the gate has, and which of them leads, since this server may not list its Leases: "
    "`kubectl get leases -n tallygate-system`"
)
_NOT_SHOWN: Final = (
    "certificates and the checks of `tallygate doctor`: who may list the configurations of webhooks and ResourceQuotas "
    "sees them"
)
_NOT_INSPECTED: Final = (
    "certificates and the checks of `tallygate doctor`: they are being read. Open the page again in some seconds"
)
NOT_RUN: Final = "what the checks need that are not run here: `tallygate doctor` makes them with your own rights"
"""The facts that this server lacks beside an inspection, and their places."""


class PolicyRecord(msgspec.Struct, frozen=True):
    """A policy with its place; `file` is null for a kind whose place is not kept."""

    kind: str
    name: str
    file: str | None
    line: int | None


class LintRecord(msgspec.Struct, frozen=True):
    """A finding of `tallygate lint`; one of a `rejected` set is about files that have mistakes, and are not active."""

    file: str
    line: int
    column: int
    level: str
    code: str
    message: str
    rejected: bool


class WatchRecord(msgspec.Struct, frozen=True):
    """The watch of a resource: its objects, the seconds since it was surely current, and why it is stale."""

    resource: str
    objects: int
    age: float | None
    stale: str | None


class CheckRecord(msgspec.Struct, frozen=True):
    """A readiness check of this server."""

    name: str
    ready: bool
    detail: Mapping[str, Any]


class ReplicaRecord(msgspec.Struct, frozen=True):
    """A replica of the gate, and the time at which it renewed its Lease."""

    identity: str
    leader: bool
    renewed: str | None


class InspectionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The latest inspection of the gate, and its age in seconds."""

    as_of: str
    age: float
    certificates: Sequence[CertificateRecord]
    checks: Sequence[GateCheckRecord]


class AskGate(msgspec.Struct, frozen=True, rename="camel"):
    """What this server knows; `notKnown` are sentences on what it does not know.

    `replicas` and `inspection` are then null.
    """

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskGate"]
    as_of: str
    digest: str
    loaded_at: str
    policies: Sequence[PolicyRecord]
    findings: Sequence[LintRecord]
    replicas: Sequence[ReplicaRecord] | None
    watches: Sequence[WatchRecord]
    checks: Sequence[CheckRecord]
    inspection: InspectionRecord | None
    not_known: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSources:
    """Where the facts come from.

    Args:
        get_policies: returns the active policies.
        get_status: returns the status of the policy files.
        read_replicas: returns the replicas of the gate, None if they are not known.
        list_watches: returns the status of each watch.
        checks: the readiness checks of this server.
        get_inspection: returns the latest inspection of the gate, None before the first one.
        now: returns the time.
    """

    get_policies: Callable[[], PolicySet]
    get_status: Callable[[], PolicyStatus]
    read_replicas: Callable[[], Sequence[GateReplica] | None]
    list_watches: Callable[[], Iterable[InformerStatus]]
    checks: Sequence[ReadinessCheck]
    get_inspection: Callable[[], Inspection | None]
    now: Callable[[], datetime]


def describe_gate(sources: GateSources, *, shows_inspection: bool) -> AskGate:
    """Return what is known now, with the inspection of the gate for those who may read what it is about."""
    policies, status, now = sources.get_policies(), sources.get_status(), sources.now()
    findings = sorted({*status.warnings, *lint_ended_overrides(policies, now)})
    statuses, replicas = [check() for check in sources.checks], sources.read_replicas()
    inspection = sources.get_inspection() if shows_inspection else None
    unknown = _NOT_SHOWN if not shows_inspection else _NOT_INSPECTED if inspection is None else NOT_RUN
    return AskGate(
        API_VERSION,
        "AskGate",
        format_time(now),
        policies.digest,
        format_time(status.loaded_at),
        list(_list_policies(policies)),
        [
            *(_convert_finding(finding, is_rejected=True) for finding in status.rejected_findings),
            *(_convert_finding(finding, is_rejected=False) for finding in findings),
        ],
        None if replicas is None else list(map(_convert_replica, replicas)),
        [WatchRecord(each.name, each.objects, each.age, each.stale) for each in sources.list_watches()],
        [CheckRecord(each.name, each.ready, each.detail) for each in statuses],
        None if inspection is None else _convert_inspection(inspection, now),
        (unknown,) if replicas is not None else (_REPLICAS_NOT_KNOWN, unknown),
    )


def _convert_inspection(inspection: Inspection, now: datetime) -> InspectionRecord:
    age = round(max(0.0, (now - inspection.ended_at).total_seconds()), 1)
    return InspectionRecord(format_time(inspection.ended_at), age, inspection.certificates, inspection.checks)


def _convert_replica(replica: GateReplica) -> ReplicaRecord:
    renewed = None if replica.renewed is None else format_time(replica.renewed)
    return ReplicaRecord(replica.identity, replica.is_leader, renewed)


def _list_policies(policies: PolicySet) -> Iterator[PolicyRecord]:
    for rule in policies.rules:
        yield _create_record("ResourceRule", rule.name, rule.location)
    for cap in policies.caps:
        yield _create_record("NamespaceCap", cap.name, cap.location)
    for request in policies.implied_requests:
        yield _create_record("ImpliedRequest", request.name, request.location)
    for kind in policies.workload_kinds:
        yield PolicyRecord("WorkloadKind", f"{kind.kind}.{kind.group}", None, None)
    for resource in policies.node_resources:
        yield PolicyRecord("NodeResource", resource.name, None, None)
    for shape in policies.node_shapes:
        yield PolicyRecord("NodeShape", shape.name, None, None)


def _create_record(kind: str, name: str, location: SourceLocation) -> PolicyRecord:
    return PolicyRecord(kind, name, location.file, location.line)


def _convert_finding(finding: LintFinding, *, is_rejected: bool) -> LintRecord:
    place = finding.file, finding.line, finding.column
    return LintRecord(*place, finding.severity.value, finding.code, finding.message, is_rejected)
