"""Workloads and others put to a real API server: the causes it gave for refusing them."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.conformance.case import Case, Outcome
from tests.conformance.errors import is_about, is_resource_field
from tests.conformance.sums import wrapping_names
from tests.conformance.typed import typed
from webhook.accounting.problem import Problem, format_cause_message
from webhook.accounting.validation.limit_ranges import validate_limit_range
from webhook.accounting.validation.node_and_quota import validate_node, validate_quota
from webhook.accounting.validation.pods import validate_pod
from webhook.objects.apps import CronJob, PodTemplate, Workload
from webhook.objects.core import LimitRange, Node, Pod, ResourceQuota


def compare(case: Case) -> Outcome:
    """Compare the multiset of causes (field, reason, message) under resource fields."""
    wrapping = wrapping_names(case["object"])
    wanted = Counter(_causes(case["causes"] or ()))
    found = Counter((each.field, str(each.reason), format_cause_message(each)) for each in _problems(case["object"]))
    said = [("the API server", each) for each in (wanted - found).elements()]
    said += [("tallygate", each) for each in (found - wanted).elements()]
    differences = [f"only {who} says {each}" for who, each in said if not is_about(each, wrapping)]
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))


def _causes(causes: Iterable[Mapping[str, str]]) -> Iterable[tuple[str, str, str]]:
    for each in causes:
        if is_resource_field(each["field"]):
            yield each["field"], each["reason"], each["message"]


def _problems(decoded: Mapping[str, Any]) -> list[Problem]:
    return _VALIDATE.get(decoded["kind"], _in_spec)(decoded)


def _in_spec(decoded: Any) -> list[Problem]:
    spec = typed(decoded, Workload).spec
    return validate_pod(spec.template, "spec.template.", template=True) if spec and spec.template else []


def _in_job_template(decoded: Any) -> list[Problem]:
    spec = typed(decoded, CronJob).spec
    job = spec.job_template.spec if spec and spec.job_template else None
    return validate_pod(job.template, "spec.jobTemplate.spec.template.", template=True) if job and job.template else []


def _at_top(decoded: Any) -> list[Problem]:
    template = typed(decoded, PodTemplate).template
    return validate_pod(template, "template.", template=True) if template else []


_VALIDATE: Mapping[str, Callable[[Any], list[Problem]]] = {
    "Pod": lambda decoded: validate_pod(typed(decoded, Pod)),
    "PodTemplate": _at_top,
    "CronJob": _in_job_template,
    "Node": lambda decoded: validate_node(typed(decoded, Node)),
    "ResourceQuota": lambda decoded: validate_quota(typed(decoded, ResourceQuota)),
    "LimitRange": lambda decoded: validate_limit_range(typed(decoded, LimitRange)),
}
