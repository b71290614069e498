"""The search for devices for the claims of a pod on one node (Allocate in allocator_incubating.go).

Claims, their requests and the devices of a request are allocated one after the other. For each, the devices are tried
in order, and the first solution is chosen; without one, the search goes back and tries the next device. The order of
devices within one request does not matter, so each set of them is tried once.

Where 1.36 depends on the order of a map of Go, the rule of 1.37 applies.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from copy import copy
from enum import Enum, auto
from typing import NamedTuple

from tallygate.accounting.allocation import planned_requests
from tallygate.accounting.allocation.allocations import AllocatedState, Allocation, ChosenDevice, create_node_selector
from tallygate.accounting.allocation.attempt_work import AttemptWork
from tallygate.accounting.allocation.constraints import Constraint, create_constraint
from tallygate.accounting.allocation.counters import CounterUse
from tallygate.accounting.allocation.pools import NamedNode, Pool, SliceIndex, TargetNode
from tallygate.accounting.allocation.published_devices import AllocatableDevice, AllocatableSlice
from tallygate.accounting.devices.consumed_capacity import Amounts, CapacityRequestError, ConsumptionRules, sum_amounts
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.devices.slice_devices import Work
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.objects.devices import DeviceClass, ResourceClaim

_NO_AMOUNTS: Amounts = {}
_NODE = 40  # the work for one node
_SHARED_SLICE = 2
_REQUEST = 5
_CANDIDATE = 2
_STEP = 2


class AllocatorRules(NamedTuple):
    """The version whose rules apply. If it `ignores_taints`, an allocator tolerates the taints of all devices."""

    version: KubernetesVersion
    ignores_taints: bool = False

    def create_consumption_rules(self) -> ConsumptionRules:
        """Return the rules for capacities that several claims share."""
        return ConsumptionRules(
            has_fractions=self.version.has(Switch.ROUNDS_FRACTIONS_OF_CAPACITY),
            rejects_unreadable=self.version.has(Switch.REJECTS_UNREADABLE_CAPACITY),
            rejects_negative=self.version.has(Switch.REJECTS_NEGATIVE_CAPACITY),
            qualifies_names=self.version.has(Switch.QUALIFIES_CAPACITY_NAMES),
        )


class Allocator:
    """Allocates devices of a cluster. For one thread at a time.

    `slices` are indexed by node, `state` is what claims have, and may change. `selectors`, `consumption` and `rules`
    decide about one device, `work` is what the present attempt may still do.
    """

    def __init__(
        self,
        slices: Iterable[AllocatableSlice],
        classes: Mapping[str, DeviceClass],
        state: AllocatedState,
        rules: AllocatorRules,
        work: AttemptWork | None = None,
    ) -> None:
        self.slices = SliceIndex(slices, rules.version)
        self.state = state
        self._classes = classes
        self.rules = rules
        self.consumption = rules.create_consumption_rules()
        self.work = work or AttemptWork()
        self.selectors = planned_requests.Selectors(self.work, rules.version)

    def create_idle(self) -> Allocator:
        """Return an allocator of the same slices for which no claim has devices, and no device has a taint.

        A taint is no property of a device: its driver adds it while the device is unhealthy, an administrator for
        maintenance (KEP-5055).
        """
        idle = copy(self)
        idle.state = AllocatedState()
        idle.rules = self.rules._replace(ignores_taints=True)
        return idle

    def spend(self, amount: int) -> None:
        """Reduce the work of the present attempt; raise UndecidedAllocationError if that was too much."""
        planned_requests.spend(self.work, amount)

    def plan(self, claim: ResourceClaim) -> list[tuple[planned_requests.PlannedRequest, ...]]:
        """Return the alternatives of each request of a claim, without the devices of requests for all.

        Raises:
            AllocationError: if the claim cannot be allocated on any node.
        """
        return planned_requests.RequestPlanner(NamedNode(""), (), self._classes, self.selectors, self._has_room).plan(
            claim
        )

    def suits(
        self,
        claim: ResourceClaim,
        request: planned_requests.PlannedRequest,
        device: AllocatableDevice,
        *,
        ignores_taints: bool = False,
    ) -> bool:
        """Return whether a device that nothing else uses is one for a request.

        Raises:
            AllocationError, UndecidedAllocationError, CapacityRequestError: if there is no answer.
        """
        return (
            self.selectors.match(f"class {request.class_name}", request.class_selectors, device)
            and self.selectors.match(f"claim {planned_requests.format_name(claim)}", request.selectors, device)
            and (ignores_taints or all(request.tolerates(taint) for taint in device.content.taints))
            and self.consumption.fits(device.id.driver, device.content.capacities, request.requested)
        )

    def allocate(self, node: TargetNode, claims: Sequence[ResourceClaim]) -> list[Allocation] | None:
        """Return the allocations of claims on a node, one for each; None if the devices of the node do not suffice.

        Raises:
            NodeAllocationError: if a pool of this node is invalid, and the others do not suffice.
            AllocationError: if the claims cannot be allocated on any node, for example since a class is missing.
            UndecidedAllocationError: if an expression cannot be evaluated here, or the search takes too long.
        """
        requests = sum(len(claim.spec.devices.requests or ()) for claim in claims if claim.spec and claim.spec.devices)
        self.spend(_NODE + _SHARED_SLICE * self.slices.shared_count + _REQUEST * requests)
        pools = self.slices.gather_pools(node)
        planner = planned_requests.RequestPlanner(node, pools, self._classes, self.selectors, self._has_room)
        searched = [_SearchedClaim(claim, planner.plan(claim), self._create_constraints(claim), []) for claim in claims]
        search = _Search(searched, pools, planner, self.state, self.rules)
        if not search.run(self.work):
            if any(pool.invalid_reason for pool in pools):
                raise planned_requests.NodeAllocationError("invalid resource pools were encountered")
            return None
        return [
            Allocation(
                tuple(taken.result for taken in plan.taken),
                create_node_selector(plan.claim, ((taken.published, taken.device) for taken in plan.taken), node.name),
            )
            for plan in searched
        ]

    def _has_room(self, device: AllocatableDevice, requested: Amounts) -> bool:
        needs_every = self.rules.version.has(Switch.NEEDS_EVERY_DEVICE_OF_ALL)
        allocated = _NO_AMOUNTS if needs_every else self.state.consumed.get(device.id, _NO_AMOUNTS)
        return self.consumption.fits(device.id.driver, device.content.capacities, requested, allocated)

    def _create_constraints(self, claim: ResourceClaim) -> list[Constraint]:
        devices = claim.spec.devices if claim.spec else None
        constraints = []
        for index, written_constraint in enumerate((devices.constraints if devices else None) or ()):
            constraint = create_constraint(written_constraint, self.rules.version)
            if constraint is None:
                reason = "empty constraint (unsupported constraint type?)"
                raise planned_requests.AllocationError(
                    f"claim {planned_requests.format_name(claim)}, constraint #{index}: {reason}"
                )
            constraints.append(constraint)
        return constraints


class _Outcome(Enum):
    FOUND = auto()
    FAILED = auto()
    TOO_MANY = auto()


class _Position(NamedTuple):
    """The device that is looked for: its number in the request, and the first device to try."""

    claim: int = 0
    request: int = 0
    alternative: int = 0
    device: int = 0
    start: int = 0
    is_chosen: bool = False


class _Taken(NamedTuple):
    """A device that the search has taken for a claim, and what must be undone to give it back."""

    pool: Pool
    published: AllocatableSlice
    device: AllocatableDevice
    request: planned_requests.PlannedRequest
    result: ChosenDevice
    has_counters: bool


class _SearchedClaim(NamedTuple):
    claim: ResourceClaim
    requests: list[tuple[planned_requests.PlannedRequest, ...]]
    constraints: list[Constraint]
    taken: list[_Taken]


class _Search:
    """One search; the steps are generators, so that the number of devices is not limited by the stack."""

    def __init__(
        self,
        claims: Sequence[_SearchedClaim],
        pools: Sequence[Pool],
        planner: planned_requests.RequestPlanner,
        state: AllocatedState,
        rules: AllocatorRules,
    ) -> None:
        self._claims = claims
        self._ignores_taints = rules.ignores_taints
        self._planner = planner
        self._consumption = rules.create_consumption_rules()
        self._state = state
        self._keeps_shares = rules.version.has(Switch.KEEPS_SHARED_DEVICES_SHARED)
        self._counts_shares = rules.version.has(Switch.COUNTS_SHARES_WITHOUT_CAPACITY)
        self._candidates: list[planned_requests.Candidate] = [
            (pool, resource_slice, device)
            for pool in pools
            if pool.is_usable
            for resource_slice in pool.slices
            for device in resource_slice.devices
        ]
        self._counters = CounterUse(state.has, rules.version)
        self._allocating: dict[DeviceId, set[int]] = {}
        self._work = Work(0)
        self._consumed: dict[DeviceId, list[Amounts]] = {}

    def run(self, work: Work) -> bool:
        """Return whether there is a solution; it is then in the claims.

        Raises:
            AllocationError, UndecidedAllocationError: as `Allocator.allocate`.
        """
        stack = [self._try(_Position())]
        outcome: _Outcome | None = None
        self._work = work
        while True:
            planned_requests.spend(self._work, _STEP)
            try:
                position = stack[-1].send(outcome)
            except StopIteration as stop:
                outcome = stop.value
                if outcome is _Outcome.FOUND:
                    return True
                stack.pop()
                if not stack:
                    return False
            else:
                stack.append(self._try(position))
                outcome = None

    def _try(self, position: _Position) -> Generator[_Position, _Outcome | None, _Outcome]:
        """Yield the positions that follow this one, with a device taken; the outcome of each is sent back."""
        if position.claim == len(self._claims):
            return _Outcome.FOUND
        claim = self._claims[position.claim]
        if position.request == len(claim.requests):
            yield _Position(position.claim + 1)
            return _Outcome.FAILED
        alternatives = claim.requests[position.request]
        if alternatives[0].parent and not position.is_chosen:
            outcomes = set()
            for index in range(len(alternatives)):
                outcomes.add((yield position._replace(alternative=index, is_chosen=True)))
            return _Outcome.TOO_MANY if outcomes == {_Outcome.TOO_MANY} else _Outcome.FAILED
        request = alternatives[position.alternative]
        if request.is_all and not request.every_device:
            return _Outcome.FAILED
        if position.device >= request.number:
            return (yield _Position(position.claim, position.request + 1)) or _Outcome.FAILED
        if len(claim.taken) + request.number - position.device > planned_requests.MAX_RESULTS:
            return _Outcome.TOO_MANY
        if request.is_all:
            return (yield from self._try_next_of_all(position, request))
        return (yield from self._try_each(position, claim, request))

    def _try_next_of_all(
        self, position: _Position, request: planned_requests.PlannedRequest
    ) -> Generator[_Position, _Outcome | None, _Outcome]:
        if not self._take(position.claim, request, request.every_device[position.device]):
            return _Outcome.FAILED
        outcome = yield position._replace(device=position.device + 1, start=0)
        self._give_back(position.claim)
        return outcome or _Outcome.FAILED

    def _try_each(
        self, position: _Position, claim: _SearchedClaim, request: planned_requests.PlannedRequest
    ) -> Generator[_Position, _Outcome | None, _Outcome]:
        cost = _CANDIDATE + request.selector_count + len(claim.constraints)
        for index in range(position.start, len(self._candidates)):
            candidate = self._candidates[index]
            _, published, device = candidate
            planned_requests.spend(self._work, cost)
            if (
                self._is_taken(position.claim, request, device.id)
                or not self._planner.is_selectable(claim.claim, request, published, device)
                or not self._check_room(position.claim, request, device)
                or not self._take(position.claim, request, candidate)
            ):
                continue
            outcome = yield position._replace(device=position.device + 1, start=index + 1)
            self._give_back(position.claim)
            if outcome is _Outcome.TOO_MANY:
                return outcome
        return _Outcome.FAILED

    def _take(
        self, claim_index: int, request: planned_requests.PlannedRequest, candidate: planned_requests.Candidate
    ) -> bool:
        """Take a device for a claim, and return whether that is possible; if not, nothing changes."""
        pool, published, device = candidate
        if not (device.content.is_shared and request.has_admin_access) and self._is_taken(
            claim_index, request, device.id
        ):
            return False
        if not request.has_admin_access and not device.content.is_shared and self._has_old_share(device.id):
            return False
        is_counted = bool(device.content.consumed_counters) and not (
            device.content.is_shared and self._is_in_use(device.id)
        )
        if is_counted and not self._counters.reserve(pool, device):
            return False
        if not self._is_permitted(claim_index, request, device):
            if is_counted:
                self._counters.release(pool, device)
            return False
        consumed = _NO_AMOUNTS
        if device.content.is_shared:
            capacities = device.content.capacities
            consumed = self._consumption.compute_consumed(device.id.driver, capacities, request.requested)
            self._consumed.setdefault(device.id, []).append(consumed)
        else:
            self._allocating.setdefault(device.id, set()).add(claim_index)
        result = ChosenDevice(
            request.full_name, device.id, request.has_admin_access, device.content.is_shared, consumed
        )
        self._claims[claim_index].taken.append(_Taken(pool, published, device, request, result, is_counted))
        return True

    def _is_permitted(
        self, claim_index: int, request: planned_requests.PlannedRequest, device: AllocatableDevice
    ) -> bool:
        """Return whether taints, constraints and capacity permit a device; add it to the constraints if so.

        Raises:
            AllocationError: if a constraint rejects one of all devices.
        """
        if not self._ignores_taints and any(not request.tolerates(taint) for taint in device.content.taints):
            return False
        claim = self._claims[claim_index]
        names = request.names
        for index, constraint in enumerate(claim.constraints):
            if not constraint.add(*names, device):
                for added in reversed(claim.constraints[:index]):
                    added.remove(*names)
                if not request.is_all:
                    return False
                problem = f"cannot add device {device.id} because a claim constraint would not be satisfied"
                raise planned_requests.AllocationError(
                    f"claim {planned_requests.format_name(claim.claim)}, request {request.name}: {problem}"
                )
        if self._has_room(request, device):
            return True
        for constraint in reversed(claim.constraints):
            constraint.remove(*names)
        return False

    def _give_back(self, claim_index: int) -> None:
        claim = self._claims[claim_index]
        taken = claim.taken.pop()
        if taken.device.content.is_shared:
            amounts = self._consumed[taken.device.id]
            amounts.pop()
            if not amounts:
                del self._consumed[taken.device.id]
        else:
            self._allocating[taken.device.id].discard(claim_index)
        for constraint in reversed(claim.constraints):
            constraint.remove(*taken.request.names)
        if taken.has_counters:
            self._counters.release(taken.pool, taken.device)

    def _is_taken(self, claim_index: int, request: planned_requests.PlannedRequest, device: DeviceId) -> bool:
        """Return whether a device is in use; one with admin access is only for a request of the same claim."""
        allocating = self._allocating.get(device)
        if request.has_admin_access:
            return allocating is not None and claim_index in allocating
        return device in self._state.whole or bool(allocating)

    def _is_in_use(self, device: DeviceId) -> bool:
        """Return whether a part of a shared device is in use, so that its counters are consumed already."""
        is_shared = self._counts_shares and device in self._state.shared
        return is_shared or device in self._state.consumed or device in self._consumed

    def _has_old_share(self, device: DeviceId) -> bool:
        """Return whether a claim has a share of a device that its driver published for several claims before."""
        return self._keeps_shares and self._is_in_use(device)

    def _check_room(
        self, claim_index: int, request: planned_requests.PlannedRequest, device: AllocatableDevice
    ) -> bool:
        """Return whether a device has room for a request.

        Raises:
            AllocationError: if the amount cannot be represented.
        """
        try:
            return self._has_room(request, device)
        except CapacityRequestError as error:
            owner = f"claim {planned_requests.format_name(self._claims[claim_index].claim)}, request {request.name}"
            raise planned_requests.AllocationError(
                f"{owner}: checking capacity for device {device.id}: {error}"
            ) from None

    def _has_room(self, request: planned_requests.PlannedRequest, device: AllocatableDevice) -> bool:
        allocated = self._state.consumed.get(device.id, _NO_AMOUNTS)
        allocating = sum_amounts(self._consumed.get(device.id, ()))
        return self._consumption.fits(
            device.id.driver, device.content.capacities, request.requested, allocated, allocating
        )
