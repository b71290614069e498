"""Quantities that cannot be parsed, and suggestions for them.

Kubernetes stops at the first of them and names no field. Here each is a problem at its field, and the other values are
validated as if its name were absent.
"""

import re

from msgspec.structs import replace

from tallygate.accounting.kubernetes_codes import TOO_LARGE, UNREADABLE_QUANTITY
from tallygate.accounting.names import is_hugepage
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError, QuantityTooLargeError
from tallygate.objects.core import Container, PodSpec, ResourceList, ResourceRequirements

_MAX_LENGTH = 64
_NUMBER_AND_SUFFIX = re.compile(r"([+-]?)\s*([0-9][0-9_, ]*+(?:\.[0-9]+)?+)\s*([A-Za-z]*+)")
_GROUPED_THOUSANDS = re.compile(r"[0-9]{1,3}(?:[,_ ][0-9]{3})+(?:\.[0-9]+)?")
_DECIMAL_SUFFIXES = {"k": "k", "m": "M", "g": "G", "t": "T", "p": "P", "e": "E"}
_BYTE_UNITS = frozenset({"b", "byte", "bytes"})

_MAX_SHOWN_BYTES = 60  # bytes of a token in a message


def check_resource_list(path: str, resource_list: ResourceList | None) -> list[Problem]:
    """Return one problem for each value of a list at a path (`spec.hard`) that is no quantity."""
    problems = []
    for name, raw in (resource_list or {}).items():
        try:
            Quantity.from_json(raw)
        except QuantityError as error:
            problems.append(_create_unreadable_problem(f"{path}[{name}]", bytes(raw), error))
    return problems


def drop_unreadable(resource_list: ResourceList | None) -> ResourceList | None:
    """Return the list without values that cannot be parsed."""
    return resource_list and {name: raw for name, raw in resource_list.items() if _is_readable(raw)}


def check_pod_readable(path: str, spec: PodSpec) -> list[Problem]:
    """Return one problem for each value anywhere in a pod spec that is no quantity."""
    problems: list[Problem] = []
    for key, containers in _list_containers(spec):
        for index, container in enumerate(containers):
            problems += _check_container_resources(f"{path}.{key}[{index}].resources", container.resources)
    return (
        problems
        + _check_container_resources(f"{path}.resources", spec.resources)
        + check_resource_list(f"{path}.overhead", spec.overhead)
    )


def is_pod_readable(spec: PodSpec | None) -> bool:
    """Return whether all values of a pod spec are quantities: an API server stores no other pod."""
    return spec is None or not check_pod_readable("", spec)


def drop_unreadable_in_pod(spec: PodSpec) -> PodSpec:
    """Return the pod spec without values that cannot be parsed."""
    return replace(
        spec,
        containers=_drop_in_containers(spec.containers),
        init_containers=_drop_in_containers(spec.init_containers),
        ephemeral_containers=_drop_in_containers(spec.ephemeral_containers),
        resources=_drop_in_resources(spec.resources),
        overhead=drop_unreadable(spec.overhead),
    )


def suggest_quantities(text: str) -> tuple[str, ...]:
    """Return quantities that are similar to an invalid text; empty for most texts.

    `1GB` is similar to `1G` and `1Gi`, `1,5` to `1.5`.
    """
    match = _NUMBER_AND_SUFFIX.fullmatch(text.strip()) if len(text) <= _MAX_LENGTH else None
    if match is None:
        return ()
    sign, number, suffix = match.groups()
    digits = sign + _remove_separators(number.strip())
    return tuple(
        digits + suggested for suggested in _suggest_suffixes(suffix.lower()) if _is_quantity(digits + suggested)
    )


def _list_containers(spec: PodSpec) -> tuple[tuple[str, list[Container]], ...]:
    return (
        ("containers", spec.containers or []),
        ("initContainers", spec.init_containers or []),
        ("ephemeralContainers", spec.ephemeral_containers or []),
    )


def _check_container_resources(path: str, resources: ResourceRequirements | None) -> list[Problem]:
    if resources is None:
        return []
    return check_resource_list(f"{path}.limits", resources.limits) + check_resource_list(
        f"{path}.requests", resources.requests
    )


def _drop_in_containers(containers: list[Container] | None) -> list[Container] | None:
    return containers and [
        replace(container, resources=_drop_in_resources(container.resources)) for container in containers
    ]


def _drop_in_resources(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    """Drop an unreadable name from both lists, and with cpu or memory the huge pages that need them."""
    if resources is None:
        return None
    lists = (resources.requests or {}, resources.limits or {})
    dropped = {name for listed in lists for name, raw in listed.items() if not _is_readable(raw)}
    if dropped & {"cpu", "memory"}:
        dropped |= {name for listed in lists for name in listed if is_hugepage(name)}
    return replace(
        resources, requests=_drop_names(resources.requests, dropped), limits=_drop_names(resources.limits, dropped)
    )


def _drop_names(resource_list: ResourceList | None, dropped: set[str]) -> ResourceList | None:
    return resource_list and {name: raw for name, raw in resource_list.items() if name not in dropped}


def _is_readable(raw: bytes) -> bool:
    try:
        Quantity.from_json(raw)
    except QuantityError:
        return False
    return True


def _create_unreadable_problem(path: str, token: bytes, error: QuantityError) -> Problem:
    """Return the problem of a value that cannot be parsed, with its text cut to `_MAX_SHOWN_BYTES`."""
    text = token[:_MAX_SHOWN_BYTES].decode("utf-8", "replace") + ("…" if len(token) > _MAX_SHOWN_BYTES else "")
    if isinstance(error, QuantityTooLargeError):
        return Problem(
            path, TOO_LARGE, Reason.INVALID, f"{text} is not a quantity that can be counted: {error}", "", text
        )
    suggestions = " or ".join(suggest_quantities(text.strip('"')))
    advice = (
        f"did you mean {suggestions}?"
        if suggestions
        else "write a number with an optional suffix, such as 2, 500m or 3Gi"
    )
    message = f"{text} is not a quantity: {error}; {advice}"
    return Problem(path, UNREADABLE_QUANTITY, Reason.INVALID, message, str(error), text)


def _remove_separators(number: str) -> str:
    """Return a number without separators; a comma that does not separate thousands is a decimal point."""
    if _GROUPED_THOUSANDS.fullmatch(number):
        return re.sub("[,_ ]", "", number)
    return number.replace(",", ".").replace("_", "").replace(" ", "")


def _suggest_suffixes(suffix: str) -> tuple[str, ...]:
    """Return the suffixes that a lower-case one may stand for, decimal first."""
    if not suffix or suffix in _BYTE_UNITS:
        return ("",)
    decimal, rest = _DECIMAL_SUFFIXES.get(suffix[0]), suffix[1:]
    if decimal is None or rest.removesuffix("b") not in {"", "i"}:
        return ()
    binary = decimal.upper() + "i"
    return (binary,) if rest.startswith("i") else (decimal, binary)


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True
