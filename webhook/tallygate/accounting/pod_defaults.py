"""Values that built-in admission fills into a new pod: of LimitRanges, of the default PriorityClass, of RuntimeClasses.

A pod at the API server has them already. Templates and manifests have not, so that forecasts and predictions
complete them first. Sources: mergePodResourceRequirements in plugin/pkg/admission/limitranger/admission.go, admitPod
in plugin/pkg/admission/priority/admission.go, v1.37; `runtime_classes` has the third. All run before any webhook,
LimitRanger first.

The pod level is completed after them all (DefaultPodLevelResources in pkg/api/pod/util.go, v1.37). Up to 1.36 an API
server completes it before LimitRanger, and has no default limits for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec

from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION, KubernetesVersion
from tallygate.accounting.pod_resources import NO_QUANTITIES, Quantities, complete_pod_level
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.runtime_classes import complete_by_class
from tallygate.accounting.validation.limit_ranges import LimitRangeLists, parse_limit_range_item
from tallygate.accounting.validation.pod_bounds import LimitRangeEntry, list_entries
from tallygate.objects import core
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import PriorityClass, RuntimeClass

LIMIT_RANGER_ANNOTATION = "kubernetes.io/limit-ranger"
"""The annotation in which LimitRanger names the requests and limits that it has set on a pod."""

P = TypeVar("P", bound=core.Pod)

_CONTAINER = "Container"
_ANNOTATION_START = "LimitRanger plugin set: "
_CONTAINER_FIELDS = {"container": "containers", "init container": "initContainers"}
_NO_RESOURCES: core.ResourceList = {}
_NO_CLASSES: Mapping[str, RuntimeClass] = MappingProxyType({})


def list_default_requests(pod: core.Pod) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the names of the requests that LimitRanger has set, by list of containers and name of the container.

    Its annotation reads `LimitRanger plugin set: cpu, memory request for container a; cpu limit for container a`.
    """
    text = ((pod.metadata.annotations if pod.metadata else None) or {}).get(LIMIT_RANGER_ANNOTATION)
    if text is None:
        return {}
    found: dict[tuple[str, str], frozenset[str]] = {}
    for part in text.removeprefix(_ANNOTATION_START).split("; "):
        names, separator, container = part.partition(" request for ")
        noun, _, name = container.rpartition(" ")
        if separator and noun in _CONTAINER_FIELDS:
            found[_CONTAINER_FIELDS[noun], name] = frozenset(names.split(", "))
    return found


class ContainerDefaults(NamedTuple):
    """The limits and requests that a container gets if it has none of a resource."""

    limits: Quantities = NO_QUANTITIES
    requests: Quantities = NO_QUANTITIES


class PodDefaults(NamedTuple):
    """The values that new pods of a namespace get without writing them.

    `priority_class` is the name of the default class, `runtime_classes` are those of the cluster by name. Without
    `has_limit_ranges`, `has_priority_classes` or `has_runtime_classes` there may be more than is known.
    `bounds` are the entries of LimitRanges that the pods must meet. If defaults are `is_ambiguous`, two LimitRanges of
    the namespace differ in one, so that none is known. `version` is that of the API server that admits the pods.
    """

    containers: ContainerDefaults = ContainerDefaults()
    priority_class: str = ""
    has_limit_ranges: bool = True
    has_priority_classes: bool = True
    runtime_classes: Mapping[str, RuntimeClass] = _NO_CLASSES
    has_runtime_classes: bool = True
    bounds: Sequence[LimitRangeEntry] = ()
    is_ambiguous: bool = False
    version: KubernetesVersion = DEFAULT_VERSION

    def complete(self, pod: P) -> P:
        spec = pod.spec
        if spec is None:
            return pod
        if self.completes_containers(pod):
            spec = _complete_containers(spec, self.containers)
        if self.priority_class and not spec.priority_class_name:
            spec = msgspec.structs.replace(spec, priority_class_name=self.priority_class)
        if spec.runtime_class_name and spec.runtime_class_name in self.runtime_classes:
            spec = complete_by_class(spec, self.runtime_classes[spec.runtime_class_name])
        if spec.resources is not None:
            spec = msgspec.structs.replace(spec, resources=_complete_pod_level(spec, spec.resources, self.version))
        return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)

    def completes_containers(self, pod: core.Pod) -> bool:
        """Return whether a container of a pod gets a request or limit by a LimitRange."""
        if pod.spec is None or not any(self.containers):
            return False
        containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        return any(_complete_container(container, self.containers) is not container for container in containers)

    def may_limit(self, pod: core.Pod, resource: str, container: str) -> bool:
        """Return whether a container may get a limit by a LimitRange that is not known."""
        if self.has_limit_ranges or pod.spec is None:
            return False
        containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        limits = [
            own_container.resources.limits
            for own_container in containers
            if own_container.name == container and own_container.resources is not None
        ]
        return not any(resource in (limit or ()) for limit in limits)

    def find_unknown_class(self, pod: core.Pod) -> str:
        """Return the name of the RuntimeClass of a pod if that class is not known, else an empty text."""
        name = (pod.spec.runtime_class_name if pod.spec is not None else None) or ""
        return "" if self.has_runtime_classes or name in self.runtime_classes else name


NO_POD_DEFAULTS = PodDefaults()
"""Those of a namespace without LimitRanges, in a cluster without a default class and without RuntimeClasses."""
UNKNOWN_POD_DEFAULTS = PodDefaults(has_limit_ranges=False, has_priority_classes=False, has_runtime_classes=False)
"""Those of a cluster that is not read."""


