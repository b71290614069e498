"""The mutants: each replaces one part of the product by a wrong one, a few lines that look reasonable.

`python -m tests.gate.simulation mutants` prints how each one fails; README.md has the table.
"""
# ruff: noqa: SLF001  # the replaced functions are private to the classes of the product

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from tallygate.admission.cap_index import ActiveCap, CapIndex, Labels, MatchingCaps
from tallygate.cluster.membership import Membership, MembershipFinder
from tallygate.cluster.usage_lister import CountedRevisions, UsageLister
from tallygate.gate import charge_transitions, ledger_reconciler
from tallygate.gate.charge_transitions import ReserveTransition
from tallygate.gate.ledger_reconciler import LedgerReconciler, ReconcileResult
from tallygate.state.batched_ledgers import BatchedLedgers, CachedLedger
from tallygate.state.informers.named_stores import MemberNamespaces
from tallygate.state.ledger.expire import ReservationAges
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.claim_mutants import CLAIM_MUTANTS
from tests.gate.simulation.class_mutants import CLASS_MUTANTS
from tests.gate.simulation.gang_mutants import GANG_MUTANTS
from tests.gate.simulation.group_mutants import GROUP_MUTANTS
from tests.gate.simulation.guarantee_mutants import GUARANTEE_MUTANTS
from tests.gate.simulation.name_mutants import NAME_MUTANTS
from tests.gate.simulation.new_cap_mutants import NEW_CAP_MUTANTS
from tests.gate.simulation.percent_mutants import PERCENT_MUTANTS
from tests.gate.simulation.registration_mutants import REGISTRATION_MUTANTS
from tests.gate.simulation.runner import create_mutant, list_mixes, simulate
from tests.gate.simulation.surge_mutants import SURGE_MUTANTS
from tests.gate.simulation.transition_mutants import TRANSITION_MUTANTS
from tests.schedules import Mutant, Program

_find_membership = UsageLister.find_membership
_write = BatchedLedgers._write
_cache_result = LedgerReconciler._cache_result


def _is_stored_for_uid(transition: ReserveTransition, ledger: Ledger) -> bool:
    return transition.consumer.uid in ledger.reservations


def _accept_unanswered(
    ledgers: BatchedLedgers, key: LedgerKey, cached: CachedLedger, batch: Any, deadline: float
) -> bool:
    return _write(ledgers, key, cached, batch, deadline) or any(waiter.sent_result for waiter, _ in batch.results)


def _ignore_conflict(*args: Any) -> bool:
    return _write(*args) or True


def _complete_before_write(
    ledgers: BatchedLedgers, key: LedgerKey, cached: CachedLedger, batch: Any, deadline: float
) -> bool:
    for waiter, result in batch.results:
        cached.queue.complete(waiter, result)
    return _write(ledgers, key, cached, batch, deadline)


def _release_by_uid(ledger: Ledger, uid: str, _attempt: str) -> Ledger:
    return ledger.with_reservation(uid, None)


def _confirm_without_write(
    reconciler: LedgerReconciler, key: LedgerKey, ages: ReservationAges, result: ReconcileResult, started_at: float
) -> None:
    written = ReconcileResult(result.ledger, result.expired, is_written=True)
    _cache_result(reconciler, key, ages, written, started_at)


def _is_empty_but_for_reservations(ledger: Ledger) -> bool:
    return not (ledger.used or ledger.initializer)


def _find_unchanged_membership(lister: UsageLister, cap: ActiveCap, key: LedgerKey) -> Membership | None:
    membership = _find_membership(lister, cap, key)
    return membership and replace(membership, last_change=0)


def _may_lack_namespaces_only(_transition: ReserveTransition, ledger: Ledger, membership: Membership) -> bool:
    return ledger.namespaces_revision < membership.last_change


_find_matching = CapIndex.find_matching
_list_members = MembershipFinder._list_members


def _match_by_first_labels(index: CapIndex, namespace: str, labels: Labels | None) -> MatchingCaps:
    known: dict[str, Any] = index.__dict__.setdefault("_first_labels", {})
    return _find_matching(index, namespace, known.setdefault(namespace, labels))


