"""Convergence: after the in-flight bound one replica alone must bring every ledger to the amounts that pods use."""

from tallygate.webhook.state.ledger.ledger import Ledger
from tests.gate.simulation.ground_truth import ALL_CAPS
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.world import World
from tests.schedules import ViolationError
from tests.state.informers.pods import GPU

_ROUNDS = 4
_ANSWERED = 30
"""A number with which no call is lost."""
_CACHE_SECONDS = 11.0  # a reconciliation without work may use the cached ledger for so long
_CONTENDED_SECONDS = 6.0  # the reconciler leaves a ledger to its writers for so long


def converge(world: World, choice: int) -> None:
    """Let the world converge; `choice` decides about the tasks and requests in progress, and picks the replica.

    Raises:
        ViolationError: if a ledger is not exact at the end, or an invariant does not hold.
    """
    truth = world.truth
    while truth.is_stalled or truth.waiting:
        world.step("commit", 0, 0, 0)
    for task in range(len(world.running)):
        world.step("proceed", task, choice, 0)
    world.end()
    while world.requests:
        if choice & 1:
            world.step("store", 0, 0, 0)
        world.requests[:] = world.requests[1:]
        choice >>= 1
    while truth.late and choice & 1:
        world.step("arrive", 0, 0, 0)
    truth.late.clear()
    replica = world.replicas[choice % len(world.replicas)]
    for each in world.replicas:
        each.is_frozen = each is not replica
    replica.leads = True
    replica.load(ALL_CAPS)
    truth.now += _CACHE_SECONDS
    _reconcile_all(world, replica)
    truth.now += BOUND
    for _ in range(_ROUNDS):
        _reconcile_all(world, replica)
        truth.now += _CONTENDED_SECONDS
    _check(world)


def _reconcile_all(world: World, replica: Replica) -> None:
    replica.catch_up()
    number = world.replicas.index(replica)
    for position in range(len(replica.list_ledgers())):
        world.step("reconcile", number, position, 0)
        while world.running:
            world.step("proceed", 0, _ANSWERED, 0)


def _check(world: World) -> None:
    for key, (ledger, _) in world.truth.ledgers.items():
        if not world.truth.list_members(key):
            continue  # no replica reconciles the ledger of a namespace that was deleted or has left its cap
        used = sum(pod.used for pod in world.truth.list_pods(key))
        if ledger.initializer or ledger.reservations or ledger.compute_charged().get(GPU, 0) != used:
            where = key.namespace or "all"
            raise ViolationError(f"not freed: {_describe(ledger)} in {where}, where pods use {used}")


def _describe(ledger: Ledger) -> str:
    initializing = " (initializing)" if ledger.initializer else ""
    return f"{ledger.used.get(GPU, 0)} are used and {ledger.reserved.get(GPU, 0)} reserved{initializing}"
