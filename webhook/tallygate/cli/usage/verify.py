"""The comparison of ledgers with the pods and the claims for devices.

A ledger has the used amounts at a revision (`pods_revision`), and the pods are listed after the ledger was read. Some
pods must be in the used amounts with their present charge: those unchanged since that revision, those created well
before it, and those so old that any gate must have counted them. A gate does not recount after a change of a pod that
leaves its charge unchanged. Any other pod may be counted with any amount up to its charge, or up to the charge that it
would have if it had not ended. A pod that was deleted since leaves no trace, and a resized pod cannot be distinguished
from an unchanged one: so a difference is checked again until a gate has had the time to recount
(`tallygate.cli.usage.command`).

Claims are compared in the same way by `claims_revision`, and their devices by the present slices: a gate recounts soon
after a change of slices, too. A claim that kube-scheduler made for a pod may be counted with
any amount up to its charge if it or the pod has changed since: the ledger counts one of the two, or for a moment both.

A reservation may still be needed while its pod or claim does not exist, or has changed after the revision. Otherwise
the recount should have released the reservation of a creation, and the reservation of an update must be based on the
charge of its consumer (docs/design/caps.md, rule 4).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import ActiveCap
from tallygate.answers.columns import Column, Columns
from tallygate.answers.usage_columns import SCOPE, create_amount
from tallygate.answers.usage_report import SOURCE_MARK, ChosenLedger
from tallygate.cluster.cap_ledger_list import CapLedgerRecord
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumers import CountedClaim, CountedDevices
from tallygate.cluster.kinds import CLAIMS, CLASSES, SLICES
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation

_CLOCK_SKEW_SECONDS = 10.0
"""The allowed difference between the clocks of gate and API server, beyond their resolution of a second."""
_MAX_COUNT_DELAY_SECONDS = 60.0
"""A running gate counts a pod within a second or two; the rest allows for many ledgers, and for clocks."""


class Drift(NamedTuple):
    """A wrong number of a ledger; `consumer` is that of the reservation, empty for the used amounts.

    `stored` is the amount by the stored pods and claims.
    """

    cap: str
    namespace: str
    members: int
    consumer: str
    name: str
    ledger: int
    stored: int
    reason: str
    kind: ConsumerKind = ConsumerKind.POD
    group: str = ""


@dataclass
class _CountedAmounts:
    """The charges of consumers that must be counted as they are, and of those that may be counted with less.

    `by_uid` has the charges of the consumers that are unchanged since the recount.
    """

    certain: Counter[str] = field(default_factory=Counter)
    uncertain: Counter[str] = field(default_factory=Counter)
    by_uid: dict[str, Amounts] = field(default_factory=dict)


def find_comparable_ledger(cluster: ClusterState, chosen: ChosenLedger) -> CapLedgerRecord | None:
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


def find_drift(cluster: ClusterState, chosen: ChosenLedger) -> Iterator[Drift]:
    """Yield the numbers of a ledger that differ from pods and claims, none if it is not comparable."""
    ledger_record = find_comparable_ledger(cluster, chosen)
    if ledger_record is None or ledger_record.ledger is None:
        return
    ledger, counted = ledger_record.ledger, _sum_consumers(cluster, chosen, ledger_record, ledger_record.ledger)
    names = sorted((ledger.resources & chosen.active_cap.resources) - find_incomparable(cluster, chosen).keys())
    yield from _compare_used(chosen, ledger, counted, names)
    yield from _compare_reservations(chosen, ledger, counted.by_uid, names)


def find_incomparable(cluster: ClusterState, chosen: ChosenLedger) -> dict[str, str]:
    """Return the names under which a ledger cannot be compared, each with the reason."""
    cap, ledger = chosen.active_cap, cluster.find_ledger(chosen.key)
    if ledger is None:
        return {}
    reasons: dict[str, str] = {}
    if cap.device_meters:
        claims = cluster.list_claims(cap, chosen.members, ledger)
        unknown = frozenset[str]().union(*(claim.allocated.unknown for claim in claims))
        reasons |= dict.fromkeys(unknown, "the attributes and capacities of some devices are unknown")
        if not cluster.knows(SLICES):
            reasons |= dict.fromkeys(cap.device_meters, cluster.describe_problem(SLICES))
    if not cluster.knows(CLAIMS):
        reason = cluster.describe_problem(CLAIMS)
        reasons |= dict.fromkeys((*cap.device_sources, *cap.device_meters), reason)
    counted = {text for text in ledger.resources if SOURCE_MARK in text}
    for text in cap.list_sources(cap.resources) ^ counted:
        name = text.partition(SOURCE_MARK)[0]
        reasons[name] = _explain_other_sources(cluster, is_by_allocation=name in cap.device_meters)
    reasons |= dict.fromkeys(cap.device_meters.keys() - ledger.resources, "the ledger does not count it")
    return {name: reason for name, reason in reasons.items() if name in ledger.resources | cap.device_meters.keys()}


def _explain_other_sources(cluster: ClusterState, *, is_by_allocation: bool) -> str:
    """Return why a ledger counts a name by other ways to a device than the known ones."""
    if is_by_allocation:
        return "its ledgers count by another definition than these policies have"
    missing = "; ".join(cluster.describe_problem(kind) for kind in (CLAIMS, CLASSES) if not cluster.knows(kind))
    return missing or "its ledgers count other classes of devices than the cluster has"


def _format_consumer(drift: Drift) -> str:
    return f"resourceclaim {drift.consumer}" if drift.kind is ConsumerKind.CLAIM else drift.consumer or "(used)"


DRIFTS = Columns[Drift](
    *SCOPE.columns,
    Column("CONSUMER", "", _format_consumer),
    Column("", "pod", lambda drift: (drift.consumer or None) if drift.kind is ConsumerKind.POD else None),
    Column("", "claim", lambda drift: drift.consumer if drift.kind is ConsumerKind.CLAIM else None),
    create_amount("LEDGER", "ledger"),
    create_amount("STORED", "pods", "stored"),
    Column("REASON", "reason"),
)


def _compare_used(chosen: ChosenLedger, ledger: Ledger, counted: _CountedAmounts, names: list[str]) -> Iterator[Drift]:
    for name in names:
        consumers = _name_consumers(chosen.active_cap, name)
        ledger_used, minimum, margin = ledger.used.get(name, 0), counted.certain[name], counted.uncertain[name]
        if ledger_used < minimum:
            shortfall_text = f"{format_amount(name, minimum - ledger_used)} less than the {consumers} use"
            reason = f"{shortfall_text} that must have been counted"
            yield _create_drift(chosen, name, ledger_used, minimum, reason)
        elif ledger_used > minimum + margin:
            excess_text = f"{format_amount(name, ledger_used - minimum - margin)} more than the {consumers} use"
            reason = f"{excess_text}; {consumers} may have been deleted while no gate counts"
            yield _create_drift(chosen, name, ledger_used, minimum + margin, reason)


def _name_consumers(cap: ActiveCap, name: str) -> str:
    if name in cap.device_meters:
        return "claims"
    return "pods and claims" if cap.device_sources else "pods"


def _compare_reservations(
    chosen: ChosenLedger, ledger: Ledger, amounts_by_uid: Mapping[str, Amounts], names: list[str]
) -> Iterator[Drift]:
    for uid, reservation in ledger.reservations.items():
        if uid not in amounts_by_uid:
            continue
        stored_amounts, kind = amounts_by_uid[uid], reservation.kind
        for name in names:
            used, counted, requested = (
                stored_amounts.get(name, 0),
                reservation.counted.get(name, 0),
                reservation.requested.get(name, 0),
            )
            if reservation.operation is Operation.CREATE and requested > counted:
                reason = f"a reservation to create a {kind} that is already counted: the {kind} is charged twice"
                yield _create_drift(chosen, name, requested, used, reason, reservation)
            elif reservation.operation is Operation.UPDATE and counted != used:
                reason = f"a reservation to update a {kind} that is counted with another amount than the {kind} uses"
                yield _create_drift(chosen, name, counted, used, reason, reservation)


def _create_drift(  # noqa: PLR0913, PLR0917 -- a Drift, field by field
    chosen: ChosenLedger, name: str, ledger: int, stored: int, reason: str, reservation: Reservation | None = None
) -> Drift:
    consumer = f"{reservation.namespace}/{reservation.name}" if reservation else ""
    kind = reservation.kind if reservation else ConsumerKind.POD
    cap = chosen.active_cap.definition.name
    identity, group = (cap, chosen.key.namespace, len(chosen.members)), chosen.active_cap.group
    return Drift(*identity, consumer, name, ledger, stored, reason, kind, group)


def _sum_consumers(
    cluster: ClusterState, chosen: ChosenLedger, ledger_record: CapLedgerRecord, ledger: Ledger
) -> _CountedAmounts:
    """Return the pods and claims that the ledger has counted, or may have."""
    counted, created_before = _CountedAmounts(), _get_creation_limit(cluster, ledger_record)
    for consumer in cluster.list_consumers(chosen.active_cap, chosen.members, ledger, by_pod=True):
        match consumer.origin:
            case StoredConsumer() as pod:
                is_old = 0 < pod.created < created_before
                _add_pod(counted, pod, consumer.amounts, ledger, is_old=is_old)
            case CountedClaim() as claim:
                is_old = 0 < claim.claim.created < created_before
                _add_claim(counted, claim, chosen.active_cap, ledger, is_old=is_old)
    return counted


def _add_pod(counted: _CountedAmounts, pod: StoredConsumer, charge: Amounts, ledger: Ledger, *, is_old: bool) -> None:
    if pod.revision <= ledger.pods_revision:
        counted.by_uid[pod.uid] = NO_AMOUNTS if pod.has_ended else charge
        counted.certain.update(counted.by_uid[pod.uid])
    elif not pod.has_ended and is_old:
        counted.certain.update(charge)
    else:
        counted.uncertain.update(charge)


def _add_claim(counted: _CountedAmounts, claim: CountedClaim, cap: ActiveCap, ledger: Ledger, *, is_old: bool) -> None:
    is_unchanged = claim.claim.revision <= ledger.claims_revision
    is_pod_known = not claim.pod_uid or (claim.pod is not None and claim.pod.revision <= ledger.pods_revision)
    are_devices_known = is_unchanged and _is_countable(claim.allocated)
    (counted.certain if are_devices_known else counted.uncertain).update(claim.allocated.amounts)
    if is_unchanged and is_pod_known:
        if are_devices_known:
            counted.by_uid[claim.claim.uid] = claim.counted
        counted.certain.update(claim.counted - claim.allocated.amounts)
        return
    largest = _compute_largest(cap, claim)
    if is_old and not claim.pod_uid and _is_allocated(claim):
        counted.certain.update(claim.charge)
        largest = largest.find_shortfall(claim.charge)
    counted.uncertain.update(largest)


def _is_countable(devices: CountedDevices) -> bool:
    """Return whether the gate counts the same amounts, by the slices or by what the ledger keeps."""
    return devices.is_certain or (devices.is_kept and not devices.undecided)


def _compute_largest(active_cap: ActiveCap, counted_claim: CountedClaim) -> Amounts:
    """Return the most that a claim counts at any time: before its allocation it counts all that it may get."""
    claim = counted_claim.decode()
    requested = active_cap.compute_claim_charge(ResourceClaim(claim.metadata, claim.spec))
    return counted_claim.charge + requested.find_shortfall(counted_claim.charge)


def _is_allocated(counted_claim: CountedClaim) -> bool:
    status = counted_claim.decode().status
    return status is not None and status.allocation is not None


def _get_creation_limit(cluster: ClusterState, ledger_record: CapLedgerRecord) -> float:
    """Return the time, in seconds since 1970, such that pods created before it are in the used amounts."""
    counted_before = ledger_record.counted_at.timestamp() - _CLOCK_SKEW_SECONDS if ledger_record.counted_at else 0.0
    return max(counted_before, cluster.read_at - _MAX_COUNT_DELAY_SECONDS if cluster.read_at else 0.0)
