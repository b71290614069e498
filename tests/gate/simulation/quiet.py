"""What must hold once things are quiet: within the bound, one replica alone brings every ledger to what pods hold."""

from tests.gate.simulation.caps import WITH
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.world import World
from tests.state.informers.pods import GPU
from tests.state.simulation.violation import ViolationError
from webhook.state.ledger.ledger import Ledger

_VISITS = 4
_GOES_ON = 30
"""Orders by which nothing gets lost."""
_KNOWN = 11.0  # seconds: for so long a visit that finds nothing to do may rest on what the replica knew of a ledger
_BETWEEN = 6.0  # seconds: for what a keeper leaves to others who write, for so long


def settle(world: World, choice: int) -> None:
    """Let things come to rest, and look.

    Raises:
        ViolationError: room is lost, or something else does not hold on the way.
    """
    while world.truth.stalled or world.truth.waiting:
        world.step("commit", 0, 0, 0)
    for task in range(len(world.under_way)):
        world.step("go", task, choice, 0)
    world.end()
    while world.requests:
        if choice & 1:
            world.step("store", 0, 0, 0)
        world.requests[:] = world.requests[1:]
        choice >>= 1
    while world.truth.late and choice & 1:
        world.step("arrive", 0, 0, 0)
    world.truth.late.clear()
    replica = world.replicas[choice % len(world.replicas)]
    for each in world.replicas:
        each.frozen = each is not replica
    replica.leading = True
    replica.load(WITH)
    world.truth.now += _KNOWN
    _visit_all(world, replica)
    world.truth.now += BOUND
    for _ in range(_VISITS):
        _visit_all(world, replica)
        world.truth.now += _BETWEEN
    _look(world)


def _visit_all(world: World, replica: Replica) -> None:
    replica.catch_up()
    number = world.replicas.index(replica)
    for at in range(len(replica.keys())):
        world.step("visit", number, at, 0)
        while world.under_way:
            world.step("go", 0, _GOES_ON, 0)


def _look(world: World) -> None:
    for key, (ledger, _) in world.truth.books.items():
        if not world.truth.members(key):
            continue  # who has not seen the namespace knows nothing of its ledger, and one that has left needs none
        held = sum(pod.holds for pod in world.truth.pods_under(key))
        if ledger.initializer or ledger.reservations or ledger.compute_charged().get(GPU, 0) != held:
            raise ViolationError(f"lost room: {_told(ledger)} in {key.namespace or 'all'}, where pods hold {held}")


def _told(ledger: Ledger) -> str:
    closed = " (closed)" if ledger.initializer else ""
    return f"{ledger.used.get(GPU, 0)} are counted and {ledger.reserved.get(GPU, 0)} promised{closed}"
