"""What Kubernetes lets through and tallygate calls wrong.

Kubernetes checks extended resources only. Opaque resources, and whatever else contains `kubernetes.io/`, may have
fractions; names in a node's status are not looked at; a quota may limit what is never counted; a LimitRange may fill in
what every pod is refused for.
"""

from collections.abc import Iterable

from webhook.accounting.asks import ContainerResources, Quantities, parse_pod_resources, parse_resource_list
from webhook.accounting.lenient_codes import (
    FRACTION_ACCEPTED,
    FRACTIONAL_BYTES,
    LIMIT_RANGE_FRACTION,
    LIMIT_RANGE_NEGATIVE,
    NODE_NAME_ACCEPTED,
    OPAQUE_LIMIT_MISSING,
    OPAQUE_REQUEST_NOT_LIMIT,
    QUOTA_FRACTION,
    QUOTA_NEVER_COUNTS,
)
from webhook.accounting.name_rules import find_advertised_name_problems
from webhook.accounting.names import (
    LIMITS_PREFIX,
    REQUESTS_PREFIX,
    Family,
    classify_name,
    is_countable,
    is_integer,
    is_prefixed_native,
)
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import Quantity, QuantityError
from webhook.accounting.quota import is_counted_key
from webhook.accounting.validation.limit_ranges import list_item_fields, parse_limit_range_item
from webhook.accounting.validation.nodes import format_entry_path, list_node_resources
from webhook.accounting.validation.printing import encode_go_json
from webhook.accounting.validation.unreadable import drop_unreadable, drop_unreadable_in_pod
from webhook.accounting.validation.values import describe_not_whole
from webhook.objects.cluster import LimitRange, Node, ResourceQuota
from webhook.objects.pods import Pod

_BYTE_RESOURCES = frozenset({"memory", "ephemeral-storage"})
_OTHER_QUOTA_INFIXES = (
    ".storageclass.storage.k8s.io/",
    ".volumeattributesclass.storage.k8s.io/",
    ".deviceclass.resource.k8s.io/",
)


def check_pod_strictly(pod: Pod, prefix: str = "", *, template: bool = False) -> list[Problem]:
    """Fractions of opaque and kubernetes.io-like names and of bytes, and opaque requests that are not their limit.

    `prefix` and `template` are those of `validate_pod`.
    """
    if pod.spec is None:
        return []
    path = f"{prefix}spec"
    try:
        resources = parse_pod_resources(pod.spec, complete=not template)
    except QuantityError:
        resources = parse_pod_resources(drop_unreadable_in_pod(pod.spec), complete=not template)
    problems = _check_containers_strictly(f"{path}.containers", resources.containers)
    problems += _check_containers_strictly(f"{path}.initContainers", resources.init)
    return problems + _check_fractions(f"{path}.overhead.limits", resources.overhead)


def check_node_strictly(node: Node) -> list[Problem]:
    """Names in a node's status that no container can ask for, and fractions of what stands for whole things."""
    problems: list[Problem] = []
    for path, resource_list in list_node_resources(node):
        quantities = parse_resource_list(drop_unreadable(resource_list))
        problems += [
            Problem(
                format_entry_path(path, name),
                NODE_NAME_ACCEPTED.number,
                each.reason,
                each.message,
                "",
                encode_go_json(name),
            )
            for name in quantities
            for each in find_advertised_name_problems(name)
        ]
        problems += [
            create_fraction_problem(format_entry_path(path, name), FRACTION_ACCEPTED, name, quantity)
            for name, quantity in quantities.items()
            if is_unchecked_integer(name) and not quantity.is_whole
        ]
    return problems


def check_quota_strictly(quota: ResourceQuota) -> list[Problem]:
    """Keys that Kubernetes stores and never counts, and fractions of what stands for whole things."""
    problems: list[Problem] = []
    for name, quantity in parse_resource_list(
        drop_unreadable(quota.spec.hard if quota.spec is not None else None)
    ).items():
        path = f"spec.hard[{name}]"
        resource = name.removeprefix(REQUESTS_PREFIX)
        if (
            not is_integer(name)
            and not quantity.is_whole
            and (is_countable(resource) or is_unchecked_integer(resource))
        ):
            problems.append(create_fraction_problem(path, QUOTA_FRACTION, resource, quantity))
        if "/" in name and not is_counted_key(name) and not _is_counted_for_other_objects(name):
            problems.append(
                create_accepted_problem(path, QUOTA_NEVER_COUNTS, _describe_never_counted(name), encode_go_json(name))
            )
    return problems


