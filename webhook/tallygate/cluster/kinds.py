"""The kinds of objects that make the state of a cluster.

One table has of each kind its resource, its type, and what is not known without its objects. One function words why
the objects of a kind are not known, so that all commands say the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from tallygate.objects.core import LimitRange, Namespace, Pod, ResourceQuota
from tallygate.objects.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from tallygate.objects.karpenter import KarpenterNodePool, NodeClaim
from tallygate.objects.scheduling import PriorityClass, RuntimeClass, SchedulingNode


class ClusterKind(NamedTuple):
    """A kind with its resource and version; `without` says what is not known without its objects."""

    kind: str
    resource: str
    version: str
    type: type[msgspec.Struct]
    without: str = ""

    @property
    def is_namespaced(self) -> bool:
        """Whether the objects are in namespaces."""
        return self.kind in _NAMESPACED

    def create_path(self, namespace: str = "") -> str:
        """Return the path of the list of all objects, or of those in a namespace."""
        return create_list_path(self.version, self.resource, namespace)


def create_list_path(version: str, resource: str, namespace: str = "") -> str:
    """Return the path of the list of all objects of a resource, or of those in a namespace."""
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{base}/namespaces/{namespace}/{resource}" if namespace else f"{base}/{resource}"


_NAMESPACED: Final = frozenset({"Pod", "ResourceQuota", "LimitRange", "ResourceClaim", "ResourceClaimTemplate"})

PODS: Final = "pods"
NAMESPACES: Final = "namespaces"
NODES: Final = "nodes"
CLASSES: Final = "deviceclasses"
CLAIMS: Final = "resourceclaims"
TEMPLATES: Final = "resourceclaimtemplates"
SLICES: Final = "resourceslices"
TAINT_RULES: Final = "devicetaintrules"
QUOTAS: Final = "resourcequotas"
LIMIT_RANGES: Final = "limitranges"
PRIORITY_CLASSES: Final = "priorityclasses"
RUNTIME_CLASSES: Final = "runtimeclasses"
NODE_POOLS: Final = "nodepools"
NODE_CLAIMS: Final = "nodeclaims"
POD_GROUPS: Final = "podgroups"

_DEVICES: Final = "resource.k8s.io/v1"
_KARPENTER: Final = "karpenter.sh/v1"
_KINDS: Final = (
    ClusterKind("Pod", PODS, "v1", Pod),
    ClusterKind("Namespace", NAMESPACES, "v1", Namespace),
    ClusterKind("Node", NODES, "v1", SchedulingNode, "unhealthy devices are unknown"),
    ClusterKind("ResourceQuota", QUOTAS, "v1", ResourceQuota, "pods are not compared with ResourceQuotas"),
    ClusterKind("LimitRange", LIMIT_RANGES, "v1", LimitRange, "what LimitRanges give to new pods is not known"),
    ClusterKind("PriorityClass", PRIORITY_CLASSES, "scheduling.k8s.io/v1", PriorityClass),
    ClusterKind(
        "RuntimeClass",
        RUNTIME_CLASSES,
        "node.k8s.io/v1",
        RuntimeClass,
        "the overhead that RuntimeClasses give to new pods is not known",
    ),
    ClusterKind(
        "DeviceClass", CLASSES, _DEVICES, DeviceClass, "a claim for devices is counted only where a cap names its class"
    ),
    ClusterKind("ResourceClaim", CLAIMS, _DEVICES, ResourceClaim, "claims for devices are not counted"),
    ClusterKind("ResourceClaimTemplate", TEMPLATES, _DEVICES, ResourceClaimTemplate),
    ClusterKind("ResourceSlice", SLICES, _DEVICES, ResourceSlice, "allocated devices are not counted"),
    ClusterKind("DeviceTaintRule", TAINT_RULES, _DEVICES, DeviceTaintRule, "only the taints of drivers count"),
    ClusterKind("NodePool", NODE_POOLS, _KARPENTER, KarpenterNodePool),
    ClusterKind("NodeClaim", NODE_CLAIMS, _KARPENTER, NodeClaim),
)
KINDS: Final[Mapping[str, ClusterKind]] = MappingProxyType({kind.kind: kind for kind in _KINDS})
"""The kinds by name."""
KINDS_BY_RESOURCE: Final[Mapping[str, ClusterKind]] = MappingProxyType({kind.resource: kind for kind in _KINDS})
VOLUME_RESOURCES: Final = (
    ("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ("v1", "persistentvolumes", "PersistentVolume"),
    ("storage.k8s.io/v1", "storageclasses", "StorageClass"),
    ("storage.k8s.io/v1", "csinodes", "CSINode"),
    ("storage.k8s.io/v1", "csidrivers", "CSIDriver"),
    ("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    ("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment"),
)
"""The version, resource and kind of the objects about volumes, which the columns alone have."""
BUDGET_RESOURCE: Final = ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
"""The version, resource and kind of the disruption budgets, which the columns alone have."""
POD_GROUP_RESOURCE: Final = ("scheduling.k8s.io/v1beta1", POD_GROUPS, "PodGroup")
"""The version, resource and kind of the groups of pods that are placed together.

