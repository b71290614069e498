"""What a world is made of, and the schedules drawn for it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

Step = tuple[str, int, int, int]
"""An operation and three numbers; what they choose is taken modulo how many there are to choose from."""

X, Y = "example.com/x", "example.com/y"
B = 5
"""The in-flight bound, in ticks."""

WEIGHTS = {
    "create": 3, "change": 3, "call": 7, "go": 30, "land": 14, "lose": 1, "give_up": 1, "store": 7, "delete": 1,
    "end": 0.5, "touch": 0.7, "watch": 7, "watch_namespaces": 2, "count": 4, "tend": 12, "tick": 5, "crash": 0.4,
    "freeze": 0.4, "thaw": 1.2, "stall": 0.5, "commit": 8, "relist": 1,
    "relabel": 0, "publish": 0, "load": 0, "lead": 0, "forget": 0, "retire": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Cap:
    """A cap: how much of x it allows, whether namespaces share it, and whether it counts only pods of a class."""

    hard: int
    shared: bool = False
    filtered: bool = False


@dataclass(frozen=True)
class Scenario:
    """A small world and how often each thing happens in it.

    `pods` are there from the start (namespace, units of x). `labels` say in which caps each namespace is at first; None
    stands for all of them. `sizes` are the units that creations and changes ask for. Without `bookmarks` a watch that
    sees nothing new learns no newer revision.
    """

    caps: tuple[Cap, ...] = (Cap(5),)
    namespaces: int = 1
    labels: tuple[frozenset[int], ...] | None = None
    replicas: int = 2
    pods: tuple[tuple[int, int], ...] = ()
    sizes: tuple[int, int] = (1, 3)
    steps: int = 220
    bookmarks: bool = True
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def fixed(self) -> bool:
        """Whether policies and labels stay, so that totals can be held to the caps."""
        return not any(self.weights.get(op) for op in ("relabel", "publish", "retire"))

    @property
    def moves(self) -> bool:
        """Whether namespaces go into caps and out of them."""
        return bool(self.weights.get("relabel"))

    def schedule(self, seed: int) -> list[Step]:
        """The schedule of a seed: the same one, always."""
        rng = random.Random(seed)  # noqa: S311  # a schedule, not a secret
        weights = {**WEIGHTS, **self.weights}
        ops = rng.choices(list(weights), list(weights.values()), k=self.steps)
        return [(op, rng.getrandbits(16), rng.getrandbits(16), rng.getrandbits(16)) for op in ops]


SCENARIOS: Mapping[str, Scenario] = {
    "one cap": Scenario(),
    "three replicas, two caps": Scenario(caps=(Cap(5), Cap(4)), replicas=3, pods=((0, 1),)),
    "shared, filtered": Scenario(
        caps=(Cap(6, shared=True), Cap(4, filtered=True)), namespaces=2, replicas=3, pods=((0, 1), (1, 2))
    ),
    "resizes": Scenario(
        pods=((0, 1), (0, 3)),
        caps=(Cap(7),),
        steps=400,
        weights={"create": 0.7, "change": 6, "tend": 30, "land": 25, "tick": 7},
    ),
    "resizes under a full cap": Scenario(
        pods=((0, 2), (0, 2)),
        caps=(Cap(4),),
        steps=300,
        weights={"create": 0.3, "change": 6, "call": 14, "store": 14, "land": 30, "count": 9, "tick": 2, "tend": 6},
    ),
    "old promises": Scenario(
        caps=(Cap(9), Cap(8, shared=True)),
        namespaces=2,
        pods=((0, 1), (0, 2), (1, 1)),
        steps=500,
        weights={"tick": 9, "tend": 45, "land": 30, "lose": 3, "crash": 0.7, "watch": 4, "count": 2, "call": 12},
    ),
    "etcd stalls": Scenario(
        weights={"stall": 3, "commit": 4, "tick": 9, "tend": 25, "land": 25, "freeze": 0}, steps=400
    ),
    "lost ledgers": Scenario(weights={"forget": 0.7, "tick": 9, "tend": 30, "land": 25, "relist": 4}, steps=500),
    "labels move": Scenario(
        caps=(Cap(6, shared=True), Cap(4)),
        namespaces=3,
        labels=(frozenset({0, 1}), frozenset({0}), frozenset()),
        replicas=3,
        pods=((0, 1), (2, 2)),
        weights={"relabel": 1.5, "watch_namespaces": 4},
    ),
    "policies change": Scenario(
        caps=(Cap(5), Cap(6, shared=True)),
        namespaces=2,
        replicas=3,
        weights={"publish": 1, "load": 3, "lead": 3},
    ),
    "caps go and come back": Scenario(
        caps=(Cap(4), Cap(8, shared=True)),
        namespaces=2,
        replicas=3,
        steps=300,
        weights={"retire": 2, "load": 5, "create": 6, "call": 12},
    ),
    "everything": Scenario(
        caps=(Cap(5), Cap(7, shared=True), Cap(4, filtered=True)),
        namespaces=3,
        labels=(frozenset({0, 1, 2}), frozenset({0, 1}), frozenset({2})),
        replicas=3,
        pods=((0, 1), (1, 1), (2, 2)),
        steps=400,
        weights={"relabel": 0.7, "publish": 0.5, "load": 2, "lead": 2, "forget": 0.3, "stall": 1, "retire": 0.3},
    ),
}
