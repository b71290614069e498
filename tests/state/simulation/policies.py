"""Policies of the simulation: limits by cap, with overrides that end by the clock of each replica."""

from collections.abc import Sequence
from dataclasses import dataclass

from tallygate.accounting.amounts import Amounts
from tests.state.simulation.annotation_rules import Override
from tests.state.simulation.ground_truth import Key, amounts
from tests.state.simulation.scenario import Cap, X


@dataclass
class Policy:
    """A policy file: the limit of each cap in units, the counted resources, the active caps, and an override.

    `surges` are the units of each cap that controllers which roll may use above its limit, `surge_ticks` their times.
    """

    hard: tuple[int, ...]
    resources: frozenset[str]
    caps: frozenset[int]
    surges: tuple[int, ...]
    surge_ticks: tuple[int, ...]
    override: Override | None = None

    def list_limits(self, key: Key, time: int, annotation: Override | None = None) -> Amounts:
        """Return the hard limits of a ledger's cap at a time of some clock; an annotation comes first."""
        override = self.override
        if annotation is not None:
            return amounts(annotation.hard, self.resources)
        is_overridden = override is not None and override.cap == key.cap and time < override.end
        return amounts(override.hard if override and is_overridden else self.hard[key.cap], self.resources)

    def list_surge(self, key: Key) -> Amounts:
        """Return the amounts above the hard limits that are open to controllers which roll."""
        return amounts(self.surges[key.cap], self.resources)


def create_policy(caps: Sequence[Cap]) -> Policy:
    """Return the first policy: the caps as a scenario has them, all active, for one resource."""
    return Policy(
        hard=tuple(cap.hard for cap in caps),
        resources=frozenset({X}),
        caps=frozenset(range(len(caps))),
        surges=tuple(cap.surge for cap in caps),
        surge_ticks=tuple(cap.surge_ticks for cap in caps),
    )
