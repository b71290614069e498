"""Match conditions of webhooks, evaluated as an API server does, by this project's own CEL."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tallygate.accounting.cel import cel_types
from tallygate.accounting.cel.evaluator import plan_program
from tallygate.accounting.cel.expression_parser import parse_expression
from tallygate.accounting.cel.loops import Run, Step
from tallygate.accounting.cel.runtime_values import CelMap
from tallygate.accounting.cel.type_checker import check_types

MAX_COST = 1_000_000
"""The cost of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)."""

_VARIABLES = ("object", "oldObject", "request")


@lru_cache(maxsize=1024)
def _compile(expression: str) -> tuple[Step, int]:
    root = parse_expression(expression)
    kind = check_types(root, dict.fromkeys(_VARIABLES, cel_types.DYN), {})
    assert kind in {cel_types.BOOL, cel_types.DYN}
    return plan_program(root, _VARIABLES)


def evaluate_condition(expression: str, request: Mapping[str, Any]) -> tuple[bool, int]:
    """Return whether a condition is true for a request, and its cost; a failure is an error of the test."""
    step, places = _compile(expression)
    variables = map(_convert, (request["object"], request.get("oldObject"), request))
    run = Run([*variables], places - len(_VARIABLES), MAX_COST)
    value = step(run)
    run.check()
    assert type(value) is bool, value
    return value, run.cost


def _convert(content: object) -> object:
    """Return plain JSON as values of expressions."""
    if isinstance(content, dict):
        return CelMap({key: _convert(value) for key, value in content.items()}, is_published=True)
    return [_convert(item) for item in content] if isinstance(content, list) else content
