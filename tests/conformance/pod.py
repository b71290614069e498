"""Pods: what the API server says of their resources, what they need, and what a quota charges for them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from tests.conformance.case import Case, Outcome
from tests.conformance.errors import compare_errors
from tests.conformance.sums import wrapping_names
from tests.conformance.typed import typed
from webhook.accounting.pod_requests import compute_pod_limits, compute_pod_requests
from webhook.accounting.quantity import Quantity
from webhook.accounting.resource_quota import compute_quota_charge
from webhook.accounting.validation.pods import validate_pod
from webhook.objects.core import Pod, PodSpec


def compare(case: Case) -> Outcome:
    """Compare errors (field, type, detail), effective requests and limits, and the quota charge."""
    answer, pod = case["answer"], typed(case["pod"], Pod)
    spec, wrapping = pod.spec or PodSpec(), wrapping_names(case["pod"])
    differences = compare_errors(answer["errors"], validate_pod(pod), wrapping)
    for name, ours in (
        ("requests", compute_pod_requests(spec, pod.status).quantities),
        ("limits", compute_pod_limits(spec, pod.status).quantities),
        ("quota", compute_quota_charge(pod, _now(case))),
    ):
        differences += _compare_quantities(name, answer[name] or {}, ours, wrapping)
    return Outcome(tuple(differences), beyond_int64=bool(wrapping))


def _now(case: Case) -> datetime | None:
    """When the charge was asked for, where the case says it."""
    return datetime.fromisoformat(case["now"]) if "now" in case else None


def _compare_quantities(
    what: str, theirs: Mapping[str, Any], ours: Mapping[str, Quantity], wrapping: Collection[str]
) -> list[str]:
    """Two mappings from name to quantity, by their text, but for the names that wrap around."""
    texts = {name: quantity.text for name, quantity in ours.items()}
    names = sorted(theirs.keys() | texts.keys())
    return [
        f"{what}[{name}]: Kubernetes {theirs.get(name)}, tallygate {texts.get(name)}"
        for name in names
        if theirs.get(name) != texts.get(name) and not name.endswith(tuple(wrapping))
    ]
