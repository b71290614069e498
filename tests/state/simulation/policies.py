"""Policies of the simulation: limits by cap, with overrides that end by the clock of each replica."""

from dataclasses import dataclass
from typing import NamedTuple

from tallygate.webhook.accounting.amounts import Amounts
from tests.state.simulation.ground_truth import Key, amounts


class Override(NamedTuple):
    """Another limit of a cap in units, until a time in ticks."""

    cap: int
    hard: int
    end: int


@dataclass
class Policy:
    """A policy file: the limit of each cap in units, the counted resources, the active caps, and an override."""

    hard: tuple[int, ...]
    resources: frozenset[str]
    caps: frozenset[int]
    override: Override | None = None

    def list_limits(self, key: Key, time: int) -> Amounts:
        """Return the hard limits of a ledger's cap at a time of some clock."""
        override = self.override
        is_overridden = override is not None and override.cap == key.cap and time < override.end
        return amounts(override.hard if override and is_overridden else self.hard[key.cap], self.resources)
