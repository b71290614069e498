"""The comparison of ledgers with the pods.

A ledger has the used amounts at a revision (`pods_revision`), and the pods are listed after the ledger was read. Some
pods must be in the used amounts with their present charge: those unchanged since that revision, those created well
before it, and those so old that any gate must have counted them. A gate does not recount after a change of a pod that
leaves its charge unchanged. Any other pod may be counted with any amount up to its charge, or up to the charge that it
would have if it had not ended. A pod that was deleted since leaves no trace, and a resized pod cannot be distinguished
from an unchanged one: so a difference is checked again until a gate has had the time to recount
(`webhook.cli.usage.command`).

A reservation is in flight while its pod does not exist, or has changed after `pods_revision`. Otherwise the recount
should have released the reservation of a creation, and the reservation of an update must be based on the charge of its
pod (docs/design/caps.md, rule 4).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tallygate.webhook.accounting.amounts import Amounts, format_amount
from tallygate.webhook.accounting.quantity_parser import QuantityError
from tallygate.webhook.admission.cap_index import ActiveCap
from tallygate.webhook.cli.output.tables import align_rows
from tallygate.webhook.cli.sources.cap_ledger_list import CapLedgerRecord
from tallygate.webhook.cli.sources.observed_cluster import ObservedCluster
from tallygate.webhook.cli.usage.usage_report import ChosenLedger
from tallygate.webhook.cli.usage.usage_table import format_scope
from tallygate.webhook.state.informers.consumer_columns import StoredConsumer
from tallygate.webhook.state.informers.pod_records import ChargeGroup
from tallygate.webhook.state.ledger.ledger import Ledger, Operation

_NO_AMOUNTS = Amounts()
_CLOCK_SKEW_SECONDS = 10.0
"""The allowed difference between the clocks of gate and API server, beyond their resolution of a second."""
_MAX_COUNT_DELAY_SECONDS = 60.0
"""A running gate counts a pod within a second or two; the rest allows for many ledgers, and for clocks."""


class Drift(NamedTuple):
    """A wrong number of a ledger; `pod` is the pod of the reservation, empty for the used amounts."""

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
    """The charges of pods that must be counted as they are, and of pods that may be counted with less.

    `by_uid` has the charges of the pods that are unchanged since the recount.
    """

    certain: Counter[str] = field(default_factory=Counter)
    uncertain: Counter[str] = field(default_factory=Counter)
    by_uid: dict[str, Amounts] = field(default_factory=dict)


def find_comparable_ledger(cluster: ObservedCluster, chosen: ChosenLedger) -> CapLedgerRecord | None:
    """Return the ledger if it exists, has been counted and is active, else None."""
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
    """Yield the numbers of a ledger that differ from the pods, none if it is not comparable."""
    ledger_record = find_comparable_ledger(cluster, chosen)
    if ledger_record is None or ledger_record.ledger is None:
        return
    ledger, counted = ledger_record.ledger, _sum_pods(cluster, chosen, ledger_record)
    names = sorted(ledger.resources & chosen.active_cap.resources)
    yield from _compare_used(chosen, ledger, counted, names)
    yield from _compare_reservations(chosen, ledger, counted.by_uid, names)


def format_drift(drifts: list[Drift]) -> list[str]:
    """Return the drifts as an aligned table."""
    header = ("CAP", "NAMESPACE", "RESOURCE", "POD", "LEDGER", "PODS", "REASON")
    return align_rows(
        header,
        [
            (
                drift.cap,
                format_scope(drift.namespace, drift.members),
                drift.name,
                drift.pod or "(used)",
                format_amount(drift.name, drift.ledger),
                format_amount(drift.name, drift.pods),
                drift.reason,
            )
            for drift in drifts
        ],
    )


def convert_drift(drift: Drift) -> dict[str, Any]:
    """Return a drift as plain data; amounts are milli-cpu for cpu and whole units otherwise."""
    return {
        "cap": drift.cap,
        "namespace": drift.namespace or None,
        "namespaces": drift.members,
        "resource": drift.name,
        "pod": drift.pod or None,
        "ledger": drift.ledger,
        "pods": drift.pods,
        "reason": drift.reason,
    }


def _compare_used(chosen: ChosenLedger, ledger: Ledger, counted: _CountedAmounts, names: list[str]) -> Iterator[Drift]:
    for name in names:
        ledger_used, minimum, margin = ledger.used.get(name, 0), counted.certain[name], counted.uncertain[name]
        if ledger_used < minimum:
            reason = f"{format_amount(name, minimum - ledger_used)} less than the pods use that must have been counted"
            yield _create_drift(chosen, "", name, ledger_used, minimum, reason)
        elif ledger_used > minimum + margin:
            excess_text = f"{format_amount(name, ledger_used - minimum - margin)} more than the pods use"
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
                reason = "a reservation to create a pod that is already counted: the pod is charged twice"
                yield _create_drift(chosen, pod, name, requested, used, reason)
            elif reservation.operation is Operation.UPDATE and counted != used:
                reason = "a reservation to update a pod that is counted with another amount than the pod uses"
                yield _create_drift(chosen, pod, name, counted, used, reason)


def _create_drift(chosen: ChosenLedger, pod: str, name: str, ledger: int, pods: int, reason: str) -> Drift:  # noqa: PLR0913, PLR0917 -- a Drift, field by field
    return Drift(
        chosen.active_cap.definition.name, chosen.key.namespace, len(chosen.members), pod, name, ledger, pods, reason
    )


def _sum_pods(cluster: ObservedCluster, chosen: ChosenLedger, ledger_record: CapLedgerRecord) -> _CountedAmounts:
    counted, charges = _CountedAmounts(), dict[ChargeGroup, Amounts]()
    pods_revision, created_before = (
        ledger_record.ledger.pods_revision if ledger_record.ledger else 0,
        _get_creation_limit(cluster, ledger_record),
    )
    for namespace in chosen.members:
        for pod in cluster.pods.list_all(namespace):
            if pod.group not in charges:
                charges[pod.group] = _compute_charge(chosen.active_cap, pod)
            charge = charges[pod.group]
            if pod.revision <= pods_revision:
                counted.by_uid[pod.uid] = _NO_AMOUNTS if pod.has_ended else charge
                counted.certain.update(counted.by_uid[pod.uid])
            elif not pod.has_ended and cluster.stores.creation_times.get(pod.uid, created_before) < created_before:
                counted.certain.update(charge)
            else:
                counted.uncertain.update(charge)
    return counted


def _get_creation_limit(cluster: ObservedCluster, ledger_record: CapLedgerRecord) -> float:
    """Return the time, in seconds since 1970, such that pods created before it are in the used amounts."""
    counted_before = ledger_record.counted_at.timestamp() - _CLOCK_SKEW_SECONDS if ledger_record.counted_at else 0.0
    return max(counted_before, cluster.read_at - _MAX_COUNT_DELAY_SECONDS if cluster.read_at else 0.0)


def _compute_charge(active_cap: ActiveCap, pod: StoredConsumer) -> Amounts:
    """Return the charge of a pod of this group, unless it has ended; a pod with an invalid quantity charges nothing."""
    try:
        return active_cap.compute_charge(pod.group.to_pod()).amounts
    except QuantityError:
        return _NO_AMOUNTS
