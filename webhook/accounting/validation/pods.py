"""Pods and pod templates.

Source: ValidatePodSpec in pkg/apis/core/validation/validation.go, v1.36, as far as it is about resources.
"""

from collections.abc import Collection

from webhook.accounting.asks import (
    NO_QUANTITIES,
    ContainerResources,
    PodResources,
    parse_pod_resources,
    parse_resource_list,
)
from webhook.accounting.name_rules import NameContext
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.quantity import QuantityError
from webhook.accounting.resource_codes import EPHEMERAL_RESOURCES
from webhook.accounting.validation.claims import check_claims, list_claim_names
from webhook.accounting.validation.containers import check_resources
from webhook.accounting.validation.pod_level import check_pod_level
from webhook.accounting.validation.unreadable import check_pod_readable, drop_unreadable_in_pod
from webhook.objects.pods import Container, Pod, PodSpec, ResourceRequirements


def validate_pod(pod: Pod, prefix: str = "", *, template: bool = False) -> list[Problem]:
    """Everything the API server says of a pod's resources, all at once.

    `prefix` stands before `spec` in every path: empty for a Pod, `spec.template.` for a Deployment. In a template
    nothing is filled in from limits before it is judged.
    """
    if pod.spec is None:
        return []
    path = f"{prefix}spec"
    try:
        return _check_spec(path, pod.spec, parse_pod_resources(pod.spec, complete=not template))
    except QuantityError:
        spec = drop_unreadable_in_pod(pod.spec)
        return check_pod_readable(path, pod.spec) + _check_spec(
            path, spec, parse_pod_resources(spec, complete=not template)
        )


def _check_spec(path: str, spec: PodSpec, resources: PodResources) -> list[Problem]:
    """Containers of every kind, the pod level and overhead, in the order of the API server."""
    claims = list_claim_names(spec.resource_claims)
    problems = _check_containers(f"{path}.containers", spec.containers, resources.containers, claims)
    problems += _check_containers(f"{path}.initContainers", spec.init_containers, resources.init, claims)
    problems += _check_ephemeral_containers(f"{path}.ephemeralContainers", spec.ephemeral_containers, claims)
    problems += check_pod_level(f"{path}.resources", spec, resources, claims)
    if resources.overhead:
        problems += check_resources(f"{path}.overhead", NO_QUANTITIES, resources.overhead, NameContext.OVERHEAD)
    return problems


def _check_containers(
    path: str,
    containers: list[Container] | None,
    parsed_containers: tuple[ContainerResources, ...],
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
    path: str, containers: list[Container] | None, claims: Collection[str]
) -> list[Problem]:
    """Ephemeral containers must not set resources; what they set is judged all the same."""
    problems: list[Problem] = []
    for index, container in enumerate(containers or ()):
        resources = container.resources
        if resources is None or resources == ResourceRequirements():
            continue
        resources_path = f"{path}[{index}].resources"
        problems += check_resources(
            resources_path,
            parse_resource_list(resources.requests),
            parse_resource_list(resources.limits),
            NameContext.CONTAINER,
        )
        problems += check_claims(f"{resources_path}.claims", resources.claims, claims)
        message = "an ephemeral container cannot set resources; remove them"
        detail = "cannot be set for an Ephemeral Container"
        problems.append(Problem(resources_path, EPHEMERAL_RESOURCES.number, Reason.FORBIDDEN, message, detail))
    return problems
