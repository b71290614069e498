"""What Kubernetes lets through and tallygate calls wrong.

Kubernetes checks extended resources only. Opaque resources, and whatever else contains `kubernetes.io/`, may have
fractions; names in a node's status are not looked at; a quota may limit what is never counted; a LimitRange may fill in
what every pod is refused for.
"""

from collections.abc import Iterable

from webhook.accounting.asks import ContainerAsk, Quantities, read_list, read_pod
from webhook.accounting.lenient_codes import (
    FRACTION_LET_THROUGH,
    FRACTIONAL_BYTES,
    LIMIT_RANGE_FRACTION,
    LIMIT_RANGE_NEGATIVE,
    NODE_NAME_LET_THROUGH,
    OPAQUE_LIMIT_MISSING,
    OPAQUE_REQUEST_NOT_LIMIT,
    QUOTA_FRACTION,
    QUOTA_NEVER_COUNTS,
)
from webhook.accounting.name_rules import advertising_faults
from webhook.accounting.names import (
    LIMITS_PREFIX,
    REQUESTS_PREFIX,
    Family,
    family,
    is_countable,
    is_integer,
    is_prefixed_native,
)
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import Quantity, QuantityError
from webhook.accounting.quota import is_counted
from webhook.accounting.validation.limit_ranges import fields, read_item
from webhook.accounting.validation.nodes import entry_path, node_lists
from webhook.accounting.validation.printing import printed
from webhook.accounting.validation.unreadable import readable, readable_pod
from webhook.accounting.validation.values import not_whole
from webhook.objects.cluster import LimitRange, Node, ResourceQuota
from webhook.objects.pods import Pod

_BYTES = frozenset({"memory", "ephemeral-storage"})
_COUNTED_ELSEWHERE = (
    ".storageclass.storage.k8s.io/",
    ".volumeattributesclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
)


def pod_lets_through(pod: Pod, prefix: str = "", *, template: bool = False) -> list[Problem]:
    """Fractions of opaque and kubernetes.io-like names and of bytes, and opaque requests that are not their limit.

    `prefix` and `template` are those of `validate_pod`.
    """
    if pod.spec is None:
        return []
    path = f"{prefix}spec"
    try:
        ask = read_pod(pod.spec, complete=not template)
    except QuantityError:
        ask = read_pod(readable_pod(pod.spec), complete=not template)
    problems = _container_problems(f"{path}.containers", ask.containers)
    problems += _container_problems(f"{path}.initContainers", ask.init)
    return problems + _fractions(f"{path}.overhead.limits", ask.overhead)


def node_lets_through(node: Node) -> list[Problem]:
    """Names in a node's status that no container can ask for, and fractions of what stands for whole things."""
    problems: list[Problem] = []
    for path, listed in node_lists(node):
        quantities = read_list(readable(listed))
        problems += [
            Problem(entry_path(path, name), NODE_NAME_LET_THROUGH.number, each.reason, each.message, "", printed(name))
            for name in quantities
            for each in advertising_faults(name)
        ]
        problems += [
            _fraction(entry_path(path, name), FRACTION_LET_THROUGH, name, quantity)
            for name, quantity in quantities.items()
            if _is_loose(name) and not quantity.is_whole
        ]
    return problems


def quota_lets_through(quota: ResourceQuota) -> list[Problem]:
    """Keys that Kubernetes stores and never counts, and fractions of what stands for whole things."""
    problems: list[Problem] = []
    for name, quantity in read_list(readable(quota.spec.hard if quota.spec is not None else None)).items():
        path = f"spec.hard[{name}]"
        plain = name.removeprefix(REQUESTS_PREFIX)
        if not is_integer(name) and not quantity.is_whole and (is_countable(plain) or _is_loose(plain)):
            problems.append(_fraction(path, QUOTA_FRACTION, plain, quantity))
        if "/" in name and not is_counted(name) and not _is_counted_elsewhere(name):
            problems.append(_invalid(path, QUOTA_NEVER_COUNTS, _never_counts(name), printed(name)))
    return problems


