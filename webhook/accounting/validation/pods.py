"""Pods and pod templates.

Source: ValidatePodSpec in pkg/apis/core/validation/validation.go, v1.36, as far as it is about resources.
"""

from collections.abc import Collection

from webhook.accounting.asks import NOTHING, ContainerAsk, PodAsk, read_list, read_pod
from webhook.accounting.name_rules import Place
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.quantity import QuantityError
from webhook.accounting.resource_codes import EPHEMERAL_RESOURCES
from webhook.accounting.validation.claims import claim_names, claim_problems
from webhook.accounting.validation.containers import resource_problems
from webhook.accounting.validation.pod_level import pod_level_problems
from webhook.accounting.validation.unreadable import pod_problems, readable_pod
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
        return _spec_problems(path, pod.spec, read_pod(pod.spec, complete=not template))
    except QuantityError:
        spec = readable_pod(pod.spec)
        return pod_problems(path, pod.spec) + _spec_problems(path, spec, read_pod(spec, complete=not template))


def _spec_problems(path: str, spec: PodSpec, ask: PodAsk) -> list[Problem]:
    """Containers of every kind, the pod level and overhead, in the order of the API server."""
    claims = claim_names(spec.resource_claims)
    problems = _container_problems(f"{path}.containers", spec.containers, ask.containers, claims)
    problems += _container_problems(f"{path}.initContainers", spec.init_containers, ask.init, claims)
    problems += _ephemeral_problems(f"{path}.ephemeralContainers", spec.ephemeral_containers, claims)
    problems += pod_level_problems(f"{path}.resources", spec, ask, claims)
    if ask.overhead:
        problems += resource_problems(f"{path}.overhead", NOTHING, ask.overhead, Place.OVERHEAD)
    return problems


def _container_problems(
    path: str, containers: list[Container] | None, asks: tuple[ContainerAsk, ...], claims: Collection[str]
) -> list[Problem]:
    problems: list[Problem] = []
    for index, (container, ask) in enumerate(zip(containers or (), asks, strict=True)):
        if container.resources is not None:
            at = f"{path}[{index}].resources"
            problems += resource_problems(at, ask.requests, ask.limits, Place.CONTAINER)
            problems += claim_problems(f"{at}.claims", container.resources.claims, claims)
    return problems


def _ephemeral_problems(path: str, containers: list[Container] | None, claims: Collection[str]) -> list[Problem]:
    """Ephemeral containers must not set resources; what they set is judged all the same."""
    problems: list[Problem] = []
    for index, container in enumerate(containers or ()):
        resources = container.resources
        if resources is None or resources == ResourceRequirements():
            continue
        at = f"{path}[{index}].resources"
        problems += resource_problems(at, read_list(resources.requests), read_list(resources.limits), Place.CONTAINER)
        problems += claim_problems(f"{at}.claims", resources.claims, claims)
        message = "an ephemeral container cannot set resources; remove them"
        detail = "cannot be set for an Ephemeral Container"
        problems.append(Problem(at, EPHEMERAL_RESOURCES.number, Reason.FORBIDDEN, message, detail))
    return problems
