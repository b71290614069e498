"""What the scheduler stumbles over when it has several nodes to choose from (framework/plugins/nodeaffinity)."""

import re

from tests.accounting.scheduling.reference.objects import Json, spec_of

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_LARGEST = 2**63


def pre_score_error(pod: Json) -> str:
    """NodeAffinity.PreScore: a preferred term that cannot be parsed; empty when all can.

    NewPreferredSchedulingTerms and NewRequirement, as far as the API server lets faults through.
    """
    affinity = (spec_of(pod).get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    faults = [
        f'[{at}].matchExpressions[{number}].values[0]: Invalid value: "{value}": '
        "for 'Gt', 'Lt' operators, the value must be an integer"
        for at, term in enumerate(terms)
        for number, each in enumerate(term["preference"].get("matchExpressions") or [])
        for value in each.get("values") or []
        if each["operator"] in ("Gt", "Lt") and not _is_integer(value)
    ]
    told = list(dict.fromkeys(faults))  # Aggregate.Error says nothing twice
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    return f'running PreScore plugin "NodeAffinity": {listed}' if told else ""


def _is_integer(value: str) -> bool:
    """strconv.ParseInt."""
    return _INTEGER.fullmatch(value) is not None and -_LARGEST <= int(value) < _LARGEST
