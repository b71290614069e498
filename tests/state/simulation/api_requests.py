"""Requests for pods and claims in the API server, from their arrival to their end."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tallygate.state.ledger.ledger import Operation
from tests.state.simulation.ground_truth import GroundTruth, Key
from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.stored_objects import NO_TEMPLATE, Claim, Template

if TYPE_CHECKING:
    from tests.state.simulation.handlers import Handler


class RequestState(StrEnum):
    """The progress of a request in the API server."""

    CALLING = "calling"
    ALLOWED = "allowed"
    SENT = "sent"
    OVER = "over"


@dataclass
class Request:
    """A creation or an update in the API server; `old_revision` is that of the pod or claim which it replaces.

    `claim` is the new claim, and `old_claim` the stored one, if it is a request for a claim.

    `reserved` are the ledgers that have a reservation for it, `charged` those that its handler has evaluated, by the
    `resources` of its policy and the labels as of `labels_revision`.
    """

    uid: str
    operation: Operation
    namespace: int
    name: str
    size: int
    classed: bool
    arrived_at: int
    old_revision: int = 0
    old_size: int = 0
    old_classed: bool = False
    state: RequestState = RequestState.CALLING
    handler: "Handler | None" = None
    reserved: frozenset[Key] = frozenset()
    charged: frozenset[Key] = frozenset()
    resources: frozenset[str] = frozenset()
    labels_revision: int = 0
    token: int = 0
    old_claim: Claim | None = None
    claim: Claim | None = None
    template: Template = NO_TEMPLATE

    @property
    def is_own(self) -> bool:
        """Whether the scheduler creates a claim of its own for a pod."""
        return self.claim is not None and self.old_claim is None and bool(self.claim.made_for)

    def list_sizes(self, truth: GroundTruth, key: Key, rules: Rules = PRODUCT) -> tuple[int, int]:
        """Return the units of the stored and of the requested pod or claim that a cap counts."""
        cap = truth.cap(key)
        if self.claim is not None:
            old = rules.count_claim(self.old_claim, cap) if self.old_claim is not None else 0
            return old, rules.count_claim(self.claim, cap)
        if cap.by_allocation:
            return 0, 0
        is_filtered = truth.cap(key).is_filtered
        old = self.old_size if self.old_classed or not is_filtered else 0
        return old, self.size if self.classed or not is_filtered else 0