def check_limit_range_strictly(limit_range: LimitRange) -> list[Problem]:
    """Values below zero, and fractions of what stands for whole things."""
    problems: list[Problem] = []
    items = limit_range.spec.limits if limit_range.spec is not None else None
    for index, item in enumerate(items or ()):
        for path, quantities in list_item_fields(f"spec.limits[{index}]", parse_limit_range_item(item)):
            is_ratio = path.endswith("Ratio")
            for name, quantity in quantities.items():
                problems += _check_limit_value(f"{path}[{name}]", name, quantity, is_ratio=is_ratio)
    return problems


def _check_containers_strictly(path: str, containers: Iterable[ContainerResources]) -> list[Problem]:
    problems: list[Problem] = []
    for index, container in enumerate(containers):
        resources_path = f"{path}[{index}].resources"
        problems += _check_fractions(f"{resources_path}.limits", container.limits) + _check_fractions(
            f"{resources_path}.requests", container.requests
        )
        for name, request in container.requests.items():
            if classify_name(name) is Family.OPAQUE:
                problems += _check_opaque_request(resources_path, name, request, container.limits.get(name))
    return problems


def _check_opaque_request(path: str, name: str, request: Quantity, limit: Quantity | None) -> list[Problem]:
    """The rule of extended resources for opaque ones, at the fields Kubernetes would name."""
    if limit is None:
        message = f"{name} is requested without a limit; it is handed out whole: set the limit to {request}"
        return [Problem(f"{path}.limits", OPAQUE_LIMIT_MISSING.number, Reason.REQUIRED, message)]
    if request == limit:
        return []
    message = f"the request of {request} {name} differs from its limit of {limit}; set both to the same"
    return [
        create_accepted_problem(f"{path}.requests", OPAQUE_REQUEST_NOT_LIMIT, message, encode_go_json(request.text))
    ]


def _check_fractions(path: str, quantities: Quantities) -> list[Problem]:
    problems = []
    for name, quantity in quantities.items():
        if quantity.is_whole:
            continue
        if is_unchecked_integer(name):
            problems.append(create_fraction_problem(f"{path}[{name}]", FRACTION_ACCEPTED, name, quantity))
        elif name in _BYTE_RESOURCES:
            problems.append(_create_fractional_bytes_problem(f"{path}[{name}]", name, quantity))
    return problems


def _create_fractional_bytes_problem(path: str, name: str, quantity: Quantity) -> Problem:
    """Kubernetes warns of it (pkg/api/pod/warnings.go)."""
    message = f"{quantity} of {name} is a fraction of a byte; m stands for thousandths: write whole bytes, or M or Mi"
    return create_accepted_problem(path, FRACTIONAL_BYTES, message, encode_go_json(quantity.text))


def _check_limit_value(path: str, name: str, quantity: Quantity, *, is_ratio: bool) -> list[Problem]:
    problems = []
    if quantity.sign < 0:
        message = f"{quantity} is below zero; Kubernetes stores it, but nothing can meet it: use 0 or more"
        problems.append(create_accepted_problem(path, LIMIT_RANGE_NEGATIVE, message, encode_go_json(quantity.text)))
    if not is_ratio and not quantity.is_whole and (is_integer(name) or is_unchecked_integer(name)):
        problems.append(create_fraction_problem(path, LIMIT_RANGE_FRACTION, name, quantity))
    return problems


def is_unchecked_integer(name: str) -> bool:
    """Whether it stands for whole things, but Kubernetes takes it for one of its own and does not look."""
    return is_prefixed_native(name)


def _is_counted_for_other_objects(name: str) -> bool:
    """Whether something else than pods is counted under it: objects, storage classes, device classes."""
    return name.startswith("count/") or any(infix in name for infix in _OTHER_QUOTA_INFIXES)


def _describe_never_counted(name: str) -> str:
    resource = name.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX)
    counted_name = f"{REQUESTS_PREFIX}{resource}"
    if is_counted_key(counted_name):
        return f"Kubernetes counts {resource} as {counted_name} only, so this limits nothing; write {counted_name}"
    return f"Kubernetes never counts {resource}, so this limits nothing; use a cap"


def create_fraction_problem(path: str, code: Code, name: str, quantity: Quantity) -> Problem:
    """Return the problem of a fraction that Kubernetes stores where it counts whole units."""
    return create_accepted_problem(
        path,
        code,
        f"{describe_not_whole(name, quantity)} (Kubernetes stores it all the same)",
        encode_go_json(quantity.text),
    )


def create_accepted_problem(path: str, code: Code, message: str, value: str) -> Problem:
    """Return a problem of an object that Kubernetes accepts: it has no message of Kubernetes' own."""
    return Problem(path, code.number, Reason.INVALID, message, "", value)
