"""The devices that claims lack on a node, by request and pool: those in use, with their claims, and those unfit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tallygate.accounting.allocation.counters import CounterUse
from tallygate.accounting.allocation.mismatch import NOT_OF_CLASS, TAINTED, find_mismatch
from tallygate.accounting.allocation.planned_requests import AllocationError, PlannedRequest, format_name
from tallygate.accounting.allocation.pools import Pool, reaches
from tallygate.accounting.allocation.published_devices import AllocatableDevice
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.device_index import DeviceIndex, list_taken
from tallygate.accounting.devices.consumed_capacity import CapacityRequestError
from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.plugins.dynamic_resources import ClusterNode, list_claims_on_node
from tallygate.accounting.scheduling.plugins.resource_claims import find_devices_of_pod, find_hold_reason, needs_devices
from tallygate.accounting.scheduling.plugins.special_claim import NAME_IN_MEMORY, find_resource
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import ObjectMeta

_MAX_OWN_CLAIMS: Final = 5_000
_TOO_LITTLE_CAPACITY: Final = "has too little capacity left"
_BESIDES_HOLDERS: Final = f"{_TOO_LITTLE_CAPACITY} besides "
_OTHER_CLAIMS: Final = "other claims"


class DeviceHolder(NamedTuple):
    """A claim with a device, and the pods that it is reserved for; the claim of an earlier copy has no name."""

    claim: str
    pods: tuple[str, ...]

    def __str__(self) -> str:
        if not self.claim:
            return f"an earlier copy of {', '.join(self.pods)}"
        return f"claim {self.claim}" if not self.pods else f"{', '.join(self.pods)}, claim {self.claim}"


UNKNOWN_HOLDER = DeviceHolder("of another pod", ())
"""A claim without a name."""


class PoolShortfall(NamedTuple):
    """The devices of one pool for a request: all, the free ones that suit, the users of others, and why the rest fail.

    `problem` is set for a pool from which nothing is allocated. `withheld` is the number of devices that a request for
    all devices needs and cannot get: those in use, with taints, or with too little capacity or counters left.
    """

    pool: str
    devices: int
    free: int
    in_use: Mapping[DeviceHolder, int]
    mismatches: Mapping[str, int]
    problem: str = ""
    withheld: int = 0

    @property
    def is_foreign(self) -> bool:
        """Whether no device of the pool is of the class."""
        return all(mismatch.startswith(NOT_OF_CLASS) for mismatch in self.mismatches)

    def __str__(self) -> str:
        if self.problem:
            return f"pool {self.pool}: {self.problem}"
        used = sum(self.in_use.values())
        users = "; ".join(str(holder) for holder in self.in_use)
        parts = [
            *([f"{used} allocated ({users})"] if used else []),
            *(format_mismatch(reason, count) for reason, count in self.mismatches.items()),
            f"{self.free} free",
        ]
        return f"pool {self.pool}: {self.devices} device{'s' * (self.devices != 1)}, {', '.join(parts)}"


class DeviceShortfall(NamedTuple):
    """One request of a claim on a node: the devices that it requests, and those that it lacks by itself.

    `claim` is empty for an extended resource: then `resource` and `container` name it. `requested` is the number of
    devices; None for all of them. `missing` is 0 for a request that would have enough devices without the others, and
    without constraints. `causes` are then what may exclude the combinations of its devices.
    """

    claim: str
    request: str
    class_name: str
    requested: int | None
    missing: int
    pools: tuple[PoolShortfall, ...]
    resource: str = ""
    container: str = ""
    causes: tuple[str, ...] = ()

    def __str__(self) -> str:
        number = "all devices" if self.requested is None else f"{self.requested} device{'s' * (self.requested != 1)}"
        wanted = f"{number} of class {self.class_name}"
        pools = "; ".join(map(str, self.pools)) or "no pool of devices"
        if not self.claim:
            return f"{self.resource} of container {self.container}, {wanted}: {pools}"
        return f"claim {self.claim}, request {self.request} for {wanted}: {pools}"


class NodeDevice(NamedTuple):
    """A device that a node can reach, with the claims that it is allocated to, and the taints that prevent that."""

    name: str
    holders: tuple[DeviceHolder, ...]
    taints: tuple[str, ...] = ()


class NodePool(NamedTuple):
    """A pool that a node can reach; `problem` is set for one from which nothing is allocated."""

    name: str
    devices: tuple[NodeDevice, ...]
    problem: str = ""


_Holders = Mapping[DeviceId, Sequence[DeviceHolder]]


class DeviceInspector:
    """The devices of nodes, as the claims of one pod need them; valid until claims change.

    With `only_own`, claims of other namespaces have no name.
    """

    def __init__(self, pod: IncomingPod, cluster: Cluster, *, only_own: bool = False) -> None:
        self.pod = pod
        self.cluster = cluster
        devices = cluster.devices
        self._is_empty = devices is None or not needs_devices(pod, cluster) or bool(find_hold_reason(pod, cluster))
        self._holders: _Holders = {}
        if devices is not None and not self._is_empty:
            self._holders = _find_own_holders(pod.namespace, devices) if only_own else _find_holders(devices)

    def find_shortfalls(self, node_index: int) -> tuple[DeviceShortfall, ...]:
        """Return what each request without enough free devices lacks on a node.

        Without such a request the result has all requests: they compete for the same devices, or a constraint excludes
        their combinations.
        """
        devices, cluster = self.cluster.devices, self.cluster
        if devices is None or self._is_empty:
            return ()
        of_pod = find_devices_of_pod(self.pod, cluster, devices)
        node = _InspectedNode(devices, cluster, node_index, self._holders)
        shortfalls = [
            [self._name_resource(shortfall) for shortfall in node.compare(claim, alternatives)]
            for claim in list_claims_on_node(self.pod, cluster, node_index, of_pod)
            for alternatives in node.plan(claim)
        ]
        short = tuple(shortfall for one in shortfalls for shortfall in one if shortfall.missing)
        return short or tuple(shortfall for one in shortfalls for shortfall in one)

    def _name_resource(self, shortfall: DeviceShortfall) -> DeviceShortfall:
        if shortfall.claim:
            return shortfall
        resource, container = find_resource(self.pod.spec, shortfall.request)
        return shortfall._replace(resource=resource, container=container)

    def list_pools(self, node_index: int) -> tuple[NodePool, ...]:
        """Return the pools that a node can reach, in the order in which kube-scheduler tries their devices."""
        devices = self.cluster.devices
        if devices is None or self._is_empty:
            return ()
        return tuple(_InspectedNode(devices, self.cluster, node_index, self._holders).list_pools())


def list_pools_of_nodes(cluster: Cluster) -> Iterator[tuple[str, NodePool]]:
    """Yield each node with each pool that it can reach, by name of the node, with the claims that have the devices."""
    devices = cluster.devices
    if devices is None:
        return
    holders = _find_holders(devices)
    for index in sorted(cluster.nodes.get_indices().tolist(), key=cluster.nodes.get_name):
        for pool in _InspectedNode(devices, cluster, index, holders).list_pools():
            yield cluster.nodes.get_name(index), pool


def find_device_shortfalls(pod: IncomingPod, cluster: Cluster, node_index: int) -> tuple[DeviceShortfall, ...]:
    """Return what each request of a pod lacks on a node (see `DeviceInspector.find_shortfalls`)."""
    return DeviceInspector(pod, cluster).find_shortfalls(node_index)


class _InspectedNode:
    """One node with the pools that it can reach."""

    def __init__(self, devices: DeviceIndex, cluster: Cluster, node_index: int, holders: _Holders) -> None:
        version = cluster.version
        self._allocator = devices.get_allocator(version, cluster.device_classes.by_name)
        devices.work.begin_attempt()
        self._node = ClusterNode(cluster, node_index)
        self._pools = self._allocator.slices.gather_pools(self._node)
        self._counters = CounterUse(self._allocator.state.has, version)
        self._needs_exhausted = version.has(Switch.NEEDS_EVERY_DEVICE_OF_ALL)
        self._holders = holders

    def plan(self, claim: ResourceClaim) -> Sequence[Sequence[PlannedRequest]]:
        """Return the alternatives of each request of a claim; none if it cannot be allocated anywhere."""
        try:
            return self._allocator.plan(claim)
        except AllocationError:
            return ()

    def compare(self, claim: ResourceClaim, alternatives: Iterable[PlannedRequest]) -> list[DeviceShortfall]:
        """Return the shortfall of each alternative of a request; one alternative without shortfall is sufficient."""
        name = (claim.metadata.name if claim.metadata else None) or ""
        shortfalls = [
            self._compare(format_name(claim) if name != NAME_IN_MEMORY else "", claim, request)
            for request in alternatives
        ]
        sufficient = [shortfall for shortfall in shortfalls if not shortfall.missing]
        return sufficient[:1] or shortfalls

    def list_pools(self) -> Iterator[NodePool]:
        for pool in self._pools:
            listed = tuple(
                NodeDevice(
                    device.id.device, tuple(self._holders.get(device.id, ())), tuple(map(str, device.content.taints))
                )
                for device in self._list_devices(pool)
            )
            yield NodePool(str(pool.id), listed, _describe_problem(pool))

    def _list_devices(self, pool: Pool) -> list[AllocatableDevice]:
        return [
            device
            for published in pool.slices
            for device in published.devices
            if not published.has_nodes_by_device or reaches(device.content.nodes, self._node)
        ]

    def _compare(self, name: str, claim: ResourceClaim, request: PlannedRequest) -> DeviceShortfall:
        by_pool = tuple(self._describe_pool(request, pool) for pool in self._pools)
        relevant = tuple(
            of_pool
            for of_pool in by_pool
            if of_pool.problem or of_pool.free or of_pool.in_use or not of_pool.is_foreign
        )
        free = sum(of_pool.free for of_pool in by_pool)
        if request.is_all:
            missing = sum(of_pool.withheld for of_pool in by_pool) or int(not free)
        else:
            missing = max(request.number - free, 0)
        number = None if request.is_all else request.number
        causes = () if missing else tuple(self._list_causes(claim, request))
        return DeviceShortfall(name, request.full_name, request.class_name, number, missing, relevant, causes=causes)

    def _list_causes(self, claim: ResourceClaim, request: PlannedRequest) -> Iterator[str]:
        """Yield what may exclude the combinations of devices that suit a request."""
        devices = claim.spec.devices if claim.spec else None
        if devices is not None and devices.constraints:
            yield "a constraint excludes the combinations of free devices"
        suitable = (
            device
            for pool in self._pools
            if not _describe_problem(pool)
            for device in self._list_devices(pool)
            if not self._find_mismatch(request, device)
        )
        if any(pool.content.consumed_counters for pool in suitable):
            yield "the free devices share counters"

    def _describe_pool(self, request: PlannedRequest, pool: Pool) -> PoolShortfall:
        problem = _describe_problem(pool)
        if problem:
            return PoolShortfall(str(pool.id), 0, 0, {}, {}, problem)
        in_use: Counter[DeviceHolder] = Counter()
        mismatches: Counter[str] = Counter()
        withheld = 0
        devices = self._list_devices(pool)
        for device in devices:
            mismatch = self._find_mismatch(request, device)
            if mismatch:
                mismatches[mismatch] += 1
                withheld += mismatch.startswith(TAINTED)
            elif device.id in self._allocator.state.whole and not request.has_admin_access:
                in_use[next(iter(self._holders.get(device.id, ())), UNKNOWN_HOLDER)] += 1
            elif shortage := self._find_shortage(request, pool, device):
                mismatches[shortage] += 1
                withheld += self._needs_exhausted or not shortage.startswith(_TOO_LITTLE_CAPACITY)
        withheld += sum(in_use.values())
        free = len(devices) - sum(in_use.values()) - sum(mismatches.values())
        return PoolShortfall(str(pool.id), len(devices), free, in_use, mismatches, withheld=withheld)

    def _find_mismatch(self, request: PlannedRequest, device: AllocatableDevice) -> str:
        try:
            return find_mismatch(self._allocator, request, device)
        except CapacityRequestError as error:
            return str(error)

    def _find_shortage(self, request: PlannedRequest, pool: Pool, device: AllocatableDevice) -> str:
        """Return what allocated devices leave too little of: the capacity of a shared device, or counters."""
        state = self._allocator.state
        consumed = state.consumed.get(device.id)
        fits, capacities = self._allocator.consumption.fits, device.content.capacities
        if consumed and not fits(device.id.driver, capacities, request.requested, consumed):
            holders = "; ".join(map(str, self._holders.get(device.id, ())))
            return f"{_BESIDES_HOLDERS}{holders or _OTHER_CLAIMS}"
        if device.content.consumed_counters and not state.has(device.id):
            if not self._counters.reserve(pool, device):
                return "has too little left of its counters besides allocated devices"
            self._counters.release(pool, device)
        return ""


def _describe_problem(pool: Pool) -> str:
    if not pool.is_complete:
        return "its driver is replacing its slices"
    return f"it is invalid: {pool.invalid_reason}" if pool.invalid_reason else ""


def _find_own_holders(namespace: str, devices: DeviceIndex) -> dict[DeviceId, list[DeviceHolder]]:
    """Return the claims of one namespace by device; no claims if they are very many."""
    holders: dict[DeviceId, list[DeviceHolder]] = {}
    stored = devices.claims.stored
    own = [key for key in stored if key[0] == namespace]
    for key in own if len(own) <= _MAX_OWN_CLAIMS else ():
        claim = stored[key]
        if isinstance(claim, ResourceClaim):
            holder, taken = _create_holder(claim), [device for device, _ in list_taken(claim)]
        else:
            pods = tuple(f"{namespace}/{name}" for name in claim.reserved_for)
            holder, taken = DeviceHolder("/".join(key), pods), [device for device, _ in list_taken(claim)]
        for device in taken:
            holders.setdefault(device, []).append(holder)
    return holders


def _find_holders(devices: DeviceIndex) -> dict[DeviceId, list[DeviceHolder]]:
    holders: dict[DeviceId, list[DeviceHolder]] = {}
    for claim in devices.claims.values():
        allocation = claim.status.allocation if claim.status else None
        results = (allocation.devices.results if allocation and allocation.devices else None) or ()
        holder = _create_holder(claim) if results else None
        for result in results:
            if holder is not None and not result.admin_access:
                holders.setdefault(DeviceId(result.driver, result.pool, result.device), []).append(holder)
    return holders


def _create_holder(claim: ResourceClaim) -> DeviceHolder:
    reserved = (claim.status.reserved_for if claim.status else None) or ()
    meta = claim.metadata or ObjectMeta()
    is_copy = " " in (meta.name or "")  # see AssumedDevices
    pods = tuple(f"{meta.namespace}/{consumer.name}" for consumer in reserved)
    return DeviceHolder("" if is_copy else format_name(claim), pods)


def hide_holders(reason: str) -> str:
    """Return the reason of a mismatch without the names of the claims and pods that have the device."""
    return f"{_BESIDES_HOLDERS}{_OTHER_CLAIMS}" if reason.startswith(_BESIDES_HOLDERS) else reason


def format_mismatch(reason: str, count: int) -> str:
    """Return the number of devices with a reason, whose verb agrees with it."""
    if count == 1:
        return f"{count} {reason}"
    is_verb = reason.startswith(("fails ", "has "))
    verb = reason.replace("fails ", "fail ", 1).replace("has ", "have ", 1) if is_verb else reason
    return f"{count} {verb}"