The columns have them; a store has those that a server of asks watches.
"""
EVENT: Final = "Event"
CREATOR_RESOURCES: Final = (
    ("apps/v1", "replicasets", "ReplicaSet"),
    ("v1", "replicationcontrollers", "ReplicationController"),
    ("batch/v1", "jobs", "Job"),
    ("apps/v1", "statefulsets", "StatefulSet"),
    ("apps/v1", "daemonsets", "DaemonSet"),
    ("v1", "events", EVENT),
)
"""Those of the objects that tell of pods that a controller could not create (`tallygate.cluster.rejected_pods`)."""
DEVICE_RESOURCES: Final = (CLASSES, CLAIMS, TEMPLATES, SLICES)
"""The resources that are needed to predict which devices a pod gets."""


class UnknownReason(Enum):
    """Why the objects of a kind are not known; the value is completed with the names of resources."""

    FORBIDDEN = "{} may not be listed"
    UNSERVED = "the API server does not serve {}"
    ABSENT = "the snapshot has no {}"
    UNREAD = "the {} of the cluster are not read"
    STALE = "the {} that are known are not current"


class KindProblem(NamedTuple):
    """Why the objects of a kind are not known; `detail` is the text of the API server, if it gave one."""

    reason: UnknownReason
    detail: str = ""


KindProblems = Mapping[str, KindProblem]
"""Problems by resource."""


def is_known(problems: KindProblems, resource: str) -> bool:
    """Return whether all objects of a resource are known: there are none of one that an API server does not serve."""
    problem = problems.get(resource)
    return problem is None or problem.reason is UnknownReason.UNSERVED


def describe_problem(problems: KindProblems, resource: str) -> str:
    """Return why the objects of a resource are not known, with the text of the API server; empty if they are."""
    problem = problems.get(resource)
    if problem is None:
        return ""
    text = problem.reason.value.format(resource)
    return f"{text}: {problem.detail}" if problem.detail else text


def describe_problems(problems: KindProblems, resources: Iterable[str]) -> str:
    """Return why the objects of some of these resources are not known, each reason once; empty if all are."""
    names_by_reason: dict[UnknownReason, list[str]] = {}
    for resource in resources:
        if resource in problems:
            names_by_reason.setdefault(problems[resource].reason, []).append(resource)
    return "; ".join(reason.value.format(", ".join(names)) for reason, names in names_by_reason.items())


def list_effects(problems: KindProblems, resources: Iterable[str]) -> Iterator[str]:
    """Yield for each of these resources that is not known what is not known without it, and why."""
    for resource in resources:
        without = KINDS_BY_RESOURCE[resource].without
        if without and not is_known(problems, resource):
            yield f"{without}: {describe_problem(problems, resource)}"
