"""Whether ledgers say what the pods hold.

A ledger says what it counted at a revision (`asOf`), and the pods are listed after it was read. A pod that has not
changed since then, or was created well before, or so long ago that any gate must have counted it, is to be in the tally
with what it holds now: what changes a pod without changing its cost is no reason to count anew. Any other may have been
counted with anything up to what it holds, or would hold had it not ended. One that was deleted since leaves no trace,
and one that was resized is not told from one that was not: so what differs is looked at again, until a gate has had the
time to count anew (`asking`).

A row is a promise in flight as long as its pod is not there, or has changed after `asOf`. Else a creation's should have
been settled when the ledger was counted, and a change's must be based on what its pod holds (docs/caps.md, rule 4).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.cap_index import ActiveCap
from webhook.cli.output.tables import align_rows
from webhook.cli.sources.cap_ledger_list import CapLedgerRecord
from webhook.cli.sources.observed_cluster import ObservedCluster
from webhook.cli.usage.usage_report import ChosenLedger
from webhook.cli.usage.usage_table import format_scope
from webhook.state.ledger.ledger import Ledger, Operation
from webhook.state.watch.columns import Place
from webhook.state.watch.shapes import Shape

_NO_AMOUNTS = Amounts()
_CLOCK_SKEW_SECONDS = 10.0
"""What the clocks of gate and API server may be apart, beside the second to which both are told."""
_MAX_COUNT_DELAY_SECONDS = 60.0
"""A gate that runs counts a pod within a second or two; the rest is for many ledgers, and for clocks."""


class Drift(NamedTuple):
    """One number of a ledger that is wrong; `pod` is whose row it is in, empty for the tally."""

    cap: str
    namespace: str
    members: int
    pod: str
    name: str
    ledger: int
    pods: int
    reason: str


@dataclass
class _CountedAmounts:
    """What pods hold that are as they were counted, and what those may have been counted with that are not."""

    certain: Counter[str] = field(default_factory=Counter)
    uncertain: Counter[str] = field(default_factory=Counter)
    by_uid: dict[str, Amounts] = field(default_factory=dict)


def find_comparable_ledger(cluster: ObservedCluster, chosen: ChosenLedger) -> CapLedgerRecord | None:
    """The ledger, if there is one that has been counted."""
    ledger_record = cluster.ledgers.records.get(chosen.key)
    return (
        ledger_record
        if ledger_record
        and ledger_record.ledger
        and ledger_record.ledger.pods_revision
        and not ledger_record.ledger.initializer
        else None
    )


def find_drift(cluster: ObservedCluster, chosen: ChosenLedger) -> Iterator[Drift]:
    """What a ledger says otherwise than the pods; nothing where it is not `comparable`."""
    ledger_record = find_comparable_ledger(cluster, chosen)
    if ledger_record is None or ledger_record.ledger is None:
        return
    ledger, counted = ledger_record.ledger, _sum_pods(cluster, chosen, ledger_record)
    names = sorted(ledger.resources & chosen.active_cap.resources)
    yield from _compare_used(chosen, ledger, counted, names)
    yield from _compare_reservations(chosen, ledger, counted.by_uid, names)


def format_drift(drifts: list[Drift]) -> list[str]:
    """The same for a person."""
    header = ("CAP", "NAMESPACE", "RESOURCE", "POD", "LEDGER", "PODS", "WHAT")
    return align_rows(
        header,
        [
            (
                drift.cap,
                format_scope(drift.namespace, drift.members),
                drift.name,
                drift.pod or "(tally)",
                format_amount(drift.name, drift.ledger),
                format_amount(drift.name, drift.pods),
                drift.reason,
            )
            for drift in drifts
        ],
    )


def convert_drift(drift: Drift) -> dict[str, Any]:
    """The same for a program; amounts are milli-cpu for cpu and whole units otherwise."""
    return {
        "cap": drift.cap,
        "namespace": drift.namespace or None,
        "namespaces": drift.members,
        "resource": drift.name,
        "pod": drift.pod or None,
        "ledger": drift.ledger,
        "pods": drift.pods,
        "why": drift.reason,
    }


def _compare_used(chosen: ChosenLedger, ledger: Ledger, counted: _CountedAmounts, names: list[str]) -> Iterator[Drift]:
    for name in names:
        ledger_used, minimum, margin = ledger.used.get(name, 0), counted.certain[name], counted.uncertain[name]
        if ledger_used < minimum:
            reason = f"{format_amount(name, minimum - ledger_used)} less than pods hold that must have been counted"
            yield _create_drift(chosen, "", name, ledger_used, minimum, reason)
        elif ledger_used > minimum + margin:
            excess_text = f"{format_amount(name, ledger_used - minimum - margin)} more than pods hold"
            reason = f"{excess_text}; pods may have been deleted while no gate counts"
            yield _create_drift(chosen, "", name, ledger_used, minimum + margin, reason)


def _compare_reservations(
    chosen: ChosenLedger, ledger: Ledger, amounts_by_uid: Mapping[str, Amounts], names: list[str]
) -> Iterator[Drift]:
    for uid, reservation in ledger.reservations.items():
        if uid not in amounts_by_uid:
            continue
        pod_amounts, pod = amounts_by_uid[uid], f"{reservation.namespace}/{reservation.name}"
        for name in names:
            used, counted, requested = (
                pod_amounts.get(name, 0),
                reservation.counted.get(name, 0),
                reservation.requested.get(name, 0),
            )
            if reservation.operation is Operation.CREATE and requested > counted:
                reason = "a promise to create a pod that is counted already: it is charged twice"
                yield _create_drift(chosen, pod, name, requested, used, reason)
            elif reservation.operation is Operation.UPDATE and counted != used:
                reason = "a promise to change a pod that is counted with another amount than it holds"
                yield _create_drift(chosen, pod, name, counted, used, reason)


def _create_drift(chosen: ChosenLedger, pod: str, name: str, ledger: int, pods: int, reason: str) -> Drift:  # noqa: PLR0913, PLR0917 -- a Drift, field by field
    return Drift(
        chosen.active_cap.definition.name, chosen.key.namespace, len(chosen.members), pod, name, ledger, pods, reason
    )


def _sum_pods(cluster: ObservedCluster, chosen: ChosenLedger, ledger_record: CapLedgerRecord) -> _CountedAmounts:
    counted, charges = _CountedAmounts(), dict[Shape, Amounts]()
    pods_revision, created_before = (
        ledger_record.ledger.pods_revision if ledger_record.ledger else 0,
        _get_creation_limit(cluster, ledger_record),
    )
    for namespace in chosen.members:
        for pod in cluster.pods.within(namespace):
            if pod.shape not in charges:
                charges[pod.shape] = _compute_charge(chosen.active_cap, pod)
            charge = charges[pod.shape]
            if pod.revision <= pods_revision:
                counted.by_uid[pod.uid] = _NO_AMOUNTS if pod.has_ended else charge
                counted.certain.update(counted.by_uid[pod.uid])
            elif not pod.has_ended and cluster.stores.creation_times.get(pod.uid, created_before) < created_before:
                counted.certain.update(charge)
            else:
                counted.uncertain.update(charge)
    return counted


def _get_creation_limit(cluster: ObservedCluster, ledger_record: CapLedgerRecord) -> float:
    """Pods created before that are in the tally, whatever of them has changed since."""
    counted_before = ledger_record.counted_at.timestamp() - _CLOCK_SKEW_SECONDS if ledger_record.counted_at else 0.0
    return max(counted_before, cluster.read_at - _MAX_COUNT_DELAY_SECONDS if cluster.read_at else 0.0)


def _compute_charge(active_cap: ActiveCap, pod: Place) -> Amounts:
    """What a pod of this shape holds, unless it has ended; one that cannot be read is counted with nothing."""
    try:
        return active_cap.compute_charge(pod.shape.pod()).amounts
    except QuantityError:
        return _NO_AMOUNTS
