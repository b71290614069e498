"""Kinds of cases, recognized by their keys, and their comparisons."""

from collections.abc import Callable, Mapping

from tests.conformance import (
    admission_policy,
    claim,
    created_pod,
    device_selector,
    fit,
    match_condition,
    name,
    node,
    pod,
    quantity,
    resize,
    resourcequota,
    schedule,
    workload,
)
from tests.conformance.case import Case, Outcome

Compare = Callable[[Case], Outcome]

KINDS: Mapping[str, Compare] = {
    "admission policy": admission_policy.compare,
    "claim": claim.compare,
    "created pod": created_pod.compare,
    "device selector": device_selector.compare,
    "fit": fit.compare,
    "match condition": match_condition.compare,
    "name": name.compare,
    "node": node.compare,
    "pod": pod.compare,
    "quantity": quantity.compare,
    "quantity sum": quantity.compare_sum,
    "quantity token": quantity.compare_token,
    "resize": resize.compare,
    "resourcequota": resourcequota.compare,
    "schedule": schedule.compare,
    "workload": workload.compare,
}
"""The kinds that are compared."""

# The first kind whose keys are all present, so the larger sets come before the smaller.
_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("schedule", frozenset({"nodes", "pods", "pod", "result"})),
    ("fit", frozenset({"pod", "node", "pods", "answer"})),
    ("workload", frozenset({"object", "causes"})),
    ("claim", frozenset({"claim", "classes", "answer"})),
    ("created pod", frozenset({"pod", "limitRanges", "quotas", "answer"})),
    ("quantity", frozenset({"text", "answer"})),
    ("quantity sum", frozenset({"left", "right", "answer"})),
    ("quantity token", frozenset({"token", "answer"})),
    ("name", frozenset({"name", "answer"})),
    ("resize", frozenset({"kubernetes", "pod", "answer"})),
    ("pod", frozenset({"pod", "answer"})),
    ("node", frozenset({"node", "answer"})),
    ("resourcequota", frozenset({"quota", "answer"})),
    ("admission policy", frozenset({"policies", "namespaceLabels", "request", "answer"})),
    ("match condition", frozenset({"webhooks", "labels", "request", "answer"})),
    ("device selector", frozenset({"expression", "devices", "answer"})),
)


class UnknownKindError(Exception):
    """A case has an unknown kind."""


def compare(case: Case) -> Outcome:
    """Compare a case by its kind.

    Raises:
        UnknownKindError: if no kind has these keys.
    """
    keys = case.keys()
    kind = next((kind for kind, required in _KEYS if required <= keys), None)
    if kind is None:
        raise UnknownKindError(f"a case with the keys {', '.join(sorted(keys))} is of no known kind")
    return KINDS[kind](case)
