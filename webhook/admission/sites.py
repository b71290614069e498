"""Sites: every place of an object where resource names stand with quantities.

Rules see sites, not kinds; what differs between a container, a node and a quota is said here once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.accounting.name_rules import NameContext
from webhook.admission.workloads import Judged, PodView
from webhook.objects.core import Container, LimitRange, Node, PodSpec, ResourceList, ResourceQuota, ResourceRequirements

_EMPTY: ResourceList = {}


class Site(NamedTuple):
    """One place: `path` in front of its lists, `identity` the same place by name rather than by index.

    `lists` are the resource lists with their field names. `pair` is (requests, limits) where the two belong together.
    `bounded` says whether it is one container's own ask.
    """

    path: str
    identity: str
    place: NameContext
    lists: tuple[tuple[str, ResourceList], ...]
    pair: tuple[ResourceList, ResourceList] | None = None
    bounded: bool = False


def sites(judged: Judged, view: PodView | None) -> list[Site]:
    """All sites of an object, in the order they are written."""
    if view is not None:
        spec = view.pod.spec
        return list(_pod_sites(spec, view.path)) if spec else []
    match judged:
        case Node():
            return _node_sites(judged)
        case ResourceQuota():
            hard = judged.spec.hard if judged.spec else None
            return [Site("spec.", "hard", NameContext.QUOTA, (("hard", hard),))] if hard else []
        case LimitRange():
            return list(_limit_range_sites(judged))
        case _:
            return []


def _pod_sites(spec: PodSpec, prefix: str) -> Iterator[Site]:
    for field, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers or ()):
            if container.resources is not None:
                yield _container_site(f"{prefix}spec.{field}[{index}]", field, container, container.resources)
    if spec.resources is not None:
        pair = (spec.resources.requests or _EMPTY, spec.resources.limits or _EMPTY)
        yield Site(f"{prefix}spec.resources.", "pod", NameContext.POD, _named(pair), pair)
    if spec.overhead:
        yield Site(f"{prefix}spec.", "overhead", NameContext.OVERHEAD, (("overhead", spec.overhead),))


def _container_site(path: str, field: str, container: Container, resources: ResourceRequirements) -> Site:
    pair = (resources.requests or _EMPTY, resources.limits or _EMPTY)
    # An ephemeral container may have no resources at all, so there is nothing to be equal or filled in.
    paired = pair if field != "ephemeralContainers" else None
    return Site(
        f"{path}.resources.", f"{field}/{container.name}", NameContext.CONTAINER, _named(pair), paired, bounded=True
    )


def _named(pair: tuple[ResourceList, ResourceList]) -> tuple[tuple[str, ResourceList], ...]:
    return (("requests", pair[0]), ("limits", pair[1]))


def _node_sites(node: Node) -> list[Site]:
    status = node.status
    if status is None:
        return []
    lists = (("capacity", status.capacity or _EMPTY), ("allocatable", status.allocatable or _EMPTY))
    return [Site("status.", "status", NameContext.NODE, lists)]


def _limit_range_sites(limit_range: LimitRange) -> Iterator[Site]:
    items = (limit_range.spec.limits if limit_range.spec else None) or ()
    for index, item in enumerate(items):
        lists = (
            ("max", item.max or _EMPTY),
            ("min", item.min or _EMPTY),
            ("default", item.default or _EMPTY),
            ("defaultRequest", item.default_request or _EMPTY),
        )
        yield Site(f"spec.limits[{index}].", f"limits/{item.type}", NameContext.LIMIT_RANGE, lists)


def counted_name(key: str) -> str:
    """The resource that a quota's key speaks of, which says `requests.` or `limits.` in front."""
    return key.removeprefix("requests.").removeprefix("limits.")
