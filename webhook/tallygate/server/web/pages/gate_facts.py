"""What a server of asks knows of itself and of its policies, and by name what only the gate or the API server knows.

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
from tallygate.server.asking.gate_replicas import GateReplica
from tallygate.server.interfaces import ReadinessCheck

_REPLICAS_NOT_KNOWN: Final = (
    "which replicas the gate has, and which of them leads, since this server may not list its Leases: "
    "`kubectl get leases -n tallygate-system`"
)
NOT_KNOWN: Final = (
    "whether the API server asks the gate, and the rights and the certificate of the gate: `tallygate doctor`",
)
"""What this server never knows, and where it is."""


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


class AskGate(msgspec.Struct, frozen=True, rename="camel"):
    """What this server knows; `notKnown` are sentences on what it does not know, and `replicas` then null."""

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
        now: returns the time.
    """

    get_policies: Callable[[], PolicySet]
    get_status: Callable[[], PolicyStatus]
    read_replicas: Callable[[], Sequence[GateReplica] | None]
    list_watches: Callable[[], Iterable[InformerStatus]]
    checks: Sequence[ReadinessCheck]
    now: Callable[[], datetime]


def describe_gate(sources: GateSources) -> AskGate:
    """Return what is known now."""
    policies, status, now = sources.get_policies(), sources.get_status(), sources.now()
    findings = sorted({*status.warnings, *lint_ended_overrides(policies, now)})
    statuses, replicas = [check() for check in sources.checks], sources.read_replicas()
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
        NOT_KNOWN if replicas is not None else (_REPLICAS_NOT_KNOWN, *NOT_KNOWN),
    )


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
