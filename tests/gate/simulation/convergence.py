"""Convergence: after the in-flight bound one replica alone must bring every ledger to the amounts that pods use."""

from tallygate.state.ledger.ledger import Ledger
from tests.gate.simulation.counts import Count
from tests.gate.simulation.entitlements import split_used
from tests.gate.simulation.gang_rooms import GANG_SECONDS
from tests.gate.simulation.gate_replica import GateReplica
from tests.gate.simulation.replica import BOUND, Replica
from tests.gate.simulation.replica_actors import ANSWERED
from tests.gate.simulation.requests import RequestState
from tests.gate.simulation.rollout_convergence import RolloutConvergence
from tests.gate.simulation.world import World
from tests.schedules import ViolationError

_ROUNDS = 4
_CACHE_SECONDS = 11.0  # a reconciliation without work may use the cached ledger for so long
_UNCONFIRMED_SECONDS = 30.0  # a claim that seems to be the scheduler's may be counted twice for so long
_CONTENDED_SECONDS = 6.0  # the reconciler leaves a ledger to its writers for so long


def converge(world: World, choice: int) -> None:
    """Let the world converge; `choice` decides about the tasks and requests in progress, and picks the replica.

    Raises:
        ViolationError: if a ledger is not exact at the end, or an invariant does not hold.
    """
    truth = world.truth
    choice = _end_requests(world, choice)
    world.claims.finish()
    replica = world.replicas[choice % len(world.replicas)]
    for each in world.replicas:
        each.is_frozen = each is not replica
    replica.leads = True
    replica.load(world.policies.first)
    for cap in world.policies.first.caps.list_caps():
        truth.recorded.add(cap.key)
        truth.enforced.setdefault(cap.key, truth.now)
    truth.now += _CACHE_SECONDS
    _reconcile_all(world, replica)
    for seconds in (BOUND, GANG_SECONDS) if truth.workloads or world.policies.have_groups else (BOUND,):
        truth.now += seconds
        for _ in range(_ROUNDS):
            _reconcile_all(world, replica)
            truth.now += _CONTENDED_SECONDS
    if world.policies.has_claims:
        truth.now += _UNCONFIRMED_SECONDS
        _reconcile_all(world, replica)
    _check(world, replica)
    if not world.policies.has_classes:  # other claims may take what the pod of the scheduler's has reserved
        _check_own_claim(world, replica)
    if isinstance(replica, GateReplica):
        RolloutConvergence(world, replica, lambda: _reconcile_all(world, replica)).finish()


def _end_requests(world: World, choice: int) -> int:
    """End all tasks, requests and late writes, some of which are stored; return what is left of the choice."""
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
    return choice


def _reconcile_all(world: World, replica: Replica) -> None:
    replica.catch_up()
    number = world.replicas.index(replica)
    for position in range(len(replica.list_ledgers())):
        world.step("reconcile", number, position, 0)
        while world.running:
            world.step("proceed", 0, ANSWERED, 0)


def _check_own_claim(world: World, replica: Replica) -> None:
    """Check that the scheduler may create a claim for a pod that is counted, also if the cap is full."""
    served = {each.owner for each in world.truth.claims.values() if each.is_annotated}
    pods = [pod for pod in world.truth.pods.values() if not pod.ended and pod.uid not in served]
    if not pods or not world.policies.has_claims:
        return
    world.claims.create_own(pods[0])
    request = world.requests[0]
    world.step("call", 0, world.replicas.index(replica), 0)
    while world.running:
        world.step("proceed", 0, ANSWERED, 0)
    if request.state is RequestState.CALLING:
        raise ViolationError(f"refused: the scheduler's claim for {pods[0].uid}, which is counted")


def _check(world: World, replica: Replica) -> None:
    truth = world.truth
    devices = (each for claim in truth.claims.values() for each in claim.devices)
    found = {each: replica.devices.find_device(each) for each in devices}
    cap_mappings = replica.get_caps().list_caps()[0].mappings
    for key, (ledger, _) in truth.ledgers.items():
        members = truth.list_members(key)
        if not members:
            continue  # no replica reconciles the ledger of a namespace that was deleted or has left its cap
        now = Count(truth.revision, truth.revision, truth.revision, found=found)
        parts, charged = split_used(truth, now, ledger, members), ledger.compute_charged()
        for name in ledger.hard:
            used = sum(each.get(name, 0) for each in parts.values())
            is_exact = charged.get(name, 0) == used or name not in ledger.resources
            if ledger.initializer or ledger.reservations or not is_exact:
                where = key.namespace or "all"
                raise ViolationError(f"not freed: {_describe(ledger, name)} in {where}, where {used} are used")
        is_named = any(each.namespace in members for each in truth.claims.values())
        if not is_named and not ledger.mappings <= cap_mappings:
            raise ViolationError(f"not freed: {key} counts by {ledger.mappings}, and no claim names the class")
        if ledger.remapping.names and not charged.find_excess(ledger.hard):
            raise ViolationError(f"not freed: {key} decides the allocations under {ledger.remapping.names}")
        if ledger.unconfirmed:
            raise ViolationError(f"not freed: {key} takes {ledger.unconfirmed} for counted twice")


def _describe(ledger: Ledger, name: str) -> str:
    initializing = " (initializing)" if ledger.initializer else ""
    return f"{ledger.used.get(name, 0)} {name} are used and {ledger.reserved.get(name, 0)} reserved{initializing}"
