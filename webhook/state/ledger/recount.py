"""Rule 4, recount: the only way from promise to tally.

Rule 8, policy changes: the leader writes what the cap allows.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.state.ledger.ledger import Ledger, Operation, Reservation

_NO_AMOUNTS = Amounts()


class UsageSnapshot(msgspec.Struct, frozen=True):
    """What one observer's watches show of the pods under one cap: one consistent state, of one moment.

    `revision` and `ns_revision` are those of pods and namespaces, `members` the hash of the namespaces that the cap
    holds in it. `counted` is what each pod under the cap holds of `names`, by UID, ended pods with nothing, and `total`
    the sum of it. `gone` are UIDs whose deletion this very watch has shown; who forgets some is right, and slower.
    A list that was continued inconsistently after a 410 is no view.
    """

    pods_revision: int
    namespaces_revision: int
    namespaces_hash: str
    resources: frozenset[str]
    used_by_pod: Mapping[str, Amounts]
    used: Amounts
    deleted: Collection[str] = frozenset()


class StaleReason(StrEnum):
    """Why a view cannot replace what a ledger was counted from."""

    PODS = "the ledger was counted from newer pods"
    NAMESPACES = "the ledger was counted from other and newer namespaces"
    RESOURCES = "the ledger counts names that this view does not"


@dataclass(frozen=True, slots=True)
class StaleSnapshot:
    """The view is of no use to this ledger."""

    reason: StaleReason


def recount(ledger: Ledger, snapshot: UsageSnapshot) -> Ledger | StaleSnapshot:
    """Count anew from one view, and settle the promises that it shows (rule 4).

    A row whose pod was deleted goes. So does one of a creation that is there: nothing else was promised to it. A change
    stays, with what the pod is counted with now, since it may still be stored; so does what is not there (yet).

    Older namespaces that are the same ones count the same: who watches what nobody touches is often behind by a minute.
    """
    if snapshot.pods_revision < ledger.pods_revision:
        return StaleSnapshot(StaleReason.PODS)
    if snapshot.namespaces_revision < ledger.namespaces_revision and snapshot.namespaces_hash != ledger.namespaces_hash:
        return StaleSnapshot(StaleReason.NAMESPACES)
    if not snapshot.resources >= ledger.resources:
        return StaleSnapshot(StaleReason.RESOURCES)
    recounted = replace(
        ledger,
        used=snapshot.used,
        resources=snapshot.resources,
        pods_revision=snapshot.pods_revision,
        namespaces_revision=max(snapshot.namespaces_revision, ledger.namespaces_revision),
        namespaces_hash=snapshot.namespaces_hash,
    )
    return recounted.with_reservations(_select_remaining(ledger.reservations, snapshot))


def _select_remaining(
    reservations: Mapping[str, Reservation], snapshot: UsageSnapshot
) -> Iterator[tuple[str, Reservation]]:
    for uid, reservation in reservations.items():
        if uid in snapshot.deleted:
            continue
        counted = snapshot.used_by_pod.get(uid)
        if counted is None:
            yield uid, replace(reservation, counted=_NO_AMOUNTS) if reservation.counted else reservation
        elif reservation.operation is Operation.UPDATE:
            yield uid, replace(reservation, counted=counted)


def apply_limits(ledger: Ledger, hard: Amounts, resources: frozenset[str]) -> Ledger:
    """The ledger under these bounds. Names that the cap counts no longer go out of the tally; new ones need a recount.

    Lowering below what is charged admits nothing more and removes nothing. Promises keep all their names: a name that
    comes back finds them.
    """
    remaining = ledger.resources & resources
    used = Amounts({name: amount for name, amount in ledger.used.items() if name in remaining})
    return replace(ledger, hard=hard, resources=remaining, used=used)
