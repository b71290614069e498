"""A scenario of the simulation: the caps, pods and replicas of a world, and the weights of its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallygate.state.ledger.reserve import MAX_RESERVATIONS
from tests.schedules import Step, draw

X, Y = "example.com/x", "example.com/y"
UNITS = {X: 1, Y: 2}
"""The amounts of both resources in one unit of a pod's size."""
B = 5
"""The in-flight bound, in ticks."""
SKEW = 2
"""The ticks by which the clock of each replica is ahead of that of the one before, at first."""
SET_SKEWS = range(-4, 5)
"""The ticks by which a clock that is set may be ahead."""

WEIGHTS = {
    "create": 3, "change": 3, "call": 7, "proceed": 30, "arrive": 14, "lose": 1, "give_up": 1, "store": 7, "delete": 1,
    "end": 0.5, "touch": 0.7, "watch": 7, "watch_namespaces": 2, "recount": 4, "expire": 12, "tick": 5, "crash": 0.4,
    "freeze": 0.4, "thaw": 1.2, "stall": 0.5, "commit": 8, "relist": 1,
    "relabel": 0, "publish": 0, "load": 0, "lead": 0, "delete_ledger": 0, "toggle_cap": 0,
    "override": 0, "set_clock": 0, "annotate": 0,
    "claim": 0, "allocate": 0, "deallocate": 0, "delete_claim": 0, "watch_claims": 0, "own": 0, "name": 0, "copy": 0,
    "touch_claim": 0,
    "roll": 0, "make": 0, "retire": 0, "republish_surge": 0,
    "change_class": 0, "watch_class": 0, "record": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Cap:
    """A cap: its limit of x, whether namespaces share it, and whether it counts only pods of a class.

    With `by_allocation` it counts claims only, and these nothing before they are allocated. Pods of a controller that
    rolls may use `surge` units more, for `surge_ticks`.
    """

    hard: int
    is_shared: bool = False
    is_filtered: bool = False
    by_allocation: bool = False
    surge: int = 0
    surge_ticks: int = 6


@dataclass(frozen=True)
class Scenario:
    """A small world and the weights of the steps in it.

    `pods` exist at the start (namespace, units of x), and so do the pods of `rollouts`, the controllers that may roll
    (namespace, number of pods, units of each). `labels` are the caps that select each namespace at the start;
    None means all caps. `sizes` are the smallest and largest size, in units, of a created or changed pod. A created
    claim has one of the `alternatives`. Without `bookmarks` a watch without new events learns no newer revision.
    A ledger has at most `max_reservations`. With `are_caps_new` the replicas load the caps one after the other, and
    there are no ledgers at the start.
    """

    caps: tuple[Cap, ...] = (Cap(5),)
    namespaces: int = 1
    labels: tuple[frozenset[int], ...] | None = None
    replicas: int = 2
    pods: tuple[tuple[int, int], ...] = ()
    rollouts: tuple[tuple[int, int, int], ...] = ()
    sizes: tuple[int, int] = (1, 3)
    steps: int = 220
    bookmarks: bool = True
    max_reservations: int = MAX_RESERVATIONS
    alternatives: tuple[tuple[int, ...], ...] = ((1,), (2,), (1, 2), (2, 1), (1, 3))
    are_caps_new: bool = False
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_fixed(self) -> bool:
        """Whether policies and labels never change, so that sums must never exceed a cap."""
        changes = ("relabel", "publish", "override", "annotate", "toggle_cap")
        return not (self.are_caps_new or any(self.weights.get(op) for op in changes))

    @property
    def has_claims(self) -> bool:
        """Whether there are claims."""
        return bool(self.weights.get("claim") or self.weights.get("own"))

    @property
    def has_classes(self) -> bool:
        """Whether claims count by the mapping of their class, which changes."""
        return bool(self.weights.get("change_class"))

    @property
    def skew(self) -> int:
        """The largest difference between two clocks, at whatever times they are read."""
        skews = [SKEW * number for number in range(self.replicas)]
        skews += SET_SKEWS if self.weights.get("set_clock") else []
        return max(skews) - min(skews)

    @property
    def relabels(self) -> bool:
        """Whether namespaces enter and leave caps."""
        return bool(self.weights.get("relabel"))

    def draw(self, seed: int) -> list[Step]:
        """Return the schedule of a seed."""
        return draw({**WEIGHTS, **self.weights}, self.steps, seed)
