"""Validation of pods and pod templates: containers, the pod level, and references to resource claims.

Source: ValidatePodSpec, validatePodResources, validatePodResourceConsistency and validateResourceClaimNames in
pkg/apis/core/validation/validation.go, v1.36, as far as they concern resources.

Validation of the requests and limits of one container, or of another object with the same rules.

Source: validateResourceRequirements in pkg/apis/core/validation/validation.go, v1.36.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

from tallygate.accounting import kubernetes_codes, pod_resources
from tallygate.accounting.name_rules import NameContext
from tallygate.accounting.names import HUGEPAGES_PREFIX, Family, classify_name, is_hugepage, is_overcommit_allowed
from tallygate.accounting.problem import Problem, Reason, encode_go_json
from tallygate.accounting.quantity import Quantity, suggest_whole
from tallygate.accounting.quantity_parser import Format, QuantityError
from tallygate.accounting.validation import values
from tallygate.accounting.validation.unreadable import check_pod_readable, drop_unreadable_in_pod
from tallygate.objects import core

_LABEL = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})++")
_LABEL_LENGTH = 63
_LABEL_DETAIL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

_BYTE_RESOURCES = frozenset({"memory", "ephemeral-storage"})


def validate_pod(pod: core.Pod, prefix: str = "", *, template: bool = False) -> list[Problem]:
    """Return every problem that the API server reports for a pod's resources.

    `prefix` precedes `spec` in every path: empty for a Pod, `spec.template.` for a Deployment. In a template no missing
    request is filled in from a limit before validation.
    """
    if pod.spec is None:
        return []
    path = f"{prefix}spec"
    try:
        return _check_spec(path, pod.spec, pod_resources.parse_pod_resources(pod.spec, complete=not template))
    except QuantityError:
        spec = drop_unreadable_in_pod(pod.spec)
        return check_pod_readable(path, pod.spec) + _check_spec(
            path, spec, pod_resources.parse_pod_resources(spec, complete=not template)
        )


def check_pod_strictly(pod: core.Pod, prefix: str = "", *, template: bool = False) -> list[Problem]:
    """Return the problems of a pod that Kubernetes accepts.

    These are fractions of opaque and kubernetes.io-like names and of bytes, and opaque requests that differ from their
    limit. `prefix` and `template` are those of `validate_pod`.
    """
    if pod.spec is None:
        return []
    path = f"{prefix}spec"
    try:
        resources = pod_resources.parse_pod_resources(pod.spec, complete=not template)
    except QuantityError:
        resources = pod_resources.parse_pod_resources(drop_unreadable_in_pod(pod.spec), complete=not template)
    problems = _check_containers_strictly(f"{path}.containers", resources.containers)
    problems += _check_containers_strictly(f"{path}.initContainers", resources.init)
    return problems + _check_fractions(f"{path}.overhead.limits", resources.overhead)


def check_pod_level(
    path: str, spec: core.PodSpec, resources: pod_resources.PodResources, claims: Collection[str]
) -> list[Problem]:
    """Return every problem of `spec.resources`, which is at a path."""
    if spec.resources is None:
        return []
    if spec.os is not None and spec.os.name == "windows":
        message = "a Windows pod cannot set resources as a whole; set them on its containers"
        return [
            Problem(
                path,
                kubernetes_codes.WINDOWS_POD_RESOURCES,
                Reason.FORBIDDEN,
                message,
                "may not be set for a windows pod",
            )
        ]
    problems = []
    if spec.resources.claims is not None:
        detail = "claims may not be set for Resources at pod-level"
        message = "a pod as a whole cannot use claims; refer to them from its containers"
        problems.append(Problem(f"{path}.claims", kubernetes_codes.POD_CLAIMS, Reason.FORBIDDEN, message, detail))
    problems += check_resources(path, resources.requests, resources.limits, NameContext.POD)
    problems += check_claims(f"{path}.claims", spec.resources.claims, claims)
    return (
        problems
        + _check_requests_cover_containers(path, resources)
        + _check_limits_cover_containers(path, resources)
        + _check_container_limits(path, resources)
    )


def check_claims(
    path: str, claims: Iterable[core.ResourceClaimReference] | None, claim_names: Collection[str]
) -> list[Problem]:
    """Return every problem of `resources.claims` at a path."""
    problems: list[Problem] = []
    references: set[str] = set()
    request_counts: Counter[str] = Counter()
    for index, claim in enumerate(claims or ()):
        claim_path = f"{path}[{index}]"
        if not claim.name:
            message = "this reference names no claim; give the name of an entry of spec.resourceClaims"
            problems.append(Problem(claim_path, kubernetes_codes.CLAIM_UNNAMED, Reason.REQUIRED, message))
            continue
        problems += _check_reference(claim_path, claim.name, claim.request or "", references, request_counts)
        problems += _check_claim_exists(claim_path, claim.name, claim_names)
    return problems


def list_claim_names(claims: Iterable[core.PodResourceClaim] | None) -> frozenset[str]:
    """Return the names of claims to which containers may refer."""
    return frozenset(claim.name for claim in claims or () if claim.name)


def _check_spec(path: str, spec: core.PodSpec, resources: pod_resources.PodResources) -> list[Problem]:
    """Check containers of every kind, the pod level and overhead, in the order of the API server."""
    claims = list_claim_names(spec.resource_claims)
    problems = _check_containers(f"{path}.containers", spec.containers, resources.containers, claims)
    problems += _check_containers(f"{path}.initContainers", spec.init_containers, resources.init, claims)
    problems += _check_ephemeral_containers(f"{path}.ephemeralContainers", spec.ephemeral_containers, claims)
    problems += check_pod_level(f"{path}.resources", spec, resources, claims)
    if resources.overhead:
        problems += check_resources(
            f"{path}.overhead", pod_resources.NO_QUANTITIES, resources.overhead, NameContext.OVERHEAD
        )
    return problems


def _check_containers(
    path: str,
    containers: list[core.Container] | None,
    parsed_containers: tuple[pod_resources.ContainerResources, ...],
    claims: Collection[str],
) -> list[Problem]:
    problems: list[Problem] = []
    for index, (container, parsed) in enumerate(zip(containers or (), parsed_containers, strict=True)):
        if container.resources is not None:
            resources_path = f"{path}[{index}].resources"
            problems += check_resources(resources_path, parsed.requests, parsed.limits, NameContext.CONTAINER)
            problems += check_claims(f"{resources_path}.claims", container.resources.claims, claims)
    return problems


def _check_ephemeral_containers(
    path: str, containers: list[core.Container] | None, claims: Collection[str]
) -> list[Problem]:
    """Reject resources of ephemeral containers, and check them nevertheless."""
    problems: list[Problem] = []
    for index, container in enumerate(containers or ()):
        resources = container.resources
        if resources is None or resources == core.ResourceRequirements():
            continue
        resources_path = f"{path}[{index}].resources"
        problems += check_resources(
            resources_path,
            pod_resources.parse_resource_list(resources.requests),
            pod_resources.parse_resource_list(resources.limits),
            NameContext.CONTAINER,
        )
        problems += check_claims(f"{resources_path}.claims", resources.claims, claims)
        message = "an ephemeral container cannot set resources; remove them"
        detail = "cannot be set for an Ephemeral Container"
        problems.append(
            Problem(resources_path, kubernetes_codes.EPHEMERAL_RESOURCES, Reason.FORBIDDEN, message, detail)
        )
    return problems


def _check_requests_cover_containers(path: str, resources: pod_resources.PodResources) -> list[Problem]:
    """Report requests of the pod level that its containers exceed together."""
    container_totals = pod_resources.aggregate_containers(resources.containers, resources.init, limits=False)
    exceeding = {
        name: total
        for name, total in container_totals.items()
        if name in resources.requests and total > resources.requests[name]
    }
    return [
        _create_below_containers_problem(f"{path}.requests[{name}]", "requests", resources.requests[name], total)
        for name, total in exceeding.items()
    ]


def _check_limits_cover_containers(path: str, resources: pod_resources.PodResources) -> list[Problem]:
    """Report limits of the pod level that its containers exceed together.

    Only limits of huge pages are compared, since they cannot be overcommitted.
    """
    container_totals = pod_resources.aggregate_containers(resources.containers, resources.init, limits=True)
    exceeding = {
        name: total
        for name, total in container_totals.items()
        if name in resources.limits and total > resources.limits[name]
    }
    return [
        _create_below_containers_problem(f"{path}.limits[{name}]", "limits", resources.limits[name], total)
        for name, total in exceeding.items()
        if is_hugepage(name)
    ]


def _create_below_containers_problem(
    path: str, list_name: str, pod_quantity: Quantity, container_total: Quantity
) -> Problem:
    detail = f"must be greater than or equal to aggregate container {list_name} of {container_total.text}"
    message = (
        f"{pod_quantity} for the pod as a whole is less than its containers' {list_name} of {container_total} "
        "together; "
        f"set {container_total} or more"
    )
    return _create_invalid_problem(path, kubernetes_codes.POD_BELOW_CONTAINERS, message, detail, pod_quantity)


def _check_container_limits(path: str, resources: pod_resources.PodResources) -> list[Problem]:
    """Report containers whose limit exceeds the pod's. Kubernetes' path for it names no existing field."""
    return [
        _create_above_pod_problem(f"{path}.containers[{index}][{name}].limits", limit, resources.limits[name])
        for index, container in enumerate(resources.containers)
        for name, limit in container.limits.items()
        if name in resources.limits and limit > resources.limits[name]
    ]


def _create_above_pod_problem(path: str, limit: Quantity, pod_limit: Quantity) -> Problem:
    detail = f"must be less than or equal to pod limits of {pod_limit.text}"
    message = (
        f"this container's limit of {limit} is more than the whole pod's of {pod_limit}; lower it or raise the pod's"
    )
    return _create_invalid_problem(path, kubernetes_codes.CONTAINER_ABOVE_POD, message, detail, limit)


def _create_invalid_problem(path: str, code: str, message: str, detail: str, quantity: Quantity) -> Problem:
    return Problem(path, code, Reason.INVALID, message, detail, encode_go_json(quantity.text))


def _check_reference(
    path: str, name: str, request: str, references: set[str], request_counts: Counter[str]
) -> list[Problem]:
    """Check a reference against those before it, and add it to them.

    `request_counts` is the number of references to single requests of each claim. A reference to a whole claim covers
    all its requests.
    """
    if name in references:
        return [_create_repeated_problem(path, name)]
    key = f"{name}/{request}" if request else name
    problems = _check_dns_label(f"{path}.request", request) if request else []
    if key in references:
        problems.append(_create_repeated_problem(path, key))
    elif request:
        request_counts[key.partition("/")[0]] += 1
    else:
        problems += [_create_repeated_problem(path, name)] * request_counts[name]
    references.add(key)
    return problems


def _create_repeated_problem(path: str, key: str) -> Problem:
    message = f"{key!r} is covered by another reference of this container; leave one of them"
    return Problem(path, kubernetes_codes.CLAIM_REPEATED, Reason.DUPLICATE, message, "", encode_go_json(key))


def _check_claim_exists(path: str, name: str, claim_names: Collection[str]) -> list[Problem]:
    if name in claim_names:
        return []
    names = ", ".join(sorted(claim_names))
    detail = "must be one of the names in pod.spec.resourceClaims" + (
        f": {names}" if claim_names else " which is empty"
    )
    existing = f"it has {names}" if claim_names else "it has none"
    message = f"the pod has no claim {name!r} in spec.resourceClaims; {existing}"
    return [Problem(path, kubernetes_codes.CLAIM_UNKNOWN, Reason.NOT_FOUND, message, detail, encode_go_json(name))]


def _check_dns_label(path: str, request: str) -> list[Problem]:
    """Check that a request is a DNS label (ValidateDNS1123Label)."""
    details = []
    if len(request.encode("utf-8", "surrogatepass")) > _LABEL_LENGTH:
        details.append(f"must be no more than {_LABEL_LENGTH} characters")
    if not _LABEL.fullmatch(request):
        details.append("must not contain dots" if _SUBDOMAIN.fullmatch(request) else _LABEL_DETAIL)
    message = f"{request!r} is no DNS label; use lower-case letters, digits and '-', {_LABEL_LENGTH} at most"
    code, value = kubernetes_codes.CLAIM_REQUEST_MALFORMED, encode_go_json(request)
    return [Problem(path, code, Reason.INVALID, message, detail, value) for detail in details]


def _check_containers_strictly(path: str, containers: Iterable[pod_resources.ContainerResources]) -> list[Problem]:
    problems: list[Problem] = []
    for index, container in enumerate(containers):
        resources_path = f"{path}[{index}].resources"
        problems += _check_fractions(f"{resources_path}.limits", container.limits)
        problems += _check_fractions(f"{resources_path}.requests", container.requests)
        for name, request in container.requests.items():
            if classify_name(name) is Family.OPAQUE:
                problems += _check_opaque_request(resources_path, name, request, container.limits.get(name))
    return problems


def _check_opaque_request(path: str, name: str, request: Quantity, limit: Quantity | None) -> list[Problem]:
    """Apply the rule of extended resources to opaque ones, at the fields that Kubernetes would name."""
    if limit is None:
        message = f"{name} is requested without a limit; it is handed out whole: set the limit to {request}"
        return [Problem(f"{path}.limits", kubernetes_codes.OPAQUE_LIMIT_MISSING, Reason.REQUIRED, message)]
    if request == limit:
        return []
    message = f"the request of {request} {name} differs from its limit of {limit}; set both to the same"
    return [
        values.create_accepted_problem(
            f"{path}.requests", kubernetes_codes.OPAQUE_REQUEST_NOT_LIMIT, message, encode_go_json(request.text)
        )
    ]


def _check_fractions(path: str, quantities: pod_resources.Quantities) -> list[Problem]:
    problems = []
    for name, quantity in quantities.items():
        if quantity.is_whole:
            continue
        if values.is_unchecked_integer(name):
            problems.append(
                values.create_fraction_problem(f"{path}[{name}]", kubernetes_codes.FRACTION_ACCEPTED, name, quantity)
            )
        elif name in _BYTE_RESOURCES:
            problems.append(_create_fractional_bytes_problem(f"{path}[{name}]", name, quantity))
    return problems


def _create_fractional_bytes_problem(path: str, name: str, quantity: Quantity) -> Problem:
    """Return the problem of a fraction of a byte; Kubernetes warns of it (pkg/api/pod/warnings.go).

    Thousandths of a byte are another mistake than a fraction: M or Mi is meant.
    """
    if str(quantity).endswith("m"):
        message = (
            f"{quantity} of {name} is a fraction of a byte; m stands for thousandths: write whole bytes, or M or Mi"
        )
    else:
        message = f"{quantity} of {name} is a fraction of a byte: write whole bytes, such as {suggest_whole(quantity)}"
    return values.create_accepted_problem(
        path, kubernetes_codes.FRACTIONAL_BYTES, message, encode_go_json(str(quantity))
    )


_QOS_NAMES = frozenset({"cpu", "memory"})


def check_resources(
    path: str, requests: pod_resources.Quantities, limits: pod_resources.Quantities, context: NameContext
) -> list[Problem]:
    """Return every problem of `resources` at a path: names, values, requests against limits, huge pages."""
    problems: list[Problem] = []
    for name, quantity in limits.items():
        if not values.is_surely_valid(name, quantity, context):
            problems += _check_entry(f"{path}.limits[{name}]", name, quantity, context)
    for name, quantity in requests.items():
        if not values.is_surely_valid(name, quantity, context):
            problems += _check_entry(f"{path}.requests[{name}]", name, quantity, context)
        if quantity is not limits.get(name):
            problems += _check_request_against_limit(path, name, quantity, limits.get(name))
    names = requests.keys() | limits.keys()
    if any(map(is_hugepage, names)) and not names & _QOS_NAMES:
        message = "huge pages are requested, but neither cpu nor memory; request one of them too"
        problems.append(
            Problem(
                path, kubernetes_codes.HUGE_PAGES_ALONE, Reason.FORBIDDEN, message, "HugePages require cpu or memory"
            )
        )
    return problems


def is_whole_pages(name: str, quantity: Quantity) -> bool:
    """Return whether a quantity of huge pages is a whole number of pages (IsHugePageResourceValueDivisible).

    Zero pages are whole.
    """
    size = _parse_page_size(name)
    return size > 0 and quantity.value() % size == 0


def _check_entry(path: str, name: str, quantity: Quantity, context: NameContext) -> list[Problem]:
    problems = values.check_name(path, name, context) + values.check_value(path, name, quantity)
    if is_hugepage(name) and not is_whole_pages(name, quantity):
        detail = f"{quantity.text} is not positive integer multiple of {name}"
        problems.append(
            _create_invalid_problem(
                path, kubernetes_codes.NOT_WHOLE_PAGES, _describe_not_whole_pages(name, quantity), detail, quantity
            )
        )
    return problems


def _describe_not_whole_pages(name: str, quantity: Quantity) -> str:
    """Return the message for a fraction of a page, with the nearest whole pages."""
    size, page = _parse_page_size(name), name.removeprefix(HUGEPAGES_PREFIX)
    if not size:
        return f"{page!r} is not a page size; write one as in hugepages-2Mi"
    above = -(-quantity.value() // size) * size
    suggestions = [Quantity(amount, format=Format.BINARY_SI).text for amount in (above - size, above) if amount >= 0]
    return f"{quantity} is not a whole number of pages of {page}: use {' or '.join(suggestions or ['0'])}"


def _check_request_against_limit(path: str, name: str, request: Quantity, limit: Quantity | None) -> list[Problem]:
    """Compare a request with its limit. The path of Kubernetes' errors ends before the name."""
    is_overcommit = is_overcommit_allowed(name)
    if limit is None:
        return [] if is_overcommit else [_create_limit_missing_problem(path, name, request)]
    if not is_overcommit and request != limit:
        detail = f"must be equal to {name} limit of {limit.text}"
        message = f"the request of {request} {name} differs from its limit of {limit}; set both to the same"
        return [
            _create_invalid_problem(f"{path}.requests", kubernetes_codes.REQUEST_NOT_LIMIT, message, detail, request)
        ]
    if request > limit:
        detail = f"must be less than or equal to {name} limit of {limit.text}"
        message = (
            f"the request of {request} {name} is more than its limit of {limit}; lower the request or raise the limit"
        )
        return [
            _create_invalid_problem(f"{path}.requests", kubernetes_codes.REQUEST_ABOVE_LIMIT, message, detail, request)
        ]
    return []


def _create_limit_missing_problem(path: str, name: str, request: Quantity) -> Problem:
    message = f"{name} is requested without a limit; it cannot be overcommitted: set the limit to {request}"
    detail = "Limit must be set for non overcommitable resources"
    return Problem(f"{path}.limits", kubernetes_codes.LIMIT_MISSING, Reason.REQUIRED, message, detail)


@lru_cache(maxsize=256)
def _parse_page_size(name: str) -> int:
    """Return the bytes of a page by the resource name; 0 if the name has no size (HugePageSizeFromResourceName)."""
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX))
    except QuantityError:
        return 0
    return size.value() if size.sign > 0 and size.milli() % 1000 == 0 else 0
