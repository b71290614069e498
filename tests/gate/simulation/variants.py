"""The wrong variants of what calls the transitions, each in the place of one part of the product.

`python -m tests.gate.simulation variants` shows how each one fails; docs/caps.md has the table.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.gate.simulation import wrong
from webhook.gate import charging, ledger_reconciler
from webhook.gate.charging import ReserveTransition
from webhook.gate.ledger_reconciler import LedgerReconciler
from webhook.gate.usage_lister import UsageLister
from webhook.state.batched_ledgers import BatchedLedgers


@dataclass(frozen=True)
class Variant:
    """A wrong part: the number of the rule it breaks, what it does, where it is put, and what shows it."""

    rule: int
    says: str
    owner: object
    name: str
    instead: object
    mix: str = "storms"
    seed: int = 0

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """For as long as the block runs, this is how it is done."""
        with patch.object(self.owner, self.name, self.instead):
            yield


VARIANTS: Mapping[str, Variant] = {
    "silence_is_success": Variant(
        1, "takes a write without an answer for done", BatchedLedgers, "_write", wrong.silence_is_success, seed=2
    ),
    "wins_every_race": Variant(
        1, "takes a write that others came before for done", BatchedLedgers, "_write", wrong.wins_every_race
    ),
    "tells_before_it_writes": Variant(
        1,
        "lets those who wait go before their write is done",
        BatchedLedgers,
        "_write",
        wrong.tells_before_it_writes,
    ),
    "lands_by_uid": Variant(
        1,
        "takes any row of the pod for its own after a lost answer",
        ReserveTransition,
        "is_stored_in",
        wrong.lands_by_uid,
        seed=25,
    ),
    "withdraws_by_uid": Variant(
        3, "takes back the row of its pod, whoever wrote it", charging, "release", wrong.withdraws_by_uid, seed=3
    ),
    "counts_torn": Variant(
        4,
        "counts pods without those in a namespace of which another has come unseen",
        UsageLister,
        "_is_inconsistent",
        wrong.counts_torn,
        mix="passing namespaces",
        seed=750,
    ),
    "never_left": Variant(
        5,
        "reserves by a count from before a namespace left its cap and returned",
        UsageLister,
        "find_membership",
        wrong.never_left,
        mix="moving namespaces",
        seed=31,
    ),
    "ignores_newer_pods": Variant(
        5,
        "reserves by a count of the namespaces as they are and of pods from before one of them returned",
        ReserveTransition,
        "_may_lack_pods",
        wrong.ignores_newer_pods,
        mix="moving namespaces",
        seed=58,
    ),
    "marks_unwritten": Variant(
        6,
        "takes a visit that wrote nothing for a write",
        LedgerReconciler,
        "_cache_result",
        wrong.marks_unwritten,
        mix="old promises",
        seed=52,
    ),
    "has_no_past": Variant(
        7, "takes a ledger that is not there for the first", UsageLister, "is_new_ledger", wrong.has_no_past, seed=20
    ),
    "takes_promising": Variant(
        7,
        "takes the ledger of a namespace that is gone away though it promises",
        ledger_reconciler,
        "_is_empty",
        wrong.takes_promising,
        mix="passing namespaces",
        seed=1311,
    ),
    "puts_back": Variant(
        8,
        "charges a cap that was put back by what its ledger counted",
        UsageLister,
        "get_required_revision",
        wrong.follows_on,
        seed=1,
    ),
}
