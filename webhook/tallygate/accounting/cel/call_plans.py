"""Closures of calls: logic, equality, functions, and the parts that are evaluated during compilation.

Sources: interpreter/{planner,interpretable,decorators}.go of cel-go.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from tallygate.accounting.cel.costs import Measure, find_cost, measure_comparison, measure_equality
from tallygate.accounting.cel.library import Function, find_function
from tallygate.accounting.cel.loops import Run, Step
from tallygate.accounting.cel.navigation import is_key
from tallygate.accounting.cel.runtime_values import (
    MISSING,
    NONE,
    AbortedEvaluationError,
    EvaluationError,
    Optional,
    UnsupportedValueError,
    are_equal,
    is_list_member,
    name_type,
    select_failure,
)
from tallygate.accounting.cel.semantic_version import SemanticVersion
from tallygate.accounting.cel.syntax import Call, ExpressionError, SyntaxNode
from tallygate.accounting.cel.text_functions import compile_pattern

_TRACKED = {"distinct": list, "sort": list, "@sortByAssociatedKeys": list, "flatten": int}
"""Functions whose cost cel-go computes from the last argument, of this type: it gives up on any other one."""


class Plan(NamedTuple):
    """The closure of a node; `constant` is its value if that is known, else `MISSING`.

    `is_attribute` is true for a path from a variable or a value. cel-go counts its beginning once, and not at all where
    it is a branch of a condition or an index: then `discount` is taken off.
    """

    step: Step
    constant: object = MISSING
    is_attribute: bool = False
    discount: int = 0


def make_constant(value: object) -> Plan:
    """Return the plan of a value that is known; it costs nothing."""

    def return_constant(_: Run) -> object:
        return value

    return Plan(return_constant, value)


def plan_logic(steps: list[Step], *, is_and: bool) -> Plan:
    """Return the plan of `&&` or `||`: a term that decides makes up for the failures of others."""
    decisive = not is_and

    def join_terms(run: Run) -> object:
        failure: EvaluationError | None = None
        for step in steps:
            try:
                value = step(run)
            except EvaluationError as error:
                failure = select_failure(failure, error)
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failure = failure or EvaluationError("no such overload")
        if failure is not None:
            raise failure
        return is_and

    return Plan(join_terms)


def plan_alternative(first: Step, second: Step, *, is_value: bool) -> Plan:
    """Return the plan of `or` and `orValue`: the second one is evaluated only if the first has no value."""

    def choose_present(run: Run) -> object:
        value = first(run)
        if value is NONE:
            return second(run)
        return value.value if is_value and isinstance(value, Optional) else value

    return Plan(choose_present)


def plan_membership(node: Call, step: Step, items: list[object]) -> Plan:
    """Return the plan of `in` for a list that is known; it costs nothing (maybeOptimizeSetMembership)."""
    if not items:
        return make_constant(False)  # noqa: FBT003
    if not all(is_key(item) for item in items):
        return plan_function(node, [Plan(step), make_constant(items)])

    def find_member(run: Run) -> object:
        value = step(run)
        if isinstance(value, bytes | SemanticVersion):
            raise AbortedEvaluationError(f"internal error: runtime error: hash of unhashable type {name_type(value)}")
        return is_list_member(value, items)

    return Plan(find_member)


def plan_function(node: Call, plans: list[Plan]) -> Plan:
    """Return the plan of a call of a function."""
    name = node.function
    if name in {"_==_", "_!=_"}:
        return _plan_equality(node, plans[0].step, plans[1].step)
    function = find_function(name, node.kind, node.overload)
    measure = find_cost(node)
    steps = [plan.step for plan in plans]
    if measure is not None:
        return _plan_measured(node, function, steps, measure)
    if len(steps) == 1:
        (only,) = steps

        def call_one(run: Run) -> object:
            run.cost += 1
            return function(only(run))

        return Plan(call_one)

    if len(steps) == 2:  # noqa: PLR2004
        first, second = steps

        def call_two(run: Run) -> object:
            run.cost += 1
            try:
                value = first(run)
            except EvaluationError:
                _spend(second, run)
                raise
            return function(value, second(run))

        return Plan(call_two)

    def call_all(run: Run) -> object:
        run.cost += 1
        return function(*[step(run) for step in steps])

    return Plan(call_all)


def _plan_measured(node: Call, function: Function, steps: list[Step], measure: Measure) -> Plan:
    """Return the plan of a call whose cost depends on its arguments."""
    tracked = _TRACKED.get(node.function) if node.overload is not None else None
    if tracked is int and len(steps) == 1:
        tracked = None

    def call_measured(run: Run) -> object:
        values = _evaluate_arguments(steps, run, measure) if tracked is None else _evaluate_tracked(steps, run, tracked)
        try:
            result = function(*values)
        except EvaluationError:
            run.cost += measure(values, None)
            raise
        run.cost += measure(values, result)
        return result

    return Plan(call_measured)


def _spend(step: Step, run: Run) -> None:
    """Evaluate an argument for its cost alone, since another one failed."""
    with suppress(EvaluationError):
        step(run)


def _evaluate_arguments(steps: list[Step], run: Run, measure: Measure) -> list[object]:
    """Return the values of arguments; the call costs something even if an argument fails, and one of two the other."""
    values: list[object] = []
    failure: EvaluationError | None = None
    for step in steps:
        try:
            values.append(step(run))
        except EvaluationError as error:
            failure = failure or error
            values.append(None)
            if len(steps) > 2:  # noqa: PLR2004
                break
    if failure is None:
        return values
    if len(values) == len(steps):
        run.cost += measure(values, None)
    raise failure


def _evaluate_tracked(steps: list[Step], run: Run, wanted: type) -> list[object]:
    """Return the values of arguments, of which the last must be of a type."""
    values = []
    failure: EvaluationError | None = None
    last: object = None
    for step in steps:
        try:
            last = step(run)
        except EvaluationError as error:
            failure = failure or error
            last = error
        values.append(last)
    if isinstance(last, UnsupportedValueError):
        raise last
    if not isinstance(last, wanted):
        raise AbortedEvaluationError(f"internal error: an argument is no {wanted.__name__}: {last}")
    if failure is not None:
        raise failure
    return values


def _plan_equality(node: Call, left_step: Step, right_step: Step) -> Plan:
    """Return the plan of `==` and `!=`: values that cannot be compared differ."""
    is_equality = node.function == "_==_"
    measure = measure_equality if is_equality else measure_comparison

    def compare(run: Run) -> object:
        try:
            left = left_step(run)
        except EvaluationError:
            run.cost += 1
            _spend(right_step, run)
            raise
        try:
            right = right_step(run)
        except EvaluationError:
            run.cost += 1
            raise
        run.cost += measure((left, right), None)
        if is_equality:
            return are_equal(left, right)
        try:
            return not are_equal(left, right)
        except EvaluationError:
            return True

    return Plan(compare)


def fold_conversion(node: Call, plan: Plan) -> Plan:
    """Return the value of a conversion of a constant; a failure is a problem of the expression."""
    try:
        return make_constant(plan.step(Run([], 0)))
    except EvaluationError as failure:
        message = f"program instantiation failed: {failure}"
        raise ExpressionError(message, node.position, is_unsupported=failure.is_unsupported) from failure


def check_pattern(pattern: str, node: SyntaxNode) -> None:
    """Check a regular expression that is known."""
    try:
        compile_pattern(pattern)
    except EvaluationError as failure:
        raise ExpressionError(str(failure), node.position, is_unsupported=failure.is_unsupported) from failure
