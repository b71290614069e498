"""Workloads and other objects, and the causes of their rejection by a real API server."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tallygate.accounting.problem import Problem, format_cause_message
from tallygate.accounting.validation.limit_ranges import validate_limit_range
from tallygate.accounting.validation.node_and_quota import validate_node, validate_quota
from tallygate.accounting.validation.pods import validate_pod
from tallygate.objects.apps import CronJob, PodTemplate, Workload
from tallygate.objects.core import LimitRange, Node, Pod, ResourceQuota
from tests.conformance.case import Case, Outcome
from tests.conformance.errors import is_resource_field, mentions
from tests.conformance.sums import find_wrapping_names
from tests.conformance.typed_objects import decode_object


def compare(case: Case) -> Outcome:
    """Compare the multiset of causes (field, reason, message) under resource fields."""
    wrapping = find_wrapping_names(case["object"])
    expected = Counter(_list_causes(case["causes"] or ()))
    found = Counter(
        (each.field, str(each.reason), format_cause_message(each)) for each in _list_problems(case["object"])
    )
    excess = [("the API server", each) for each in (expected - found).elements()]
    excess += [("tallygate", each) for each in (found - expected).elements()]
    differences = [f"only {source} says {each}" for source, each in excess if not mentions(each, wrapping)]
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))


def _list_causes(causes: Iterable[Mapping[str, str]]) -> Iterable[tuple[str, str, str]]:
    for each in causes:
        if is_resource_field(each["field"]):
            yield each["field"], each["reason"], each["message"]


def _list_problems(decoded: Mapping[str, Any]) -> list[Problem]:
    return _VALIDATE.get(decoded["kind"], _validate_workload)(decoded)


def _validate_workload(decoded: Any) -> list[Problem]:
    spec = decode_object(decoded, Workload).spec
    return validate_pod(spec.template, "spec.template.", template=True) if spec and spec.template else []


def _validate_cron_job(decoded: Any) -> list[Problem]:
    spec = decode_object(decoded, CronJob).spec
    job = spec.job_template.spec if spec and spec.job_template else None
    return validate_pod(job.template, "spec.jobTemplate.spec.template.", template=True) if job and job.template else []


def _validate_pod_template(decoded: Any) -> list[Problem]:
    template = decode_object(decoded, PodTemplate).template
    return validate_pod(template, "template.", template=True) if template else []


_VALIDATE: Mapping[str, Callable[[Any], list[Problem]]] = {
    "Pod": lambda decoded: validate_pod(decode_object(decoded, Pod)),
    "PodTemplate": _validate_pod_template,
    "CronJob": _validate_cron_job,
    "Node": lambda decoded: validate_node(decode_object(decoded, Node)),
    "ResourceQuota": lambda decoded: validate_quota(decode_object(decoded, ResourceQuota)),
    "LimitRange": lambda decoded: validate_limit_range(decode_object(decoded, LimitRange)),
}
