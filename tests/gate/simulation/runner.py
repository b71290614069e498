"""Play schedules of several mixes of steps."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tests.gate.simulation.convergence import converge
from tests.gate.simulation.device_policies import (
    GANG_GROUPS,
    GANGS,
    GROUPS,
    GUARANTEES,
    NEW_CAPS,
    POD_GROUPS,
    PODS_ONLY,
    REGISTERED,
    WITH_CLAIMS,
    WITH_CLASSES,
    WITH_DEVICES,
    Policies,
)
from tests.gate.simulation.percent_policies import PERCENTS
from tests.gate.simulation.surge_policies import LIMITED_ROLLOUTS, ROLLOUTS
from tests.gate.simulation.world import open_world
from tests.schedules import Failure, Mutant, Simulation, Step, ViolationError, draw

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
_GANGS = {
    "gang": 3, "make": 14, "pose": 0.7, "stop": 0.2, "suspend": 0.4, "delete_gang": 0.2, "create": 1.5, "change": 1,
    "call": 26, "store": 20, "run": 30, "proceed": 70, "end": 2, "delete": 2, "watch": 14, "reconcile": 14,
    "publish": 0, "load": 0, "delete_ledger": 0, "delete_empty_ledger": 0, "create_namespace": 0, "delete_namespace": 0,
}  # fmt: skip
_GROUPS = _GANGS | {
    "group": 3, "member": 16, "stop_group": 0.2, "delete_group": 0.8, "gang": 0, "make": 0, "pose": 0, "stop": 0,
    "suspend": 0, "delete_gang": 0, "create": 1,
}  # fmt: skip
_ROLLOUTS = {
    "deploy": 3, "roll": 6, "make_new": 40, "delete_old": 10, "pause": 0.2, "undeploy": 0.2, "make_other": 4,
    "forge": 2, "try": 1.5, "create": 1, "change": 1, "call": 50, "store": 36, "run": 90, "proceed": 30, "end": 0.4,
    "delete": 0.5, "watch": 20, "reconcile": 14, "publish": 0.5, "load": 2, "delete_ledger": 0.1, "lead": 0.5,
}  # fmt: skip
_LATE = _SLOW | {
    "delete": 0.2, "end": 0.1, "delete_ledger": 0, "create_namespace": 0, "delete_namespace": 0, "freeze": 0.05,
    "crash": 0.05, "stall": 0.2, "call": 24, "run": 70, "proceed": 30, "reconcile": 40, "tick": 9, "store": 4,
    "watch": 3, "lead": 0, "delete_empty_ledger": 0,
}  # fmt: skip
_REGISTRATIONS = _SLOW | {
    "create": 6, "call": 40, "store": 3, "tick": 18, "record_listed": 10, "load": 9, "publish": 0.4, "watch": 14,
    "register": 8, "read_registration": 12, "prepare": 6, "request_progress": 12, "bookmark": 3,
    "delete": 4, "run": 60, "proceed": 20, "delete_ledger": 0, "delete_empty_ledger": 0, "create_namespace": 0,
    "delete_namespace": 0, "crash": 0.2, "freeze": 0.1, "lead": 0.3,
}  # fmt: skip
_NODES = _ROLLOUTS | {
    "change_nodes": 1.5, "reboot": 2, "boot": 3, "watch_nodes": 16, "measure": 8, "record_nodes": 3, "tick": 9,
    "publish": 0.3, "delete_ledger": 0.1, "create": 3, "make_other": 6, "reconcile": 26, "end": 1, "delete": 1,
}  # fmt: skip
MIXES: Mapping[str, Mapping[str, float]] = {
    "storms": _STORMS,
    "changes": _STORMS
    | {
        "create": 3, "change": 14, "call": 30, "store": 24, "proceed": 80, "run": 20, "delete": 0.3, "end": 0.2,
        "crash": 0.1, "freeze": 0.1, "stall": 0.1, "delete_ledger": 0, "publish": 0, "create_namespace": 0,
        "delete_namespace": 0, "tick": 2, "load": 0, "lead": 0.2, "delete_empty_ledger": 0.1,
    },
    "late stores": _LATE | {"create": 4, "change": 3},
    "late changes": _LATE | {"create": 1, "change": 6},
    "lost ledgers and late watches": _LATE
    | {
        "create": 5, "change": 1, "store": 5, "watch": 1, "delete_ledger": 2, "relist": 0.2, "request_progress": 1,
        "bookmark": 0.3, "load": 0,
    },
    "old reservations": _SLOW
    | {
        "store": 9, "stall": 3, "commit": 3, "watch": 2, "delete": 0, "delete_ledger": 0, "create_namespace": 0,
        "delete_namespace": 0,
    },
    "short-lived namespaces": _STORMS
    | _NAMESPACES
    | {"reconcile": 24, "create_namespace": 4, "delete_namespace": 3, "tick": 6},
    "relabelled namespaces": _STORMS | _NAMESPACES | {"reconcile": 4, "relabel": 4, "delete_ledger": 0},
    "groups": _STORMS
    | _NAMESPACES
    | {"reconcile": 6, "move": 5, "delete_ledger": 0, "load": 0, "crash": 0.2, "create_namespace": 0.8},
    "guarantees": _STORMS
    | {
        "create": 9, "call": 20, "store": 18, "watch": 16, "watch_namespaces": 6, "reconcile": 20, "delete": 2,
        "publish": 1.5, "load": 5, "create_namespace": 0.8, "delete_namespace": 0.4, "delete_ledger": 0, "relabel": 0.5,
    },
    "names": _STORMS
    | {
        "create": 1, "create_again": 9, "change": 2, "store": 24, "delete": 4, "watch": 16, "tick": 3, "publish": 0,
        "delete_ledger": 0, "create_namespace": 0, "delete_namespace": 0,
    },
    "gangs": _STORMS | _GANGS,
    "gangs whose pods come late": _SLOW | _GANGS | {"make": 5, "tick": 16, "reconcile": 30, "stop": 0.6},
    "pod groups": _STORMS | _GROUPS,
    "pod groups whose pods come late": _SLOW
    | _GROUPS
    | {"member": 6, "tick": 16, "reconcile": 30, "stop_group": 0.6, "delete_group": 0.5},
    "gangs of moving namespaces": _STORMS
    | _GANGS
    | {"move": 3, "watch_namespaces": 12, "watch": 16, "crash": 0.2},
    "rollouts": _STORMS | _ROLLOUTS,
    "rollouts that take long": _SLOW
    | _ROLLOUTS
    | {"delete_old": 4, "tick": 10, "reconcile": 26, "end": 0.2, "delete": 0.3, "stall": 0.2},
    "rollouts that fail": _STORMS
    | _ROLLOUTS
    | {
        "store": 10, "tick": 10, "reconcile": 40, "run": 120, "publish": 0, "delete_ledger": 0, "crash": 1,
        "freeze": 0.2, "watch": 8,
    },
    "rollouts of other surges": _STORMS
    | _ROLLOUTS
    | {"publish": 4, "load": 8, "lead": 1, "reconcile": 24, "delete_ledger": 0, "freeze": 0.1, "crash": 0.1},
    "rollouts and faults": _STORMS
    | _ROLLOUTS
    | {
        "proceed": 60, "run": 100, "crash": 0.8, "freeze": 0.6, "thaw": 3, "stall": 0.6, "delete_ledger": 0.2,
        "lead": 1, "publish": 1, "load": 3,
    },
    "rollouts, gangs and limits that end": _STORMS
    | _GANGS
    | _ROLLOUTS
    | {"gang": 1.5, "make": 7, "annotate": 2, "tick": 6, "watch_namespaces": 6, "delete_ledger": 0},
    "nodes": _SLOW | _NODES,
    "nodes and faults": _STORMS
    | _NODES
    | {"crash": 1.2, "freeze": 0.5, "thaw": 3, "stall": 0.5, "lead": 1.5, "delete_ledger": 0.2, "run": 110},
    "lost ledgers": _SLOW
    | {
        "create": 6, "call": 16, "store": 3, "delete_ledger": 2, "request_progress": 20, "watch": 14, "bookmark": 3,
        "create_namespace": 0, "delete_namespace": 0, "lead": 0,
    },
    "new caps": _SLOW
    | {
        "create": 5, "call": 20, "store": 6, "tick": 8, "record": 3, "load": 6, "publish": 0, "delete_ledger": 0.6,
        "watch": 14, "request_progress": 12, "bookmark": 3, "create_namespace": 0, "delete_namespace": 0, "crash": 0.1,
    },
    "registrations": _REGISTRATIONS,
    "registrations by label": _REGISTRATIONS | {"relabel": 3, "watch_namespaces": 12, "publish": 0.2, "watch": 20},
}  # fmt: skip
"""The weights of the steps."""
_CLAIMS = _STORMS | {
    "create": 2, "change": 1, "claim": 5, "allocate": 12, "deallocate": 5, "delete_claim": 0.7, "reserve_claim": 1,
    "watch": 6, "watch_devices": 10, "call": 34, "store": 30, "proceed": 50, "run": 50, "publish": 0, "stall": 0.2,
    "tick": 1, "reconcile": 9, "delete_empty_ledger": 0.1, "delete_ledger": 0.1, "publish_devices": 0.2, "bookmark": 3,
    "delete_namespace": 0.05, "create_namespace": 0.1,
}  # fmt: skip
_OWN_CLAIMS = _CLAIMS | {
    "own": 9, "name": 14, "copy": 8, "create": 3.5, "claim": 0.5, "end": 0.5, "delete": 0.5, "delete_claim": 2,
    "watch": 10, "publish_devices": 0.05, "crash": 0.2, "freeze": 0.2,
}  # fmt: skip
_CLAIM_MIXES: Mapping[str, Mapping[str, float]] = {
    "claims": _CLAIMS,
    "allocations end": _CLAIMS
    | {
        "create": 0.3, "change": 0, "claim": 4, "allocate": 20, "deallocate": 14, "delete_claim": 1, "reserve_claim": 0,
        "watch": 2, "reconcile": 3, "publish_devices": 0,
    },
    "the scheduler's claims": _OWN_CLAIMS,
    "pods of claims end": _OWN_CLAIMS | {"end": 2, "watch": 24, "copy": 0, "reconcile": 16, "delete_claim": 0.3},
    "the scheduler's claims, names": _OWN_CLAIMS
    | {
        "create": 0.5, "create_again": 9, "change": 0.3, "claim": 0, "copy": 0, "allocate": 4, "deallocate": 0.3,
        "own": 20, "name": 3, "delete": 3, "end": 0.2, "watch": 20, "store": 20, "reconcile": 14,
    },
    "devices": _CLAIMS
    | {"create": 0.3, "change": 0, "claim": 6, "allocate": 20, "publish_devices": 6, "crash": 1, "relist": 2},
    "old reservations of claims": _SLOW
    | {
        "create": 1.5, "claim": 4, "allocate": 7, "deallocate": 3, "own": 2, "name": 4, "copy": 1, "watch_devices": 2,
        "call": 20, "proceed": 40, "run": 60, "store": 8, "stall": 1, "commit": 5, "watch": 2, "delete_claim": 0.3,
        "publish_devices": 0.3, "bookmark": 3, "reconcile": 40, "tick": 13, "delete_empty_ledger": 0, "arrive": 1,
        "create_namespace": 0, "delete_namespace": 0, "delete": 0.3, "delete_ledger": 0.05,
    },
    "claims of relabelled namespaces": _CLAIMS
    | {"relabel": 4, "watch_namespaces": 12, "watch": 12, "watch_devices": 20, "delete_ledger": 0, "reconcile": 4},
    "classes": _CLAIMS
    | {
        "change_class": 2, "watch_class": 8, "create": 3, "claim": 8, "allocate": 9, "deallocate": 1, "tick": 3,
        "delete_claim": 2, "delete": 2, "reconcile": 16, "delete_ledger": 0, "delete_empty_ledger": 0, "crash": 0.2,
        "publish_devices": 0, "request_progress": 14, "watch": 12, "bookmark": 6, "create_namespace": 0,
        "delete_namespace": 0,
    },
    "claims under restored caps": _CLAIMS | {"publish": 1.5, "load": 4, "request_progress": 4, "bookmark": 6},
}  # fmt: skip
"""The weights of the steps in worlds with claims."""
_WITHOUT_MEASURES = ("allocations end", "pods of claims end", "the scheduler's claims, names")
"""Mixes under caps that measure no devices: an allocation seldom writes a reservation."""
_POLICIES: Mapping[str, Policies] = {
    "groups": GROUPS,
    "new caps": NEW_CAPS,
    "registrations": REGISTERED,
    "registrations by label": REGISTERED,
    "guarantees": GUARANTEES,
    "gangs": GANGS,
    "gangs whose pods come late": GANGS,
    "pod groups": POD_GROUPS,
    "pod groups whose pods come late": POD_GROUPS,
    "gangs of moving namespaces": GANG_GROUPS,
    "rollouts": ROLLOUTS,
    "rollouts that take long": ROLLOUTS,
    "rollouts that fail": ROLLOUTS,
    "rollouts of other surges": ROLLOUTS,
    "rollouts and faults": ROLLOUTS,
    "rollouts, gangs and limits that end": LIMITED_ROLLOUTS,
    "nodes": PERCENTS,
    "nodes and faults": PERCENTS,
}
_STEPS, _CLAIM_STEPS, _LONG_STEPS = 600, 700, 1000


def list_mixes() -> Mapping[str, Mapping[str, float]]:
    """Return the weights of the steps of every mix."""
    return {**MIXES, **_CLAIM_MIXES}


def get_policies(mix: str) -> Policies:
    """Return the policies of the worlds in which a mix of steps is played."""
    if mix in MIXES:
        return _POLICIES.get(mix, PODS_ONLY)
    if mix == "classes":
        return WITH_CLASSES
    return WITH_CLAIMS if mix in _WITHOUT_MEASURES else WITH_DEVICES


def simulate(mix: str) -> Simulation:
    """Return the simulation of a mix of steps."""
    policies, steps = get_policies(mix), _STEPS if mix in MIXES else _CLAIM_STEPS
    if policies.has_reviews or policies.are_registered:
        steps = _LONG_STEPS
    return Simulation(lambda seed: draw(list_mixes()[mix], steps, seed), lambda steps, end: _play(policies, steps, end))


def _play(policies: Policies, steps: Sequence[Step], end: int) -> Failure | None:
    """Take every step, check the invariants after each, and converge."""
    taken: list[Step] = []
    with open_world(policies) as world:
        try:
            for step in steps:
                taken.append(step)
                world.step(*step)
            converge(world, end)
        except ViolationError as error:
            return Failure(str(error), tuple(world.story), tuple(taken), end)
    return None


def create_mutant(
    rule: int, description: str, replacement: AbstractContextManager[Any], mix: str = "storms", seed: int = 0
) -> Mutant:
    """Return the mutant that replaces a part of the product while it plays a mix of steps."""
    product = simulate(mix)

    def play(steps: Sequence[Step], end: int) -> Failure | None:
        with replacement:
            return product.play(steps, end)

    return Mutant(rule, description, Simulation(product.draw, play), product, seed)
