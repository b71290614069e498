"""The objects of the API server as the ground truth stores them, and as watches show them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from tallygate.accounting.devices.device_meter import DeviceId
from tallygate.admission.cap_index import find_key_value, get_cap_name
from tallygate.objects.devices import EXTENDED_RESOURCE_CLAIM_ANNOTATION
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tests.accounting.claims import CLASS, claim_object, exactly, first_available, result
from tests.state.informers.pods import GPU
from tests.state.informers.pods import pod as stored_pod
from tests.state.informers.slices import DRIVER, create_device, create_slice

CAP_NAMES = ("each", "together")
UNIX_START = 1_000_000_000
"""The time of the Unix epoch at which the clock of the world is zero."""
_REVISION_LABELS = (
    "pod-template-hash",
    "controller-revision-hash",
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
)
"""Labels in which controllers write the revision of a pod, and tenants what they please."""
OTHER_GROUP = "together=no"
"""The second group of the shared cap, in a world where its label has several values; the first has the cap's name."""


def format_time(seconds: int) -> str:
    """Return a time of the Unix epoch as policies and annotations write it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def name_cap(key: str) -> str:
    """Return the name of the cap with a key, by which a namespace is its member."""
    value = find_key_value(key)
    return get_cap_name(key) if value in {None, "yes"} else f"{get_cap_name(key)}={value}"


_APPS = ("ReplicaSet", "StatefulSet", "DaemonSet", "Deployment")
_API_VERSIONS = {"Job": "batch/v1", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", **dict.fromkeys(_APPS, "apps/v1")}


class Owner(NamedTuple):
    """A controller, as an owner reference names it. Labels of its pods state the revision `template`."""

    kind: str
    name: str
    uid: str
    template: str = ""

    def to_reference(self) -> dict[str, Any]:
        """Return the owner reference."""
        version = _API_VERSIONS[self.kind]
        return {"apiVersion": version, "kind": self.kind, "name": self.name, "uid": self.uid, "controller": True}


class Pod(NamedTuple):
    """A stored pod of `size` GPUs. `claim` is the name of the scheduler's claim for them, in its status.

    `owner` is the controller in its owner reference, whether or not that exists. `given_name` is a name that other pods
    may have had, or want; else its name is that of no other pod. `group` is the name of its PodGroup, or empty.
    """

    uid: str
    namespace: str
    size: int
    ended: bool = False
    revision: int = 0
    claim: str = ""
    owner: Owner | None = None
    given_name: str = ""
    group: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.given_name or f"pod-{self.uid}"

    @property
    def used(self) -> int:
        """The GPUs that a cap must count."""
        return 0 if self.ended else self.size

    def to_object(self) -> dict[str, Any]:
        """Return the pod as the API server sends it."""
        status: dict[str, Any] = {"phase": "Succeeded" if self.ended else "Running"}
        if self.claim:
            status["extendedResourceClaimStatus"] = {"resourceClaimName": self.claim}
        metadata: dict[str, Any] = {"name": self.name}
        if self.owner is not None:
            labels = {"app": self.owner.name.rpartition("-")[0], **dict.fromkeys(_REVISION_LABELS, self.owner.template)}
            metadata |= {"ownerReferences": [self.owner.to_reference()], "labels": labels}
        spec = {"schedulingGroup": {"podGroupName": self.group}} if self.group else {}
        amount, more = str(self.size), {"status": status, "metadata": metadata, "spec": spec}
        return stored_pod(self.uid, self.revision, amount, self.namespace, **more)


class Limit(NamedTuple):
    """The GPUs that an annotation of a namespace gives it, up to a time of the Unix epoch or for ever."""

    amount: int
    until: int | None

    @property
    def text(self) -> str:
        """The text of the annotation."""
        end = "" if self.until is None else f" until={format_time(self.until)}"
        return f"{GPU}={self.amount}{end}"


class Namespace(NamedTuple):
    """A namespace in a watch event, with the names of the caps and groups that select it by its labels.

    An annotation may give it a `limit` under the cap of each namespace.
    """

    revision: int
    name: str
    uid: str
    is_deleted: bool = False
    caps: frozenset[str] = frozenset(CAP_NAMES)
    limit: Limit | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Its labels: that of a cap has the value `yes`, or the value of a group."""
        parts = [cap.partition("=") for cap in sorted(self.caps)]
        return {label: value or "yes" for label, _, value in parts}

    @property
    def annotations(self) -> dict[str, str]:
        """Its annotations."""
        return {} if self.limit is None else {f"{ANNOTATION_PREFIX}{CAP_NAMES[0]}": self.limit.text}