def create_pod_defaults(  # noqa: PLR0913  # three kinds of objects, whether each is complete, and the version
    limit_ranges: Iterable[core.LimitRange],
    priority_classes: Mapping[str, PriorityClass],
    runtime_classes: Mapping[str, RuntimeClass] = _NO_CLASSES,
    *,
    has_limit_ranges: bool = True,
    has_priority_classes: bool = True,
    has_runtime_classes: bool = True,
    version: KubernetesVersion = DEFAULT_VERSION,
) -> PodDefaults:
    """Return the defaults by the LimitRanges of a namespace and the classes, and whether these are all that exist.

    If two LimitRanges differ in a default, the defaults are unknown: Kubernetes applies them in no order.
    """
    limit_ranges = tuple(limit_ranges)
    default, containers = find_default_class(priority_classes), merge_limit_ranges(limit_ranges)
    return PodDefaults(
        containers or ContainerDefaults(),
        (default.metadata.name if default.metadata else None) or "",
        has_limit_ranges and containers is not None,
        has_priority_classes,
        runtime_classes,
        has_runtime_classes,
        tuple(entry for limit_range in limit_ranges for entry in list_entries(limit_range)),
        is_ambiguous=containers is None,
        version=version,
    )


def find_default_class(classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """Return the default class; the one with the lowest value if a cluster has several by mistake."""
    defaults = [device_class for device_class in classes.values() if device_class.global_default]
    return min(defaults, key=lambda each: each.value, default=PriorityClass())


def merge_limit_ranges(limit_ranges: Iterable[core.LimitRange]) -> ContainerDefaults | None:
    """Return the defaults for containers; None if two LimitRanges differ in one: the first that is listed decides.

    Of several entries in one LimitRange the last decides.
    """
    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    for limit_range in limit_ranges:
        own = list_container_defaults(limit_range)
        for merged, added in ((limits, own.limits), (requests, own.requests)):
            if any(merged.get(name, quantity) != quantity for name, quantity in added.items()):
                return None
            merged.update(added)
    return ContainerDefaults(MappingProxyType(limits), MappingProxyType(requests))


def list_container_defaults(limit_range: core.LimitRange) -> ContainerDefaults:
    items = limit_range.spec.limits if limit_range.spec is not None else None
    parsed = [parse_limit_range_item(item) for item in items or () if item.type == _CONTAINER]
    return ContainerDefaults(_merge(parsed, "default"), _merge(parsed, "default_request"))


def _merge(items: Iterable[LimitRangeLists], field: str) -> Quantities:
    return {name: quantity for item in items for name, quantity in getattr(item, field).items()}


class LimitRangeIndex:
    """LimitRanges by namespace and name."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, core.LimitRange]] = {}

    def put(self, limit_range: core.LimitRange) -> None:
        """Add a LimitRange, in place of an earlier one of its name."""
        metadata = limit_range.metadata or ObjectMeta()
        self.put_in(metadata.namespace or "", metadata.name or "", limit_range)

    def put_in(self, namespace: str, name: str, limit_range: core.LimitRange) -> None:
        """Add a LimitRange that may have no metadata, in place of an earlier one of its name."""
        self._by_namespace.setdefault(namespace, {})[name] = limit_range

    def list_in(self, namespace: str) -> Sequence[core.LimitRange]:
        return [*self._by_namespace.get(namespace, {}).values()]


def _complete_containers(spec: core.PodSpec, defaults: ContainerDefaults) -> core.PodSpec:
    return msgspec.structs.replace(
        spec,
        containers=spec.containers and [_complete_container(container, defaults) for container in spec.containers],
        init_containers=spec.init_containers
        and [_complete_container(container, defaults) for container in spec.init_containers],
    )


def _complete_pod_level(
    spec: core.PodSpec, written: core.ResourceRequirements, version: KubernetesVersion
) -> core.ResourceRequirements:
    """Return the pod level as the API server completes it from the containers.

    If a quantity is invalid, it is as it is written: no API server reads such a pod, and checks report it.
    """
    try:
        completed = complete_pod_level(spec, version)
    except QuantityError:
        return written
    requests = _encode(completed.requests, written.requests or _NO_RESOURCES)
    limits = _encode(completed.limits, written.limits or _NO_RESOURCES)
    return msgspec.structs.replace(written, requests=requests or written.requests, limits=limits or written.limits)


def _complete_container(container: core.Container, defaults: ContainerDefaults) -> core.Container:
    """Return a container with the limits and requests that it lacks; a limit stands for a missing request."""
    resources = container.resources or core.ResourceRequirements()
    limits, requests = resources.limits or _NO_RESOURCES, resources.requests or _NO_RESOURCES
    added_limits = {name: limit for name, limit in defaults.limits.items() if name not in limits}
    added_requests = {
        name: request for name, request in defaults.requests.items() if name not in requests and name not in limits
    }
    if not added_limits and not added_requests:
        return container
    completed = msgspec.structs.replace(
        resources,
        limits={**limits, **_encode(added_limits, _NO_RESOURCES)},
        requests={**requests, **_encode(added_requests, _NO_RESOURCES)},
    )
    return msgspec.structs.replace(container, resources=completed)


def _encode(quantities: Quantities, written: core.ResourceList) -> core.ResourceList:
    """Return quantities as JSON, each as it is written where it is."""
    return {
        name: written.get(name, msgspec.Raw(b'"%s"' % str(quantity).encode())) for name, quantity in quantities.items()
    }
