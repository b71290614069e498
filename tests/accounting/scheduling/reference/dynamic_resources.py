"""framework/plugins/dynamicresources, as far as its messages go: devices are not allocated here."""

from dataclasses import dataclass, field

from tests.accounting.scheduling.reference.cluster import Cluster, NodeInfo, PodInfo
from tests.accounting.scheduling.reference.device_classes import PREFIX, find_device_class
from tests.accounting.scheduling.reference.errors import NotModelledError
from tests.accounting.scheduling.reference.node_selectors import matches_any
from tests.accounting.scheduling.reference.objects import (
    Json,
    get_annotations,
    get_name,
    get_namespace,
    get_spec,
    get_status,
    get_uid,
    is_being_deleted,
    is_controlled_by,
)
from tests.accounting.scheduling.reference.plugin import Cycle, Plugin
from tests.accounting.scheduling.reference.status import (
    SKIP,
    SUCCESS,
    Status,
    error_status,
    unresolvable,
    unschedulable,
)

_SPECIAL = "resource.kubernetes.io/extended-resource-claim"
_NOT_EXTENDED = ("cpu", "memory", "ephemeral-storage", "hugepages-", "attachable-volumes-")


class ClaimError(Exception):
    """A pod's claim cannot be used; the message is the scheduler's reason."""


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
    """Claims for devices, allocated or to be allocated."""

    name = "DynamicResources"

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> tuple[set[str] | None, Status]:
        """Implement DynamicResources.PreFilter, preFilterExtendedResources."""
        state = cycle.states[self.name] = _State()
        claims = list_claims(cycle.cluster, pod.pod)  # PreEnqueue has checked that they exist
        has_devices = any(find_device_class(cycle.cluster, each) for each in _list_extended_resources(pod))
        if not claims and not has_devices:
            return None, SKIP
        for request, name in [
            each for claim in claims if not _is_allocated(claim) for each in _list_device_classes(claim)
        ]:
            if cycle.cluster.find("DeviceClass", name) is None:
                return None, unresolvable(f"request {request}: device class {name} does not exist")
        state.claims, state.has_devices = claims, has_devices
        state.special = _special_claim(cycle.cluster, pod.pod) if has_devices else None
        return None, SUCCESS

    def filter(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status:
        """Implement DynamicResources.Filter, filterExtendedResources.

        Raises:
            NotModelledError: if devices would have to be allocated on this node.
        """
        state: _State = cycle.states[self.name]
        needs_devices = False
        if state.has_devices:
            if get_spec(state.special or {}).get("devices", {}).get("requests"):
                return unresolvable("cannot schedule extended resource claim")
            lacking = [each for each in _list_extended_resources(pod) if not node.allocatable.get(each)]
            backed = [each for each in lacking if find_device_class(cycle.cluster, each) is not None]
            if any(each not in backed and each not in node.allocatable for each in lacking):
                return unresolvable("cannot fit resource")
            needs_devices = bool(backed)
        if not state.claims and not needs_devices:
            return SUCCESS
        return _filter_claims(state, node)

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Status:
        """Implement DynamicResources.PostFilter. Without its PreFilter it has no state, and fails with "not found"."""
        state: _State | None = cycle.states.get(self.name)
        if state is None:
            return error_status("not found")
        if state.is_empty:
            return unschedulable(*(("no new claims to deallocate",) if cycle.minor < 37 else ()))
        if any(_is_reserved_only_for(each, pod.pod) for each in state.unavailable):
            return unschedulable("deallocation of ResourceClaim completed")
        if state.special is not None:
            return unschedulable("deletion of ResourceClaim completed")
        return unschedulable(*(("still not schedulable",) if cycle.minor < 37 else ()))


def list_claims(cluster: Cluster, pod: Json) -> list[Json]:
    """Implement `foreachPodResourceClaim`, which PreEnqueue calls too.

    Raises:
        ClaimError: if one of them does not exist yet, is being deleted, or belongs to another pod.
    """
    found = [_claim(cluster, pod, each) for each in get_spec(pod).get("resourceClaims") or []]
    return [each for each in found if each is not None]


def _claim(cluster: Cluster, pod: Json, reference: Json) -> Json | None:
    """Return the claim of a reference (resourceclaim.Name); None where no claim is needed."""
    name, is_made = reference.get("resourceClaimName"), False
    if name is None:
        statuses = get_status(pod).get("resourceClaimStatuses") or []
        made = next((each for each in statuses if each.get("name") == reference["name"]), None)
        if made is None:
            where = f"{get_namespace(pod)}/{get_name(pod)}"
            raise ClaimError(f'pod "{where}": ResourceClaim not created yet')
        name, is_made = made.get("resourceClaimName"), True
    if name is None:
        return None
    claim = cluster.find("ResourceClaim", name, get_namespace(pod))
    if claim is None:
        raise ClaimError(f'resourceclaim.resource.k8s.io "{name}" not found')
    if is_being_deleted(claim):
        raise ClaimError(f'resourceclaim "{name}" is being deleted')
    if is_made and not is_controlled_by(claim, pod):
        raise ClaimError(f"ResourceClaim {name} was not created for Pod {get_name(pod)} (Pod is not owner)")
    return claim


def _filter_claims(state: _State, node: NodeInfo) -> Status:
    """Implement the part of Filter for claims: an allocated claim fits only where it is allocated."""
    unavailable = [each for each in state.claims if not _is_reachable(each, node)]
    if state.has_devices or not all(_is_allocated(each) for each in state.claims):
        raise NotModelledError("the allocation of devices to claims")
    state.unavailable += unavailable
    return unresolvable("resourceclaim not available on the node") if unavailable else SUCCESS


def _is_reachable(claim: Json, node: NodeInfo) -> bool:
    """Return whether a node can access an allocated claim.

    Raises:
        NotModelledError: if the allocation has binding conditions (isClaimReadyForBinding).
    """
    allocation = _allocation(claim)
    devices = (allocation.get("devices") or {}).get("results") or []
    if any(each.get("bindingConditions") for each in devices):
        raise NotModelledError("conditions for the binding of devices")
    selector = allocation.get("nodeSelector")
    return selector is None or matches_any(selector.get("nodeSelectorTerms") or [], node.labels, node.name)


def _is_allocated(claim: Json) -> bool:
    return get_status(claim).get("allocation") is not None


def _allocation(claim: Json) -> Json:
    return get_status(claim).get("allocation") or {}


def _is_reserved_only_for(claim: Json, pod: Json) -> bool:
    reserved = get_status(claim).get("reservedFor") or []
    return not reserved or [each.get("uid") for each in reserved] == [get_uid(pod)]


def _list_device_classes(claim: Json) -> list[tuple[str, str]]:
    """Return each request of a claim with its device class."""
    classes = []
    for request in (get_spec(claim).get("devices") or {}).get("requests") or []:
        if request.get("exactly") is not None:
            classes.append((request["name"], request["exactly"]["deviceClassName"]))
        alternatives = request.get("firstAvailable") or []
        classes += [(f"{request['name']}/{each['name']}", each["deviceClassName"]) for each in alternatives]
    return classes


def _list_extended_resources(pod: PodInfo) -> list[str]:
    """Return the requested resources that pass IsDRAExtendedResourceName."""
    requested = [name for name, each in pod.requests.items() if each > 0 and not name.startswith(_NOT_EXTENDED)]
    return [each for each in requested if "kubernetes.io/" not in each or each.startswith(PREFIX)]


def _special_claim(cluster: Cluster, pod: Json) -> Json | None:
    """Return the special claim of an earlier attempt (findExtendedResourceClaim)."""
    claims = [each for each in cluster.list_objects("ResourceClaim") if get_annotations(each).get(_SPECIAL) == "true"]
    return next((each for each in claims if is_controlled_by(each, pod)), None)
