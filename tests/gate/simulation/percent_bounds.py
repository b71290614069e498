"""The limits in ledgers where they are percentages of a capacity: each is one that a replica has had (rule 8)."""

from collections.abc import Iterator

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey
from tests.gate.simulation.ground_truth import GroundTruth
from tests.state.informers.pods import GPU


class PercentBounds:
    """The last version of each ledger that was never deleted; one may be made while its capacity is not known.

    What is a limit of a replica is checked there (`percent_replica`).
    """

    def __init__(self, truth: GroundTruth) -> None:
        self._truth = truth
        self._last: dict[LedgerKey, Ledger] = {}

    def list_violations(self, key: LedgerKey, ledger: Ledger) -> Iterator[str]:
        """Yield whether a ledger has lost its limit, or got one that no replica has had."""
        before, hard = self._last.get(key), ledger.hard.get(GPU)
        self._last[key] = ledger
        if before is None or before.hard == ledger.hard or not self._truth.limits or key in self._truth.deleted_ledgers:
            return
        if hard is None:
            yield f"unknown: the ledger of {key} loses its limit {before.hard[GPU]}"
        elif (key.cap, hard) not in self._truth.limits:
            yield f"unknown: the ledger of {key} gets the limit {hard}, which no replica has had"