def limit_range_lets_through(limit_range: LimitRange) -> list[Problem]:
    """Values below zero, and fractions of what stands for whole things."""
    problems: list[Problem] = []
    items = limit_range.spec.limits if limit_range.spec is not None else None
    for index, item in enumerate(items or ()):
        for path, listed in fields(f"spec.limits[{index}]", read_item(item)):
            ratio = path.endswith("Ratio")
            for name, quantity in listed.items():
                problems += _limit_problems(f"{path}[{name}]", name, quantity, ratio=ratio)
    return problems


def _container_problems(path: str, asks: Iterable[ContainerAsk]) -> list[Problem]:
    problems: list[Problem] = []
    for index, ask in enumerate(asks):
        at = f"{path}[{index}].resources"
        problems += _fractions(f"{at}.limits", ask.limits) + _fractions(f"{at}.requests", ask.requests)
        for name, request in ask.requests.items():
            if family(name) is Family.OPAQUE:
                problems += _opaque_problems(at, name, request, ask.limits.get(name))
    return problems


def _opaque_problems(path: str, name: str, request: Quantity, limit: Quantity | None) -> list[Problem]:
    """The rule of extended resources for opaque ones, at the fields Kubernetes would name."""
    if limit is None:
        message = f"{name} is requested without a limit; it is handed out whole: set the limit to {request}"
        return [Problem(f"{path}.limits", OPAQUE_LIMIT_MISSING.number, Reason.REQUIRED, message)]
    if request == limit:
        return []
    message = f"the request of {request} {name} differs from its limit of {limit}; set both to the same"
    return [_invalid(f"{path}.requests", OPAQUE_REQUEST_NOT_LIMIT, message, printed(request.text))]


def _fractions(path: str, listed: Quantities) -> list[Problem]:
    problems = []
    for name, quantity in listed.items():
        if quantity.is_whole:
            continue
        if _is_loose(name):
            problems.append(_fraction(f"{path}[{name}]", FRACTION_LET_THROUGH, name, quantity))
        elif name in _BYTES:
            problems.append(_fractional_bytes(f"{path}[{name}]", name, quantity))
    return problems


def _fractional_bytes(path: str, name: str, quantity: Quantity) -> Problem:
    """Kubernetes warns of it (pkg/api/pod/warnings.go)."""
    message = f"{quantity} of {name} is a fraction of a byte; m stands for thousandths: write whole bytes, or M or Mi"
    return _invalid(path, FRACTIONAL_BYTES, message, printed(quantity.text))


def _limit_problems(path: str, name: str, quantity: Quantity, *, ratio: bool) -> list[Problem]:
    problems = []
    if quantity.sign < 0:
        message = f"{quantity} is below zero; Kubernetes stores it, but nothing can meet it: use 0 or more"
        problems.append(_invalid(path, LIMIT_RANGE_NEGATIVE, message, printed(quantity.text)))
    if not ratio and not quantity.is_whole and (is_integer(name) or _is_loose(name)):
        problems.append(_fraction(path, LIMIT_RANGE_FRACTION, name, quantity))
    return problems


def _is_loose(name: str) -> bool:
    """Whether it stands for whole things, but Kubernetes takes it for one of its own and does not look."""
    return is_prefixed_native(name)


def _is_counted_elsewhere(name: str) -> bool:
    """Whether something else than pods is counted under it: objects, storage classes, device classes."""
    return name.startswith("count/") or any(infix in name for infix in _COUNTED_ELSEWHERE)


def _never_counts(name: str) -> str:
    plain = name.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX)
    better = f"{REQUESTS_PREFIX}{plain}"
    if is_counted(better):
        return f"Kubernetes counts {plain} as {better} only, so this limits nothing; write {better}"
    return f"Kubernetes never counts {plain}, so this limits nothing; use a cap"


def _fraction(path: str, code: Code, name: str, quantity: Quantity) -> Problem:
    return _invalid(
        path, code, f"{not_whole(name, quantity)} (Kubernetes stores it all the same)", printed(quantity.text)
    )


def _invalid(path: str, code: Code, message: str, value: str) -> Problem:
    return Problem(path, code.number, Reason.INVALID, message, "", value)
