"""Quantities that cannot be read.

Kubernetes stops at the first of them and says no field. Here each is a problem at its field, and the rest is judged
as if its name were not mentioned.
"""

from msgspec.structs import replace

from webhook.accounting.codes import TOO_LARGE, UNREADABLE_QUANTITY
from webhook.accounting.names import is_hugepage
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.quantity import Quantity, QuantityError, QuantityTooLargeError
from webhook.accounting.quantity_advice import meant
from webhook.objects.pods import Container, PodSpec, ResourceList, ResourceRequirements

_SHOWN = 60  # bytes of a token that are worth showing


def list_problems(path: str, listed: ResourceList | None) -> list[Problem]:
    """One problem for each value of a list at a path (`spec.hard`) that is no quantity."""
    problems = []
    for name, raw in (listed or {}).items():
        try:
            Quantity.from_json(raw)
        except QuantityError as error:
            problems.append(_problem(f"{path}[{name}]", bytes(raw), error))
    return problems


def readable(listed: ResourceList | None) -> ResourceList | None:
    """The list without what cannot be read."""
    return listed and {name: raw for name, raw in listed.items() if _is_readable(raw)}


def pod_problems(path: str, spec: PodSpec) -> list[Problem]:
    """One problem for each value anywhere in a pod spec that is no quantity."""
    problems: list[Problem] = []
    for key, containers in _containers(spec):
        for index, each in enumerate(containers):
            problems += _resource_problems(f"{path}.{key}[{index}].resources", each.resources)
    return (
        problems
        + _resource_problems(f"{path}.resources", spec.resources)
        + list_problems(f"{path}.overhead", spec.overhead)
    )


def readable_pod(spec: PodSpec) -> PodSpec:
    """The pod spec without what cannot be read."""
    return replace(
        spec,
        containers=_readable_containers(spec.containers),
        init_containers=_readable_containers(spec.init_containers),
        ephemeral_containers=_readable_containers(spec.ephemeral_containers),
        resources=_readable_resources(spec.resources),
        overhead=readable(spec.overhead),
    )


def _containers(spec: PodSpec) -> tuple[tuple[str, list[Container]], ...]:
    return (
        ("containers", spec.containers or []),
        ("initContainers", spec.init_containers or []),
        ("ephemeralContainers", spec.ephemeral_containers or []),
    )


def _resource_problems(path: str, resources: ResourceRequirements | None) -> list[Problem]:
    if resources is None:
        return []
    return list_problems(f"{path}.limits", resources.limits) + list_problems(f"{path}.requests", resources.requests)


def _readable_containers(containers: list[Container] | None) -> list[Container] | None:
    return containers and [replace(each, resources=_readable_resources(each.resources)) for each in containers]


def _readable_resources(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    """What cannot be read in one list is left out of both, and with cpu or memory the huge pages that need them."""
    if resources is None:
        return None
    lists = (resources.requests or {}, resources.limits or {})
    lost = {name for listed in lists for name, raw in listed.items() if not _is_readable(raw)}
    if lost & {"cpu", "memory"}:
        lost |= {name for listed in lists for name in listed if is_hugepage(name)}
    return replace(resources, requests=_without(resources.requests, lost), limits=_without(resources.limits, lost))


def _without(listed: ResourceList | None, lost: set[str]) -> ResourceList | None:
    return listed and {name: raw for name, raw in listed.items() if name not in lost}


def _is_readable(raw: bytes) -> bool:
    try:
        Quantity.from_json(raw)
    except QuantityError:
        return False
    return True


def _problem(path: str, token: bytes, error: QuantityError) -> Problem:
    """What was written, cut to a length that can be shown."""
    text = token[:_SHOWN].decode("utf-8", "replace") + ("…" if len(token) > _SHOWN else "")
    if isinstance(error, QuantityTooLargeError):
        return Problem(
            path, TOO_LARGE.number, Reason.INVALID, f"{text} is no quantity that can be counted: {error}", "", text
        )
    near = " or ".join(meant(text.strip('"')))
    advice = f"did you mean {near}?" if near else "write a number with an optional suffix, such as 2, 500m or 3Gi"
    message = f"{text} is not a quantity: {error}; {advice}"
    return Problem(path, UNREADABLE_QUANTITY.number, Reason.INVALID, message, str(error), text)
