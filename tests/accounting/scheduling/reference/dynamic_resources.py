"""framework/plugins/dynamicresources, as far as its messages go: devices are not allocated here."""

from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.device_classes import PREFIX, device_class_of
from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.node_selectors import matches_any
from tests.accounting.scheduling.reference.objects import (
    Json,
    annotations_of,
    is_being_deleted,
    is_controlled_by,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable

_SPECIAL = "resource.kubernetes.io/extended-resource-claim"
_NOT_EXTENDED = ("cpu", "memory", "ephemeral-storage", "hugepages-", "attachable-volumes-")


class ClaimError(Exception):
    """A pod's claim cannot be looked at, and this is the scheduler's reason."""


@dataclass(slots=True)
class _State:
    """stateData: the claims that the pod names, and the one made for its extended resources."""

    claims: list[Json] = field(default_factory=list)
    has_devices: bool = False
    special: Json | None = None
    unavailable: list[Json] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """`claimStore`.empty."""
        return not self.claims and not self.has_devices


class DynamicResources(Plugin):
    """Claims for devices, allocated already where the pod can go or yet to be."""

    name = "DynamicResources"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """DynamicResources.PreFilter, preFilterExtendedResources."""
        state = cycle.states[self.name] = _State()
        claims = claims_of(cycle.cluster, pod.pod)  # PreEnqueue saw that they are there
        has_devices = any(device_class_of(cycle.cluster, each) for each in _extended(pod))
        if not claims and not has_devices:
            return None, SKIP
        for request, name in [each for claim in claims if not _is_allocated(claim) for each in _classes(claim)]:
            if cycle.cluster.find("DeviceClass", name) is None:
                return None, unresolvable(f"request {request}: device class {name} does not exist")
        state.claims, state.has_devices = claims, has_devices
        state.special = _special_claim(cycle.cluster, pod.pod) if has_devices else None
        return None, SUCCESS

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """DynamicResources.Filter, filterExtendedResources.

        Raises:
            NotModelledError: devices would have to be allocated on this node.
        """
        state: _State = cycle.states[self.name]
        needs_devices = False
        if state.has_devices:
            if spec_of(state.special or {}).get("devices", {}).get("requests"):
                return unresolvable("cannot schedule extended resource claim")
            lacking = [each for each in _extended(pod) if not node.allocatable.get(each)]
            backed = [each for each in lacking if device_class_of(cycle.cluster, each) is not None]
            if any(each not in backed and each not in node.allocatable for each in lacking):
                return unresolvable("cannot fit resource")
            needs_devices = bool(backed)
        if not state.claims and not needs_devices:
            return SUCCESS
        return _filter_claims(state, node)

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Status:
        """DynamicResources.PostFilter. Without its PreFilter it has no state, and says so in two words."""
        state: _State | None = cycle.states.get(self.name)
        if state is None:
            return failed("not found")
        if state.is_empty:
            return unschedulable("no new claims to deallocate")
        if any(_is_reserved_for_nobody_else(each, pod.pod) for each in state.unavailable):
            return unschedulable("deallocation of ResourceClaim completed")
        if state.special is not None:
            return unschedulable("deletion of ResourceClaim completed")
        return unschedulable("still not schedulable")


def claims_of(cluster: Cluster, pod: Json) -> list[Json]:
    """`foreachPodResourceClaim`, which PreEnqueue asks too.

    Raises:
        ClaimError: one of them is not there yet, is leaving, or belongs to another pod.
    """
    found = [_claim(cluster, pod, each) for each in spec_of(pod).get("resourceClaims") or []]
    return [each for each in found if each is not None]


def _claim(cluster: Cluster, pod: Json, reference: Json) -> Json | None:
    """resourceclaim.Name, and the claim; None where none is needed."""
    name, is_made = reference.get("resourceClaimName"), False
    if name is None:
        statuses = status_of(pod).get("resourceClaimStatuses") or []
        made = next((each for each in statuses if each.get("name") == reference["name"]), None)
        if made is None:
            where = f"{namespace_of(pod)}/{name_of(pod)}"
            raise ClaimError(f'pod "{where}": ResourceClaim not created yet')
        name, is_made = made.get("resourceClaimName"), True
    if name is None:
        return None
    claim = cluster.find("ResourceClaim", name, namespace_of(pod))
    if claim is None:
        raise ClaimError(f'resourceclaim.resource.k8s.io "{name}" not found')
    if is_being_deleted(claim):
        raise ClaimError(f'resourceclaim "{name}" is being deleted')
    if is_made and not is_controlled_by(claim, pod):
        raise ClaimError(f"ResourceClaim {name} was not created for Pod {name_of(pod)} (Pod is not owner)")
    return claim


def _filter_claims(state: _State, node: NodeInfo) -> Status:
    """The part of Filter for the claims: allocated ones are where they are."""
    unavailable = [each for each in state.claims if not _is_reachable(each, node)]
    if state.has_devices or not all(_is_allocated(each) for each in state.claims):
        raise NotModelledError("the allocation of devices to claims")
    state.unavailable += unavailable
    return unresolvable("resourceclaim not available on the node") if unavailable else SUCCESS


def _is_reachable(claim: Json, node: NodeInfo) -> bool:
    """Whether an allocation is good for a node.

    Raises:
        NotModelledError: it waits for conditions to be bound (isClaimReadyForBinding).
    """
    allocation = _allocation(claim)
    devices = (allocation.get("devices") or {}).get("results") or []
    if any(each.get("bindingConditions") for each in devices):
        raise NotModelledError("conditions for the binding of devices")
    selector = allocation.get("nodeSelector")
    return selector is None or matches_any(selector.get("nodeSelectorTerms") or [], node.labels, node.name)


def _is_allocated(claim: Json) -> bool:
    return status_of(claim).get("allocation") is not None


def _allocation(claim: Json) -> Json:
    return status_of(claim).get("allocation") or {}


def _is_reserved_for_nobody_else(claim: Json, pod: Json) -> bool:
    reserved = status_of(claim).get("reservedFor") or []
    return not reserved or [each.get("uid") for each in reserved] == [uid_of(pod)]


def _classes(claim: Json) -> list[tuple[str, str]]:
    """Each request of a claim, and the device class that it names."""
    classes = []
    for request in (spec_of(claim).get("devices") or {}).get("requests") or []:
        if request.get("exactly") is not None:
            classes.append((request["name"], request["exactly"]["deviceClassName"]))
        alternatives = request.get("firstAvailable") or []
        classes += [(f"{request['name']}/{each['name']}", each["deviceClassName"]) for each in alternatives]
    return classes


def _extended(pod: PodInfo) -> list[str]:
    """IsDRAExtendedResourceName, of what the pod requests."""
    asked = [name for name, each in pod.requests.items() if each > 0 and not name.startswith(_NOT_EXTENDED)]
    return [each for each in asked if "kubernetes.io/" not in each or each.startswith(PREFIX)]


def _special_claim(cluster: Cluster, pod: Json) -> Json | None:
    """findExtendedResourceClaim: what an earlier attempt left behind."""
    claims = [each for each in cluster.all("ResourceClaim") if annotations_of(each).get(_SPECIAL) == "true"]
    return next((each for each in claims if is_controlled_by(each, pod)), None)
