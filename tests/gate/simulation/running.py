"""Schedules drawn from seeds, played, and told."""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.gate.simulation.quiet import settle
from tests.gate.simulation.tasks import Signal
from tests.gate.simulation.world import World
from tests.state.simulation.violation import ViolationError
from webhook.state import batched_ledgers

_STORMS = {
    "create": 6, "change": 6, "call": 14, "go": 90, "store": 12, "delete": 1, "end": 0.7, "visit": 16, "tick": 4,
    "watch": 10, "names": 2, "ask": 2, "bookmark": 2, "relist": 0.7, "stall": 0.5, "commit": 12, "arrive": 3,
    "crash": 0.4, "freeze": 0.4, "thaw": 1.5, "lose": 0.2, "bear": 0.4, "bury": 0.1, "publish": 0.3, "load": 1,
    "lead": 0.5, "clear": 0.7,
}  # fmt: skip
_QUIETER = _STORMS | {
    "create": 2, "change": 1, "call": 8, "go": 100, "visit": 40, "tick": 14, "crash": 0.1, "freeze": 0.1, "publish": 0
}  # fmt: skip
MIXES: Mapping[str, Mapping[str, float]] = {
    "storms": _STORMS,
    "old promises": _QUIETER
    | {"store": 9, "stall": 3, "commit": 3, "watch": 2, "delete": 0, "lose": 0, "bear": 0, "bury": 0},
    "passing namespaces": _STORMS
    | {"create": 8, "store": 16, "watch": 20, "names": 12, "visit": 24, "bear": 4, "bury": 3, "publish": 0, "tick": 6},
    "moving namespaces": _STORMS
    | {"create": 8, "store": 16, "watch": 20, "names": 12, "visit": 4, "relabel": 4, "publish": 0, "lose": 0},
    "lost ledgers": _QUIETER
    | {
        "create": 6,
        "call": 16,
        "store": 3,
        "lose": 2,
        "ask": 20,
        "watch": 14,
        "bookmark": 3,
        "bear": 0,
        "bury": 0,
        "lead": 0,
    },
}
"""How often each thing happens, in worlds of different weather."""
_STEPS = 600

Step = tuple[str, int, int, int]


@dataclass(frozen=True)
class Broken:
    """What does not hold, and what happened until then."""

    violation: str
    told: tuple[str, ...]


def schedule(mix: str, seed: int) -> list[Step]:
    """The schedule of a seed: the same one, always."""
    weights = MIXES[mix]
    rng = random.Random(seed)  # noqa: S311  # a schedule, not a secret
    ops = rng.choices(list(weights), list(weights.values()), k=_STEPS)
    return [(op, rng.getrandbits(16), rng.getrandbits(16), rng.getrandbits(16)) for op in ops]


def play(mix: str, seed: int) -> tuple[list[str], Broken | None]:
    """Take every step of a seed's schedule and come to rest; what happened, and what was broken, if something was."""
    told: list[str] = []
    with world() as made:
        try:
            for step in schedule(mix, seed):
                told.append(made.step(*step))  # noqa: PERF401  # what was told before it broke is kept
            settle(made, seed)
        except ViolationError as error:
            return told, Broken(str(error), tuple(filter(None, told)))
    return told, None


@contextmanager
def world() -> Iterator[World]:
    """A world whose batches wait by its own clock; no thread of it is left."""
    made = World()
    signal = type("WorldSignal", (Signal,), {"tasks": made.tasks, "now": staticmethod(made.truth.clock)})
    with patch.object(batched_ledgers, "Event", signal):
        try:
            yield made
        finally:
            made.end()


def report(mix: str, seed: int, broken: Broken) -> str:
    """What broke, and how, as a person reads it."""
    lines = [f"{mix!r}, seed {seed}: {broken.violation}"]
    lines += [f"  {number:3}. {told}" for number, told in enumerate(broken.told, 1)]
    return "\n".join([*lines, f"again: python -m tests.gate.simulation replay {mix!r} {seed}"])