class Workload(NamedTuple):
    """A stored Job of `size` pods of one GPU each. If it `has_stopped`, no pods come although it may start some."""

    uid: str
    namespace: str
    size: int
    has_stopped: bool = False
    is_suspended: bool = False
    revision: int = 0

    @property
    def name(self) -> str:
        """Its name."""
        return f"job-{self.uid}"

    @property
    def may_start_pods(self) -> bool:
        """Whether its controller makes pods."""
        return not (self.has_stopped or self.is_suspended)

    @property
    def owner(self) -> Owner:
        """The controller in the owner references of its pods."""
        return Owner("Job", self.name, self.uid)

    def to_object(self) -> dict[str, Any]:
        """Return the Job as the API server sends it."""
        metadata = {"name": self.name, "namespace": self.namespace, "uid": self.uid}
        pod = stored_pod("", 0)
        spec = {"parallelism": self.size, "suspend": self.is_suspended, "template": {"spec": pod["spec"]}}
        return {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata | {"resourceVersion": str(self.revision)},
            "spec": spec,
        }  # fmt: skip


class Group(NamedTuple):
    """A stored PodGroup of which `size` pods of one GPU each start together, since a time of the world.

    If it `has_stopped`, no pods come.
    """

    uid: str
    namespace: str
    name: str
    size: int
    created_at: float
    has_stopped: bool = False

    def to_object(self) -> dict[str, Any]:
        """Return the PodGroup as the API server sends it."""
        metadata = {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": "1"}
        spec = {"schedulingPolicy": {"gang": {"minCount": self.size}}}
        return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}


class Claim(NamedTuple):
    """A stored claim, which gets as many devices as one of the `alternatives` when it is allocated.

    `reserved_for` is the UID of the pod in its status, `owner` that in its metadata, which a tenant can write, with the
    scheduler's annotation if it `is_annotated`. `made_for` is the pod for whose extended resource the scheduler created
    it; only the invariants may know it. After the end of an allocation `has_ended` is True. It `is_bound` unless it was
    admitted by a replica that saw its class lead elsewhere; a decided allocation binds it. `owner_name` is the name of
    the pod in its metadata if it has a given one.
    """

    uid: str
    namespace: str
    name: str
    alternatives: tuple[int, ...]
    owner: str = ""
    is_annotated: bool = False
    made_for: str = ""
    devices: tuple[DeviceId, ...] = ()
    reserved_for: str = ""
    has_ended: bool = False
    revision: int = 0
    token: int = 0
    is_bound: bool = True
    owner_name: str = ""

    @property
    def is_flexible(self) -> bool:
        """Whether allocations of it may differ in their number of devices."""
        return len(self.alternatives) > 1

    @property
    def counted(self) -> int:
        """The devices that it counts: those that it has, or the most that it may get."""
        return len(self.devices) or max(self.alternatives)

    def to_object(self) -> dict[str, Any]:
        """Return the claim as the API server sends it."""
        metadata: dict[str, Any] = {
            "name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": str(self.revision),
        }  # fmt: skip
        if self.owner:
            pod = {"kind": "Pod", "name": self.owner_name or f"pod-{self.owner}", "uid": self.owner, "controller": True}
            metadata["ownerReferences"] = [pod]
        if self.is_annotated:
            metadata["annotations"] = {EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"}
        request, chosen = exactly(self.alternatives[0]), "gpu"
        if self.is_flexible:
            request = first_available(*((CLASS, count) for count in self.alternatives))
            index = self.alternatives.index(len(self.devices)) if self.devices else 0
            chosen = f"gpu/choice-{index}"
        claim = claim_object(request, **metadata)
        if self.devices:
            results = [result(chosen, driver=each.driver, pool=each.pool, device=each.device) for each in self.devices]
            reserved_for = [{"resource": "pods", "name": f"pod-{self.reserved_for}", "uid": self.reserved_for}]
            claim["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved_for}
        return claim


class Device(NamedTuple):
    """A published device: whether it is of the model that counts, and its memory."""

    name: str
    is_h100: bool
    memory: int

    @property
    def amounts(self) -> dict[str, int]:
        """Its amounts under the names that count devices by attributes and capacities."""
        return {"h100": int(self.is_h100), "gpu-memory": self.memory}


POOLS: Mapping[str, tuple[Device, ...]] = {
    pool: tuple(Device(f"gpu-{index}", *each) for index, each in enumerate(devices))
    for pool, devices in {
        "node-1": ((True, 1), (True, 3), (False, 2), (True, 2), (True, 1)),
        "node-2": ((True, 2), (False, 1), (True, 1), (True, 3), (True, 1)),
    }.items()
}
"""All devices of each pool."""


class Slice(NamedTuple):
    """The only ResourceSlice of a pool."""

    pool: str
    generation: int
    devices: tuple[Device, ...]
    revision: int = 0

    @property
    def uid(self) -> str:
        """The name of its pool, which has no other slice."""
        return self.pool

    def to_object(self) -> dict[str, Any]:
        """Return the slice as the API server sends it."""
        devices = (_create_device(*each) for each in self.devices)
        return create_slice(
            self.revision, *devices, name=f"slice-{self.pool}", pool=self.pool, generation=self.generation
        )


@cache
def _create_device(name: str, is_h100: bool, memory: int) -> dict[str, Any]:  # noqa: FBT001  # fields of a tuple
    return create_device(name, "h100" if is_h100 else "a100", str(memory))


def create_device_id(pool: str, name: str) -> DeviceId:
    """Return the identity of a device of the only driver."""
    return DeviceId(DRIVER, pool, name)
