"""Play schedules of several mixes of steps."""

from collections.abc import Mapping, Sequence

from tests.gate.simulation.convergence import converge
from tests.gate.simulation.world import open_world
from tests.schedules import Failure, Simulation, Step, ViolationError, draw

_STORMS = {
    "create": 6, "change": 6, "call": 14, "proceed": 90, "store": 12, "delete": 1, "end": 0.7, "reconcile": 16,
    "tick": 4, "watch": 10, "watch_namespaces": 2, "request_progress": 2, "bookmark": 2, "relist": 0.7, "stall": 0.5,
    "commit": 12, "arrive": 3, "crash": 0.4, "freeze": 0.4, "thaw": 1.5, "delete_ledger": 0.2, "create_namespace": 0.4,
    "delete_namespace": 0.1, "publish": 0.3, "load": 1, "lead": 0.5, "delete_empty_ledger": 0.7,
}  # fmt: skip
_SLOW = _STORMS | {
    "create": 2, "change": 1, "call": 8, "proceed": 100, "reconcile": 40, "tick": 14, "crash": 0.1, "freeze": 0.1,
    "publish": 0,
}  # fmt: skip
_NAMESPACES = {"create": 8, "store": 16, "watch": 20, "watch_namespaces": 12, "publish": 0}
MIXES: Mapping[str, Mapping[str, float]] = {
    "storms": _STORMS,
    "old reservations": _SLOW
    | {
        "store": 9, "stall": 3, "commit": 3, "watch": 2, "delete": 0, "delete_ledger": 0, "create_namespace": 0,
        "delete_namespace": 0,
    },
    "short-lived namespaces": _STORMS
    | _NAMESPACES
    | {"reconcile": 24, "create_namespace": 4, "delete_namespace": 3, "tick": 6},
    "relabelled namespaces": _STORMS | _NAMESPACES | {"reconcile": 4, "relabel": 4, "delete_ledger": 0},
    "lost ledgers": _SLOW
    | {
        "create": 6, "call": 16, "store": 3, "delete_ledger": 2, "request_progress": 20, "watch": 14, "bookmark": 3,
        "create_namespace": 0, "delete_namespace": 0, "lead": 0,
    },
}  # fmt: skip
"""The weights of the steps."""
_STEPS = 600


def simulate(mix: str) -> Simulation:
    """Return the simulation of a mix of steps."""
    return Simulation(lambda seed: draw(MIXES[mix], _STEPS, seed), _play)


def _play(steps: Sequence[Step], end: int) -> Failure | None:
    """Take every step, check the invariants after each, and converge."""
    taken: list[Step] = []
    with open_world() as world:
        try:
            for step in steps:
                taken.append(step)
                world.step(*step)
            converge(world, end)
        except ViolationError as error:
            return Failure(str(error), tuple(world.story), tuple(taken), end)
    return None