def _keep_left_namespaces(finder: MembershipFinder, cap: ActiveCap) -> MemberNamespaces | None:
    members = _list_members(finder, cap)
    if members is None or cap.group_value is None:
        return members
    known: dict[str, frozenset[str]] = finder.__dict__.setdefault("_known", {})
    known[cap.key] = known.get(cap.key, frozenset()) | members.names
    return members._replace(names=known[cap.key])


MUTANTS: Mapping[str, Mutant] = {
    "silence_is_success": create_mutant(
        1,
        "takes a write without an answer for done",
        patch.object(BatchedLedgers, "_write", _accept_unanswered),
        seed=2,
    ),
    "wins_every_race": create_mutant(
        1, "takes a write that met a conflict for done", patch.object(BatchedLedgers, "_write", _ignore_conflict)
    ),
    "tells_before_it_writes": create_mutant(
        1,
        "completes the waiting calls before their write is done",
        patch.object(BatchedLedgers, "_write", _complete_before_write),
    ),
    "lands_by_uid": create_mutant(
        1,
        "takes any reservation of the pod for its own after an unknown outcome",
        patch.object(ReserveTransition, "is_stored_in", _is_stored_for_uid),
        seed=25,
    ),
    "withdraws_by_uid": create_mutant(
        3,
        "releases the reservation of its pod, whichever attempt wrote it",
        patch.object(charge_transitions, "release", _release_by_uid),
        seed=3,
    ),
    "counts_torn": create_mutant(
        4,
        "recounts without the pods of a namespace that was deleted and created again, the latter unseen",
        patch.object(UsageLister, "_is_inconsistent", lambda _lister, _cap, _key: False),
        mix="short-lived namespaces",
        seed=750,
    ),
    "never_left": create_mutant(
        5,
        "reserves by a count from before a namespace left its cap and returned",
        patch.object(UsageLister, "find_membership", _find_unchanged_membership),
        mix="relabelled namespaces",
        seed=31,
    ),
    "ignores_newer_pods": create_mutant(
        5,
        "reserves by a count of the current namespaces and of pods from before one of them returned",
        patch.object(ReserveTransition, "_may_lack_consumers", _may_lack_namespaces_only),
        mix="relabelled namespaces",
        seed=58,
    ),
    "marks_unwritten": create_mutant(
        6,
        "takes a reconciliation that wrote nothing for a write",
        patch.object(LedgerReconciler, "_cache_result", _confirm_without_write),
        mix="old reservations",
        seed=52,
    ),
    "has_no_past": create_mutant(
        7,
        "takes a missing ledger for one that never existed",
        patch.object(UsageLister, "is_new_ledger", lambda _lister, _cap, _key: True),
        seed=20,
    ),
    "takes_promising": create_mutant(
        7,
        "deletes the ledger of a deleted namespace although it has reservations",
        patch.object(ledger_reconciler, "_is_empty", _is_empty_but_for_reservations),
        mix="short-lived namespaces",
        seed=1311,
    ),
    "puts_back": create_mutant(
        8,
        "charges a restored cap by the earlier count of its ledger",
        patch.object(UsageLister, "get_required_revisions", lambda _lister, _cap: CountedRevisions(0, 0)),
        seed=1,
    ),
    "keeps_group": create_mutant(
        5,
        "counts a namespace whose label has changed under its former group too",
        patch.object(MembershipFinder, "_list_members", _keep_left_namespaces),
        mix="groups",
    ),
    "charges_former_group": create_mutant(
        5,
        "charges a pod by the first label of its namespace that the replica saw",
        patch.object(CapIndex, "find_matching", _match_by_first_labels),
        mix="groups",
    ),
    **TRANSITION_MUTANTS,
    **NEW_CAP_MUTANTS,
    **CLAIM_MUTANTS,
    **CLASS_MUTANTS,
    **GANG_MUTANTS,
    **GROUP_MUTANTS,
    "takes_in_former_group": create_mutant(
        11,
        "lets a pod take over amounts in the group of which its replica saw its namespace first",
        patch.object(CapIndex, "find_matching", _match_by_first_labels),
        mix="gangs of moving namespaces",
    ),
    **SURGE_MUTANTS,
    **PERCENT_MUTANTS,
    **NAME_MUTANTS,
    **GUARANTEE_MUTANTS,
    **REGISTRATION_MUTANTS,
}

PROGRAM = Program("tests.gate.simulation", {mix: simulate(mix) for mix in list_mixes()}, MUTANTS)
