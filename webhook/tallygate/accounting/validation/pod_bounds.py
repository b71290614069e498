"""The bounds of LimitRanges on pods: admission rejects a new pod outside of them.

Source: PodValidateLimitFunc, minConstraint, maxConstraint and limitRequestRatioConstraint in
plugin/pkg/admission/limitranger/admission.go, v1.37; exceedsAllowed there, v1.38.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tallygate.accounting.kubernetes_codes import OUTSIDE_LIMIT_RANGE
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.pod_resources import PodResources, Quantities, aggregate_containers, parse_pod_resources
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.validation.limit_ranges import LimitRangeLists, parse_limit_range_item
from tallygate.objects.core import LimitRange, PodSpec

_MILLI = 1000
_CONTAINER, _POD = "Container", "Pod"
_POD_LEVEL = frozenset({"cpu", "memory"})


class LimitRangeEntry(NamedTuple):
    """One entry of the LimitRange of this name."""

    limit_range: str
    type: str
    lists: LimitRangeLists


class _Subject(NamedTuple):
    """A container, or a pod as a whole: `path` is its field, `noun` what the bounds are for."""

    path: str
    noun: str
    requests: Quantities
    limits: Quantities


def list_entries(limit_range: LimitRange) -> Iterator[LimitRangeEntry]:
    """Yield the entries of a LimitRange that bound pods."""
    name = (limit_range.metadata.name if limit_range.metadata is not None else None) or ""
    for item in (limit_range.spec.limits if limit_range.spec is not None else None) or ():
        if item.type in {_CONTAINER, _POD}:
            yield LimitRangeEntry(name, item.type, parse_limit_range_item(item))


def check_pod_bounds(
    spec: PodSpec, entries: Sequence[LimitRangeEntry], version: KubernetesVersion, *, is_complete: bool
) -> list[Problem]:
    """Return the problems of a new pod that admission has completed, as an API server of this version finds them.

    Without `is_complete`, other LimitRanges may give its containers what they lack: then a missing value is no problem,
    and the sums of the pod may be larger.
    """
    try:
        resources = parse_pod_resources(spec)
    except QuantityError:
        return []  # the validation of pods reports it
    return [
        problem
        for entry in entries
        for subject in _list_subjects(resources, entry.type)
        for problem in (
            *_check_subject(subject, entry, is_complete=is_complete),
            *_check_ratios(subject, entry, version, is_complete=is_complete),
        )
    ]


def _list_subjects(resources: PodResources, entry_type: str) -> Iterator[_Subject]:
    if entry_type == _POD:
        yield _Subject("spec", "pod", *(_sum_pod(resources, limits=limits) for limits in (False, True)))
        return
    for field, containers in (("containers", resources.containers), ("initContainers", resources.init)):
        for index, container in enumerate(containers):
            yield _Subject(f"spec.{field}[{index}].resources", "container", container.requests, container.limits)


def _sum_pod(resources: PodResources, *, limits: bool) -> Quantities:
    """Return the sums that LimitRanger compares: unlike everything else, it reads no huge pages at the pod level."""
    total = aggregate_containers(resources.containers, resources.init, limits=limits)
    of_pod = resources.limits if limits else resources.requests
    return total | {name: quantity for name, quantity in of_pod.items() if name in _POD_LEVEL}


def _check_subject(subject: _Subject, entry: LimitRangeEntry, *, is_complete: bool) -> Iterator[Problem]:
    is_certain = is_complete or subject.noun == "container"
    for name, bound in entry.lists.min.items() if is_certain else ():
        for field, quantity in (("requests", subject.requests.get(name)), ("limits", subject.limits.get(name))):
            if quantity is not None and quantity < bound:
                end = f"{_name_field(subject, field)} {quantity}: write {bound} or more"
                yield _create_problem(subject, field, name, f"{_name(entry)} requires {bound} {name} {end}")
        if name not in subject.requests and is_complete:
            end = f"for each {subject.noun}, and this one has no request: write {bound} or more"
            yield _create_problem(subject, "requests", name, f"{_name(entry)} requires {bound} {name} {end}")
    for name, bound in entry.lists.max.items():
        for field, quantity in (("limits", subject.limits.get(name)), ("requests", subject.requests.get(name))):
            if quantity is not None and quantity > bound:
                end = f"{_name_field(subject, field)} {quantity}: write {bound} or less"
                yield _create_problem(subject, field, name, f"{_name(entry)} allows at most {bound} {name} {end}")
                break
        if name not in subject.limits and is_complete:
            end = f"for each {subject.noun}, and this one has no limit: write {bound} or less"
            yield _create_problem(subject, "limits", name, f"{_name(entry)} allows at most {bound} {name} {end}")


def _check_ratios(
    subject: _Subject, entry: LimitRangeEntry, version: KubernetesVersion, *, is_complete: bool
) -> Iterator[Problem]:
    is_certain = is_complete or subject.noun == "container"
    for name, ratio in entry.lists.ratio.items() if is_certain else ():
        text = f"{_name(entry)} allows a limit of {name} of at most {ratio} times the request for each {subject.noun}"
        request, limit = subject.requests.get(name), subject.limits.get(name)
        missing = next(_list_missing(request, limit, is_complete=is_complete), None)
        if missing is not None:
            field, noun = missing
            message = f"{text}, and this one has no {noun}, or 0: write request and limit"
            yield _create_problem(subject, field, name, message)
        elif request is not None and limit is not None and _exceeds(limit, request, ratio, version):
            message = f"{text}, and this one has {limit} for {request}: raise the request, or lower the limit"
            yield _create_problem(subject, "limits", name, message)


def _list_missing(request: Quantity | None, limit: Quantity | None, *, is_complete: bool) -> Iterator[tuple[str, str]]:
    """Yield the field and the noun of each amount that a ratio needs, and that is 0 or surely missing."""
    for field, quantity, noun in (("requests", request, "request"), ("limits", limit, "limit")):
        if (quantity is None and is_complete) or (quantity is not None and not quantity.sign):
            yield field, noun


def _exceeds(limit: Quantity, request: Quantity, ratio: Quantity, version: KubernetesVersion) -> bool:
    """Return whether a limit is more than the request times the ratio; all are stored in whole thousandths."""
    if version.has(Switch.COMPARES_RATIOS_EXACTLY):
        return limit.milli() * _MILLI > request.milli() * ratio.milli()
    return limit.milli() / request.milli() * _MILLI > ratio.milli()


def _name(entry: LimitRangeEntry) -> str:
    return f"LimitRange {entry.limit_range}"


def _name_field(subject: _Subject, field: str) -> str:
    if subject.noun == "pod":
        return f"for each pod, and the {field} of this one are"
    return f"for each container, and this {field.removesuffix('s')} is"


def _create_problem(subject: _Subject, field: str, name: str, message: str) -> Problem:
    path = subject.path if subject.noun == "pod" else f"{subject.path}.{field}[{name}]"
    return Problem(path, OUTSIDE_LIMIT_RANGE, Reason.FORBIDDEN, message)
