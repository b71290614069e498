"""Errors of PreScore in preferred node affinity (framework/plugins/nodeaffinity)."""

import re

from tests.accounting.scheduling.reference.objects import Json, get_spec

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LARGEST = 2**63


def find_pre_score_error(pod: Json) -> str:
    """Return the error of NodeAffinity.PreScore for invalid preferred terms; empty when all are valid.

    It covers the checks of NewPreferredSchedulingTerms and NewRequirement that the API server does not make.
    """
    affinity = (get_spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    faults = [
        f'[{at}].matchExpressions[{number}].values[0]: Invalid value: "{value}": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
        for at, term in enumerate(terms)
        for number, each in enumerate(term["preference"].get("matchExpressions") or [])
        for value in each.get("values") or []
        if each["operator"] in ("Gt", "Lt") and not _is_integer(value)
    ]
    messages = list(dict.fromkeys(faults))  # Aggregate.Error removes duplicates
    listed = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return f'running PreScore plugin "NodeAffinity": {listed}' if messages else ""


def _is_integer(value: str) -> bool:
    """Implement strconv.ParseInt."""
    return _INTEGER.fullmatch(value) is not None and -_LARGEST <= int(value) < _LARGEST
