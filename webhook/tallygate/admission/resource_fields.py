"""Resource fields: every place of an object with resource names and quantities.

Rules see resource fields, not kinds; only this module knows the differences between a container, a node and a quota.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tallygate.accounting.name_rules import NameContext
from tallygate.accounting.pod_defaults import list_default_requests
from tallygate.admission.kinds import DecodedObject
from tallygate.admission.pod_view import PodView
from tallygate.objects import core

_EMPTY: core.ResourceList = {}


class ResourceField(NamedTuple):
    """One place of an object: `path` is the prefix of its lists, `identity` names the place without an index.

    `lists` are the resource lists with their field names. `requests_and_limits` is the pair of lists that a rule
    compares, or None. `is_container` marks the requests of one container. `default_requests` are the names of its
    requests that LimitRanges have set.
    """

    path: str
    identity: str
    context: NameContext
    lists: tuple[tuple[str, core.ResourceList], ...]
    requests_and_limits: tuple[core.ResourceList, core.ResourceList] | None = None
    is_container: bool = False
    default_requests: frozenset[str] = frozenset()


def list_resource_fields(decoded_object: DecodedObject, pod_view: PodView | None) -> list[ResourceField]:
    """Return all resource fields of an object, in the order of its JSON."""
    if pod_view is not None:
        spec = pod_view.pod.spec
        return list(_list_pod_fields(spec, pod_view)) if spec else []
    match decoded_object:
        case core.Node():
            return _list_node_fields(decoded_object)
        case core.ResourceQuota():
            hard = decoded_object.spec.hard if decoded_object.spec else None
            return [ResourceField("spec.", "hard", NameContext.QUOTA, (("hard", hard),))] if hard else []
        case core.LimitRange():
            return list(_list_limit_range_fields(decoded_object))
        case _:
            return []


def _list_pod_fields(spec: core.PodSpec, pod_view: PodView) -> Iterator[ResourceField]:
    prefix, places = pod_view.path, pod_view.places
    default_requests = {} if pod_view.is_template else list_default_requests(pod_view.pod)
    group = f"{pod_view.identity}/" if pod_view.identity else ""
    for field, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers or ()):
            if container.resources is not None:
                path = f"spec.{field}[{index}].resources"
                path = pod_view.locate(path) if places else f"{prefix}{path}"
                identity = f"{group}{field}/{container.name}"
                resource_field = _create_container_field(path, field, identity, container.resources)
                if names := default_requests.get((field, container.name or "")):
                    resource_field = resource_field._replace(default_requests=names)
                yield resource_field
    if spec.resources is not None:
        requests_and_limits = (spec.resources.requests or _EMPTY, spec.resources.limits or _EMPTY)
        yield ResourceField(
            f"{pod_view.locate('spec.resources')}.",
            f"{group}pod",
            NameContext.POD,
            _label_lists(requests_and_limits),
            requests_and_limits,
        )
    if spec.overhead:
        lists = (("overhead", spec.overhead),)
        yield ResourceField(f"{pod_view.locate('spec')}.", f"{group}overhead", NameContext.OVERHEAD, lists)


def _create_container_field(
    path: str, field: str, identity: str, resources: core.ResourceRequirements
) -> ResourceField:
    requests_and_limits = (resources.requests or _EMPTY, resources.limits or _EMPTY)
    # The API server rejects resources of ephemeral containers, so a rule neither compares nor fills in their lists.
    compared_pair = requests_and_limits if field != "ephemeralContainers" else None
    return ResourceField(
        f"{path}.", identity, NameContext.CONTAINER, _label_lists(requests_and_limits), compared_pair, is_container=True
    )


def _label_lists(
    requests_and_limits: tuple[core.ResourceList, core.ResourceList],
) -> tuple[tuple[str, core.ResourceList], ...]:
    return (("requests", requests_and_limits[0]), ("limits", requests_and_limits[1]))


def _list_node_fields(node: core.Node) -> list[ResourceField]:
    status = node.status
    if status is None:
        return []
    lists = (("capacity", status.capacity or _EMPTY), ("allocatable", status.allocatable or _EMPTY))
    return [ResourceField("status.", "status", NameContext.NODE, lists)]


def _list_limit_range_fields(limit_range: core.LimitRange) -> Iterator[ResourceField]:
    items = (limit_range.spec.limits if limit_range.spec else None) or ()
    for index, item in enumerate(items):
        lists = (
            ("max", item.max or _EMPTY),
            ("min", item.min or _EMPTY),
            ("default", item.default or _EMPTY),
            ("defaultRequest", item.default_request or _EMPTY),
        )
        yield ResourceField(f"spec.limits[{index}].", f"limits/{item.type}", NameContext.LIMIT_RANGE, lists)


def strip_quota_prefix(key: str) -> str:
    """Return the resource name of a quota key, without its prefix `requests.` or `limits.`."""
    return key.removeprefix("requests.").removeprefix("limits.")
