"""Pods: the API server's errors, effective requests and limits, and quota charges."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from tallygate.accounting.pod_requests import compute_pod_limits, compute_pod_requests
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.resource_quota import compute_quota_charge
from tallygate.accounting.validation.pods import validate_pod
from tallygate.objects.core import Pod, PodSpec
from tests.conformance.case import Case, Outcome
from tests.conformance.errors import compare_errors
from tests.conformance.sums import find_wrapping_names
from tests.conformance.typed_objects import decode_object


def compare(case: Case) -> Outcome:
    """Compare errors (field, type, detail), effective requests and limits, and the quota charge."""
    answer, pod = case["answer"], decode_object(case["pod"], Pod)
    spec, wrapping = pod.spec or PodSpec(), find_wrapping_names(case["pod"])
    differences = compare_errors(answer["errors"], validate_pod(pod), wrapping)
    for name, ours in (
        ("requests", compute_pod_requests(spec, pod.status).quantities),
        ("limits", compute_pod_limits(spec, pod.status).quantities),
        ("quota", compute_quota_charge(pod, _read_time(case))),
    ):
        differences += _compare_quantities(name, answer[name] or {}, ours, wrapping)
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))


def _read_time(case: Case) -> datetime | None:
    """Return the time of the charge, if the case has one."""
    return datetime.fromisoformat(case["now"]) if "now" in case else None


def _compare_quantities(
    title: str, theirs: Mapping[str, Any], ours: Mapping[str, Quantity], wrapping: Collection[str]
) -> list[str]:
    """Compare two mappings from name to quantity by their text, without the names that wrap around."""
    texts = {name: quantity.text for name, quantity in ours.items()}
    names = sorted(theirs.keys() | texts.keys())
    return [
        f"{title}[{name}]: Kubernetes {theirs.get(name)}, tallygate {texts.get(name)}"
        for name in names
        if theirs.get(name) != texts.get(name) and not name.endswith(tuple(wrapping))
    ]
