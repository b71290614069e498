"""Selectors of devices: whether an expression compiles, and its result for each device."""

import json
import re
from typing import Any

import msgspec

from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.device_values import Device
from tallygate.accounting.devices.expression import CompiledSelector, UndecidedMatchError, compile_selector
from tests.conformance.case import Case, Outcome

_COST_OF_FAILURES = 10
"""The costs differ by little where another part of the expression makes up for a failure."""
_POSITION = re.compile(r"<input>:(\d+):(\d+)")


def compare(case: Case) -> Outcome:
    """Compare the compilation, then each result: true, false or a failure.

    A case is not judged if tallygate says that it does not support the expression or a value.
    """
    answer = case["answer"]
    try:
        selector = compile_selector(case["expression"])
    except ExpressionError as error:
        if "problem" in answer:
            return _compare_position(error, answer["problem"])
        return Outcome(is_judged=False) if error.is_unsupported else Outcome((f"only tallygate says {error}",))
    if "problem" in answer:
        return Outcome((f"only Kubernetes says {answer['problem']}",))
    outcomes = [
        _compare_result(selector, device, theirs)
        for device, theirs in zip(case["devices"], answer["results"], strict=True)
    ]
    differences = tuple(each for outcome in outcomes for each in outcome.differences)
    return Outcome(differences, is_judged=all(each.is_judged for each in outcomes))


def _compare_position(error: ExpressionError, problem: str) -> Outcome:
    """Compare the position of a mistake in the types; Kubernetes names those of all mistakes."""
    positions = [(int(line), int(column)) for line, column in _POSITION.findall(problem)]
    if not positions or "Syntax error" in problem or "invalid matches" in problem or error.position in positions:
        return Outcome()
    return Outcome((f"{error}, but Kubernetes says {problem}",))


def _compare_result(selector: CompiledSelector, device: Any, theirs: Case) -> Outcome:
    """Compare the result for one device; one that depends on the order of a map in Go is not compared."""
    if "unstable" in theirs:
        return Outcome()
    try:
        matches, cost = selector.evaluate(msgspec.json.decode(json.dumps(device), type=Device))
    except UndecidedMatchError as error:
        if "error" in theirs:
            return Outcome()
        return Outcome((f"only tallygate says {error}",)) if not error.is_unsupported else Outcome(is_judged=False)
    if "error" in theirs:
        return Outcome((f"only Kubernetes says {theirs['error']}",))
    if matches != theirs["matches"]:
        return Outcome((f"Kubernetes {theirs['matches']}, tallygate {matches}",))
    if abs(cost - theirs.get("cost", cost)) > _COST_OF_FAILURES + cost // _COST_OF_FAILURES:
        return Outcome((f"the cost: Kubernetes {theirs['cost']}, tallygate {cost}",))
    return Outcome()
