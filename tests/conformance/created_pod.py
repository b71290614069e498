"""New pods: what built-in admission completes and rejects, and how many copies the quotas of the namespace admit.

Where two LimitRanges differ in a default, Kubernetes applies them in no certain order: then only a false problem is a
difference.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tallygate.accounting.kubernetes_versions.version import parse_minor, select_version
from tallygate.accounting.pod_defaults import PodDefaults, create_pod_defaults
from tallygate.accounting.pod_resources import Quantities, parse_pod_resources, parse_resource_list
from tallygate.accounting.problem import Problem
from tallygate.accounting.validation.pods import validate_pod
from tallygate.admission.created_pods import find_rejections
from tallygate.admission.implied_requests import ImpliedRequests
from tallygate.admission.pod_view import PodView, ReplicaCount
from tallygate.objects.core import LimitRange, Pod, PodSpec, ResourceQuota
from tallygate.objects.scheduling import PriorityClass, RuntimeClass
from tallygate.review.applied_workload import ForecastPods, ForecastWorkload, add_affinities
from tallygate.review.quota_forecast import QuotaForecaster
from tallygate.state.informers.namespaced_stores import QuotaStore
from tests.conformance.case import Case, Outcome
from tests.conformance.typed_objects import decode_object

T = TypeVar("T", PriorityClass, RuntimeClass)


def compare(case: Case) -> Outcome:
    """Compare whether the pod is rejected, what it is completed to, and whether a quota rejects some of the copies."""
    defaults = create_pod_defaults(
        [decode_object(each, LimitRange) for each in case["limitRanges"]],
        _decode_classes(case["priorityClasses"], PriorityClass),
        _decode_classes(case["runtimeClasses"], RuntimeClass),
        version=select_version(parse_minor(case.get("kubernetes", "1.37"))),
    )
    answer = case["answer"]
    written = [PodView("", decode_object(case["pod"], Pod), is_template=True, replicas=ReplicaCount(case["copies"]))]
    completed = ImpliedRequests().with_defaults(defaults).complete_views(written)
    problems = [*find_rejections(written, completed, defaults)]
    if defaults.has_limit_ranges:
        problems += validate_pod(completed[0].pod)
    is_rejected = "spec" not in answer
    if problems:
        return Outcome(() if is_rejected else (f"tallygate rejects the pod: {problems[0].message}",))
    if is_rejected:
        message = f"Kubernetes rejects the pod ({answer['rejection']['by']}): {answer['rejection']['message']}"
        return Outcome((message,) if defaults.has_limit_ranges else ())
    forecasts = _forecast(case, completed, defaults)
    differences = [*_compare_forecasts(case, forecasts, is_known=defaults.has_limit_ranges)]
    if defaults.has_limit_ranges:
        differences += _compare_specs(answer["spec"], completed[0].pod.spec or PodSpec())
    return Outcome(tuple(differences))


def _decode_classes(classes: Sequence[Any], kind: type[T]) -> Mapping[str, T]:
    return {each["metadata"]["name"]: decode_object(each, kind) for each in classes}


def _compare_specs(theirs: Case, spec: PodSpec) -> Iterator[str]:
    resources = parse_pod_resources(spec)
    pairs = (("containers", resources.containers), ("initContainers", resources.init))
    for title, containers in pairs:
        for expected, ours in zip(theirs[title], containers, strict=True):
            yield from _compare_lists(f"{title} {ours.name} requests", expected.get("requests"), ours.requests)
            yield from _compare_lists(f"{title} {ours.name} limits", expected.get("limits"), ours.limits)
    of_pod = theirs["resources"] or {}
    yield from _compare_lists("pod requests", of_pod.get("requests"), resources.requests)
    yield from _compare_lists("pod limits", of_pod.get("limits"), resources.limits)
    yield from _compare_lists("overhead", theirs["overhead"], resources.overhead)
    if theirs["priorityClassName"] != (spec.priority_class_name or ""):
        yield f"priority class: Kubernetes {theirs['priorityClassName']}, tallygate {spec.priority_class_name}"


def _compare_lists(title: str, theirs: Mapping[str, str] | None, ours: Quantities) -> Iterator[str]:
    written = {name: msgspec.Raw(json.dumps(text).encode()) for name, text in (theirs or {}).items()}
    expected = parse_resource_list(written)
    if expected != dict(ours):
        yield f"{title}: Kubernetes {theirs}, tallygate { ({name: str(each) for name, each in ours.items()}) }"


def _forecast(case: Case, completed: Sequence[PodView], defaults: PodDefaults) -> list[Problem]:
    forecaster = QuotaForecaster(QuotaStore(), dict, lambda _: True)
    pod_sets = tuple(ForecastPods(each, ReplicaCount(case["copies"])) for each in completed)
    workload = add_affinities(ForecastWorkload(pod_sets, defaults), json.dumps(case["pod"]).encode())
    quotas = [decode_object(each, ResourceQuota) for each in case["quotas"]]
    return list(forecaster.forecast_workload(workload, None, quotas))


def _compare_forecasts(case: Case, forecasts: Sequence[Problem], *, is_known: bool) -> Iterator[str]:
    answer = case["answer"]
    is_short = answer["admitted"] < case["copies"]
    if forecasts and not is_short:
        yield f"tallygate forecasts a rejection: {forecasts[0].message}"
    if is_short and not forecasts and is_known:
        yield f"{answer['admitted']} of {case['copies']} pods are admitted: {answer['rejection']['message']}"
