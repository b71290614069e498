"""The scenarios of the simulation: the caps, pods and replicas of a world, and the weights of its steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.schedules import Step, draw

X, Y = "example.com/x", "example.com/y"
UNITS = {X: 1, Y: 2}
"""The amounts of both resources in one unit of a pod's size."""
B = 5
"""The in-flight bound, in ticks."""

WEIGHTS = {
    "create": 3, "change": 3, "call": 7, "proceed": 30, "arrive": 14, "lose": 1, "give_up": 1, "store": 7, "delete": 1,
    "end": 0.5, "touch": 0.7, "watch": 7, "watch_namespaces": 2, "recount": 4, "expire": 12, "tick": 5, "crash": 0.4,
    "freeze": 0.4, "thaw": 1.2, "stall": 0.5, "commit": 8, "relist": 1,
    "relabel": 0, "publish": 0, "load": 0, "lead": 0, "delete_ledger": 0, "toggle_cap": 0,
    "override": 0, "set_clock": 0,
    "claim": 0, "allocate": 0, "deallocate": 0, "delete_claim": 0, "watch_claims": 0, "own": 0, "name": 0, "copy": 0,
    "touch_claim": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Cap:
    """A cap: its limit of x, whether namespaces share it, and whether it counts only pods of a class.

    With `by_allocation` it counts claims only, and these nothing before they are allocated.
    """

    hard: int
    is_shared: bool = False
    is_filtered: bool = False
    by_allocation: bool = False


@dataclass(frozen=True)
class Scenario:
    """A small world and the weights of the steps in it.

    `pods` exist at the start (namespace, units of x). `labels` are the caps that select each namespace at the start;
    None means all caps. `sizes` are the smallest and largest size, in units, of a created or changed pod. A created
    claim has one of the `alternatives`. Without `bookmarks` a watch without new events learns no newer revision.
    """

    caps: tuple[Cap, ...] = (Cap(5),)
    namespaces: int = 1
    labels: tuple[frozenset[int], ...] | None = None
    replicas: int = 2
    pods: tuple[tuple[int, int], ...] = ()
    sizes: tuple[int, int] = (1, 3)
    steps: int = 220
    bookmarks: bool = True
    alternatives: tuple[tuple[int, ...], ...] = ((1,), (2,), (1, 2), (2, 1), (1, 3))
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_fixed(self) -> bool:
        """Whether policies and labels never change, so that sums must never exceed a cap."""
        return not any(self.weights.get(op) for op in ("relabel", "publish", "override", "toggle_cap"))

    @property
    def has_claims(self) -> bool:
        """Whether there are claims."""
        return bool(self.weights.get("claim") or self.weights.get("own"))

    @property
    def relabels(self) -> bool:
        """Whether namespaces enter and leave caps."""
        return bool(self.weights.get("relabel"))

    def draw(self, seed: int) -> list[Step]:
        """Return the schedule of a seed."""
        return draw({**WEIGHTS, **self.weights}, self.steps, seed)


CLAIMS = {"claim": 3, "allocate": 6, "deallocate": 2, "delete_claim": 0.7, "watch_claims": 7, "touch_claim": 0.7}
OWN_CLAIMS = {"own": 4, "name": 4, "copy": 2}
ALLOCATIONS = {
    "create": 0.5,
    "change": 0,
    "call": 14,
    "proceed": 40,
    "store": 20,
    "arrive": 30,
    "tick": 2,
    "expire": 4,
    **CLAIMS,
    "claim": 3,
    "allocate": 12,
    "deallocate": 6,
    "delete_claim": 0.5,
    "watch_claims": 5,
    "recount": 5,
}

SCENARIOS: Mapping[str, Scenario] = {
    "one cap": Scenario(),
    "three replicas, two caps": Scenario(caps=(Cap(5), Cap(4)), replicas=3, pods=((0, 1),)),
    "shared, filtered": Scenario(
        caps=(Cap(6, is_shared=True), Cap(4, is_filtered=True)), namespaces=2, replicas=3, pods=((0, 1), (1, 2))
    ),
    "resizes": Scenario(
        pods=((0, 1), (0, 3)),
        caps=(Cap(7),),
        steps=400,
        weights={"create": 0.7, "change": 6, "expire": 30, "arrive": 25, "tick": 7},
    ),
    "resizes under a full cap": Scenario(
        pods=((0, 2), (0, 2)),
        caps=(Cap(4),),
        steps=300,
        weights={
            "create": 0.3,
            "change": 6,
            "call": 14,
            "store": 14,
            "arrive": 30,
            "recount": 9,
            "tick": 2,
            "expire": 6,
        },
    ),
    "old reservations": Scenario(
        caps=(Cap(9), Cap(8, is_shared=True)),
        namespaces=2,
        pods=((0, 1), (0, 2), (1, 1)),
        steps=500,
        weights={"tick": 9, "expire": 45, "arrive": 30, "lose": 3, "crash": 0.7, "watch": 4, "recount": 2, "call": 12},
    ),
    "etcd stalls": Scenario(
        weights={"stall": 3, "commit": 4, "tick": 9, "expire": 25, "arrive": 25, "freeze": 0}, steps=400
    ),
    "lost ledgers": Scenario(
        weights={"delete_ledger": 0.7, "tick": 9, "expire": 30, "arrive": 25, "relist": 4}, steps=500
    ),
    "labels change": Scenario(
        caps=(Cap(6, is_shared=True), Cap(4)),
        namespaces=3,
        labels=(frozenset({0, 1}), frozenset({0}), frozenset()),
        replicas=3,
        pods=((0, 1), (2, 2)),
        weights={"relabel": 1.5, "watch_namespaces": 4},
    ),
    "policies change": Scenario(
        caps=(Cap(5), Cap(6, is_shared=True)),
        namespaces=2,
        replicas=3,
        weights={"publish": 1, "load": 3, "lead": 3},
    ),
    "limits end by themselves": Scenario(
        caps=(Cap(5), Cap(6, is_shared=True)),
        namespaces=2,
        replicas=3,
        steps=300,
        weights={"override": 2, "set_clock": 1.5, "load": 6, "lead": 5, "tick": 9, "create": 6, "call": 12},
    ),
    "caps are removed and restored": Scenario(
        caps=(Cap(4), Cap(8, is_shared=True)),
        namespaces=2,
        replicas=3,
        steps=300,
        weights={"toggle_cap": 2, "load": 5, "create": 6, "call": 12},
    ),
    "everything": Scenario(
        caps=(Cap(5), Cap(7, is_shared=True), Cap(4, is_filtered=True)),
        namespaces=3,
        labels=(frozenset({0, 1, 2}), frozenset({0, 1}), frozenset({2})),
        replicas=3,
        pods=((0, 1), (1, 1), (2, 2)),
        steps=400,
        weights={
            "relabel": 0.7,
            "publish": 0.5,
            "load": 2,
            "lead": 2,
            "delete_ledger": 0.3,
            "stall": 1,
            "toggle_cap": 0.3,
            "override": 0.3,
            "set_clock": 0.3,
        },
    ),
    "claims": Scenario(
        caps=(Cap(4),),
        pods=((0, 1),),
        steps=300,
        weights={"create": 1.5, "change": 1, **CLAIMS},
    ),
    "claims under two caps": Scenario(
        caps=(Cap(5, is_shared=True), Cap(3, by_allocation=True)),
        namespaces=2,
        replicas=3,
        pods=((0, 1), (1, 1)),
        steps=400,
        weights={"create": 1, "change": 1, **CLAIMS, "claim": 4, "own": 2, "name": 3},
    ),
    "allocations end": Scenario(
        caps=(Cap(2),),
        replicas=2,
        sizes=(1, 1),
        steps=400,
        alternatives=((1, 2), (1,), (2, 1)),
        weights=ALLOCATIONS,
    ),
    "statuses of claims change": Scenario(
        caps=(Cap(3),),
        replicas=2,
        sizes=(1, 1),
        steps=400,
        alternatives=((1, 2), (1,), (2, 1)),
        weights={**ALLOCATIONS, "touch_claim": 12, "deallocate": 9, "watch_claims": 12},
    ),
    "copies of the scheduler's claims": Scenario(
        caps=(Cap(3),),
        pods=((0, 1), (0, 1)),
        steps=400,
        weights={
            "create": 0.5,
            "change": 0,
            "delete": 0.3,
            "end": 0.3,
            "call": 14,
            "proceed": 40,
            "store": 20,
            "arrive": 20,
            "tick": 3,
            "expire": 4,
            "stall": 0.1,
            **CLAIMS,
            "claim": 0,
            "allocate": 12,
            "delete_claim": 1.5,
            "deallocate": 0.5,
            **OWN_CLAIMS,
            "own": 6,
            "name": 10,
            "copy": 8,
        },
    ),
    "the scheduler's claims": Scenario(
        caps=(Cap(4),),
        pods=((0, 1), (0, 2)),
        steps=300,
        weights={"create": 3, "change": 0, "end": 1, "delete": 2, **CLAIMS, "claim": 0.5, **OWN_CLAIMS},
    ),
    "the scheduler's claims, resizes": Scenario(
        caps=(Cap(5),),
        pods=((0, 1), (0, 2)),
        steps=300,
        weights={
            "create": 1,
            "change": 3,
            "end": 0.5,
            "delete": 0.5,
            **CLAIMS,
            "claim": 0.5,
            **OWN_CLAIMS,
            "copy": 0.5,
        },
    ),
    "claims and faults": Scenario(
        caps=(Cap(4), Cap(3, by_allocation=True)),
        pods=((0, 1),),
        steps=500,
        weights={
            "change": 0,
            "end": 1,
            **CLAIMS,
            **OWN_CLAIMS,
            "stall": 1,
            "delete_ledger": 0.4,
            "tick": 9,
            "expire": 30,
            "arrive": 25,
            "relist": 3,
            "crash": 0.7,
        },
    ),
    "claims, caps are removed and restored": Scenario(
        caps=(Cap(4), Cap(4, by_allocation=True)),
        steps=300,
        weights={"toggle_cap": 2, "load": 5, "create": 2, "call": 12, **CLAIMS},
    ),
}
