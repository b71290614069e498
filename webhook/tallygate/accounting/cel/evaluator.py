"""A checked syntax tree to a program of closures (interpreter/{planner,interpretable,attributes,decorators}.go).

A closure gets the `Run` of one evaluation. Errors are exceptions: `&&`, `||` and the quantifiers absorb them as cel-go
does. Costs are those of interpreter/runtimecost.go and of pkg/cel/library/cost.go of Kubernetes.

Closures of calls: logic, equality, functions, and the parts that are evaluated during compilation.

Sources: interpreter/{planner,interpretable,decorators}.go of cel-go.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from tallygate.accounting.cel import costs, runtime_values, syntax
from tallygate.accounting.cel.library import CONVERSIONS, Function, find_function
from tallygate.accounting.cel.loops import LoopPlan, Run, Step, run_loop
from tallygate.accounting.cel.navigation import check_optional, find_item, find_present, is_key, is_present
from tallygate.accounting.cel.semantic_version import SemanticVersion
from tallygate.accounting.cel.text_functions import compile_pattern
from tallygate.accounting.cel.type_checker import TYPE_NAMES

_TRACKED = {"distinct": list, "sort": list, "@sortByAssociatedKeys": list, "flatten": int}
"""Functions whose cost cel-go computes from the last argument, of this type: it gives up on any other one."""


class Plan(NamedTuple):
    """The closure of a node; `constant` is its value if that is known, else `MISSING`.

    `is_attribute` is true for a path from a variable or a value. cel-go counts its beginning once, and not at all where
    it is a branch of a condition or an index: then `discount` is taken off.
    """

    step: Step
    constant: object = runtime_values.MISSING
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
        failure: runtime_values.EvaluationError | None = None
        for step in steps:
            try:
                value = step(run)
            except runtime_values.EvaluationError as error:
                failure = runtime_values.select_failure(failure, error)
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failure = failure or runtime_values.EvaluationError("no such overload")
        if failure is not None:
            raise failure
        return is_and

    return Plan(join_terms)


def plan_alternative(first: Step, second: Step, *, is_value: bool) -> Plan:
    """Return the plan of `or` and `orValue`: the second one is evaluated only if the first has no value."""

    def choose_present(run: Run) -> object:
        value = first(run)
        if value is runtime_values.NONE:
            return second(run)
        return value.value if is_value and isinstance(value, runtime_values.Optional) else value

    return Plan(choose_present)


def plan_membership(node: syntax.Call, step: Step, items: list[object]) -> Plan:
    """Return the plan of `in` for a list that is known; it costs nothing (maybeOptimizeSetMembership)."""
    if not items:
        return make_constant(False)  # noqa: FBT003
    if not all(is_key(item) for item in items):
        return plan_function(node, [Plan(step), make_constant(items)])

    def find_member(run: Run) -> object:
        value = step(run)
        if isinstance(value, bytes | SemanticVersion):
            raise runtime_values.AbortedEvaluationError(
                f"internal error: runtime error: hash of unhashable type {runtime_values.name_type(value)}"
            )
        return runtime_values.is_list_member(value, items)

    return Plan(find_member)


def plan_function(node: syntax.Call, plans: list[Plan]) -> Plan:
    name = node.function
    if name in {"_==_", "_!=_"}:
        return _plan_equality(node, plans[0].step, plans[1].step)
    function = find_function(name, node.kind, node.overload)
    measure = costs.find_cost(node)
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
            except runtime_values.EvaluationError:
                _spend(second, run)
                raise
            return function(value, second(run))

        return Plan(call_two)

    def call_all(run: Run) -> object:
        run.cost += 1
        return function(*[step(run) for step in steps])

    return Plan(call_all)


def _plan_measured(node: syntax.Call, function: Function, steps: list[Step], measure: costs.Measure) -> Plan:
    tracked = _TRACKED.get(node.function) if node.overload is not None else None
    if tracked is int and len(steps) == 1:
        tracked = None

    def call_measured(run: Run) -> object:
        values = _evaluate_arguments(steps, run, measure) if tracked is None else _evaluate_tracked(steps, run, tracked)
        try:
            result = function(*values)
        except runtime_values.EvaluationError:
            run.cost += measure(values, None)
            raise
        run.cost += measure(values, result)
        return result

    return Plan(call_measured)


def _spend(step: Step, run: Run) -> None:
    """Evaluate an argument for its cost alone, since another one failed."""
    with suppress(runtime_values.EvaluationError):
        step(run)


def _evaluate_arguments(steps: list[Step], run: Run, measure: costs.Measure) -> list[object]:
    """Return the values of arguments; the call costs something even if an argument fails, and one of two the other."""
    values: list[object] = []
    failure: runtime_values.EvaluationError | None = None
    for step in steps:
        try:
            values.append(step(run))
        except runtime_values.EvaluationError as error:
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
    failure: runtime_values.EvaluationError | None = None
    last: object = None
    for step in steps:
        try:
            last = step(run)
        except runtime_values.EvaluationError as error:
            failure = failure or error
            last = error
        values.append(last)
    if isinstance(last, runtime_values.UnsupportedValueError):
        raise last
    if not isinstance(last, wanted):
        raise runtime_values.AbortedEvaluationError(f"internal error: an argument is no {wanted.__name__}: {last}")
    if failure is not None:
        raise failure
    return values


def _plan_equality(node: syntax.Call, left_step: Step, right_step: Step) -> Plan:
    """Return the plan of `==` and `!=`: values that cannot be compared differ."""
    is_equality = node.function == "_==_"
    measure = costs.measure_equality if is_equality else costs.measure_comparison

    def compare(run: Run) -> object:
        try:
            left = left_step(run)
        except runtime_values.EvaluationError:
            run.cost += 1
            _spend(right_step, run)
            raise
        try:
            right = right_step(run)
        except runtime_values.EvaluationError:
            run.cost += 1
            raise
        run.cost += measure((left, right), None)
        if is_equality:
            return runtime_values.are_equal(left, right)
        try:
            return not runtime_values.are_equal(left, right)
        except runtime_values.EvaluationError:
            return True

    return Plan(compare)


def fold_conversion(node: syntax.Call, plan: Plan) -> Plan:
    """Return the value of a conversion of a constant; a failure is a problem of the expression."""
    try:
        return make_constant(plan.step(Run([], 0)))
    except runtime_values.EvaluationError as failure:
        message = f"program instantiation failed: {failure}"
        raise syntax.ExpressionError(message, node.position, is_unsupported=failure.is_unsupported) from failure


def check_pattern(pattern: str, node: syntax.SyntaxNode) -> None:
    """Check a regular expression that is known."""
    try:
        compile_pattern(pattern)
    except runtime_values.EvaluationError as failure:
        raise syntax.ExpressionError(str(failure), node.position, is_unsupported=failure.is_unsupported) from failure


_PATTERN_FUNCTIONS = {"matches", "find", "findAll"}
_PATHS = {"_[_]", "_[?_]", "_?._"}
_LOGIC = {"_&&_": True, "_||_": False}


def plan_program(root: syntax.SyntaxNode, variables: tuple[str, ...]) -> tuple[Step, int]:
    """Return the closure of an expression and the number of names that a run needs; variables come first.

    Raises:
        ExpressionError: if a constant part of the expression has no value.
    """
    planner = _Planner(variables)
    plan = planner.plan(root)
    return plan.step, planner.count


class _Planner:
    """The state of planning: the place of every name in scope."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.count = len(variables)
        self._places: dict[str, int] = {name: place for place, name in enumerate(variables)}
        self._bound: dict[int, Step] = {}

    def plan(self, node: syntax.SyntaxNode) -> Plan:
        match node:
            case syntax.Literal():
                return make_constant(node.value)
            case syntax.Name():
                return self._plan_name(node)
            case syntax.Select():
                return self._plan_select(node)
            case syntax.Call():
                return self._plan_call(node)
            case syntax.ListLiteral():
                return self._plan_list(node)
            case syntax.MapLiteral():
                return self._plan_map(node)
            case syntax.Loop():
                return self._plan_loop(node)
        raise AssertionError(node)

    def _plan_name(self, node: syntax.Name) -> Plan:
        place = self._places.get(node.text)
        if place is None:
            return make_constant(runtime_values.TypeValue(node.text if node.text in TYPE_NAMES else ""))

        value = self._bound.get(place)
        if value is not None:
            return Plan(_read_lazily(place, value), is_attribute=True, discount=1)

        def read_name(run: Run) -> object:
            run.cost += 1
            return run.names[place]

        return Plan(read_name, is_attribute=True, discount=1)

    def _plan_select(self, node: syntax.Select) -> Plan:
        operand = self._plan_operand(node.operand)
        key = node.field
        if node.is_test:

            def test_field(run: Run) -> object:
                value = operand(run)
                run.cost += 0 if value is runtime_values.NONE else 1
                run.cost -= 1
                return is_present(value, key)

            return Plan(test_field, is_attribute=True)

        def select_field(run: Run) -> object:
            value = operand(run)
            if type(value) is runtime_values.Optional:
                return _select_optional(run, value, key)
            run.cost += 1
            if type(value) is runtime_values.CelMap:
                found = value.entries.get(key, value.default)
                if found is runtime_values.MISSING:
                    raise runtime_values.EvaluationError(f"no such key: {key}")
                return found
            return find_item(value, key)

        return Plan(select_field, is_attribute=True, discount=1)

    def _plan_operand(self, node: syntax.SyntaxNode) -> Step:
        """Return the closure of the value from which a path goes on; the path of a computed value costs one."""
        plan = self.plan(node)
        step = plan.step
        extra = 0 if plan.is_attribute else 1
        is_path = isinstance(node, syntax.Select) or (isinstance(node, syntax.Call) and node.function in _PATHS)
        if is_path or (plan.is_attribute and node.kind.name not in {"dyn", "optional_type"}):
            return step

        def begin_path(run: Run) -> object:
            run.cost += extra
            value = step(run)
            if type(value) is runtime_values.Optional:
                check_optional(value)
            return value

        return begin_path

    def _plan_call(self, node: syntax.Call) -> Plan:
        name = node.function
        if name in _LOGIC:
            return plan_logic([self.plan(argument).step for argument in node.arguments], is_and=_LOGIC[name])
        if name == "_?_:_":
            return self._plan_condition(node)
        if name in _PATHS:
            return self._plan_index(node, is_optional=name != "_[_]")
        nodes = node.arguments if node.target is None else [node.target, *node.arguments]
        plans = [self.plan(argument) for argument in nodes]
        if name in {"or", "orValue"}:
            return plan_alternative(plans[0].step, plans[1].step, is_value=name == "orValue")
        if name == "@in" and isinstance(plans[1].constant, list) and node.overload is not None:
            return plan_membership(node, plans[0].step, plans[1].constant)
        if name in _PATTERN_FUNCTIONS and isinstance(plans[1].constant, str):
            check_pattern(plans[1].constant, nodes[1])
        if name == "matches" and isinstance(plans[0].constant, str) and node.target is None:
            check_pattern(plans[0].constant, nodes[0])  # the first argument is the text, but cel-go checks it too
        plan = plan_function(node, plans)
        if name in CONVERSIONS and len(plans) == 1 and plans[0].constant is not runtime_values.MISSING:
            return fold_conversion(node, plan)
        return plan

    def _plan_condition(self, node: syntax.Call) -> Plan:
        condition, accepted, rejected = (self.plan(argument) for argument in node.arguments)
        test = condition.step
        branches = {
            is_accepted: (plan.step, plan.discount) for is_accepted, plan in ((True, accepted), (False, rejected))
        }

        def choose(run: Run) -> object:
            chosen = test(run)
            if type(chosen) is not bool:
                raise runtime_values.EvaluationError("no such overload")
            step, discount = branches[chosen]
            run.cost -= discount
            value = step(run)
            if type(value) is runtime_values.Optional:
                check_optional(value)
            return value

        return Plan(choose, is_attribute=True)

    def _plan_index(self, node: syntax.Call, *, is_optional: bool) -> Plan:
        operand = self._plan_operand(node.arguments[0])
        index = self.plan(node.arguments[1])
        if index.constant is not runtime_values.MISSING and not is_key(index.constant):
            message = (
                f"program instantiation failed: invalid qualifier type: {runtime_values.name_type(index.constant)}"
            )
            raise syntax.ExpressionError(message, node.arguments[1].position)
        key_step = index.step
        discount = index.discount

        def index_value(run: Run) -> object:
            value = operand(run)
            if type(value) is runtime_values.Optional:
                return runtime_values.NONE if value is runtime_values.NONE else index_present(run, value.value)
            key = key_step(run)
            run.cost += 1 - discount
            return find_item(value, key)

        def index_present(run: Run, value: object) -> object:
            key = key_step(run)
            run.cost -= discount
            found = find_present(value, key)
            if found is runtime_values.MISSING:
                return runtime_values.NONE
            run.cost += 1
            return runtime_values.Optional(found)

        def index_optional(run: Run) -> object:
            value = operand(run)
            if type(value) is runtime_values.Optional:
                return runtime_values.NONE if value is runtime_values.NONE else index_present(run, value.value)
            return index_present(run, value)

        return Plan(index_optional if is_optional else index_value, is_attribute=True, discount=1)

    def _plan_list(self, node: syntax.ListLiteral) -> Plan:
        plans = [self.plan(element) for element in node.elements]
        if not node.optional_places and all(plan.constant is not runtime_values.MISSING for plan in plans):
            return make_constant([plan.constant for plan in plans])
        steps = [plan.step for plan in plans]
        optional = node.optional_places

        def build_list(run: Run) -> object:
            values = []
            for place, step in enumerate(steps):
                value = step(run)
                if place in optional:
                    value = _unwrap_element(value)
                    if value is runtime_values.MISSING:
                        continue
                values.append(value)
            run.cost += costs.LIST_COST
            return values

        return Plan(build_list)

    def _plan_map(self, node: syntax.MapLiteral) -> Plan:
        plans = [(self.plan(entry.key), self.plan(entry.value), entry.is_optional) for entry in node.entries]
        steps = [(key.step, value.step, is_optional) for key, value, is_optional in plans]

        def build_map(run: Run) -> object:
            built = runtime_values.CelMap({})
            for key_step, value_step, is_optional in steps:
                key = key_step(run)
                value = value_step(run)
                if is_optional:
                    value = _unwrap_element(value)
                    if value is runtime_values.MISSING:
                        built.remove(key)
                        continue
                built.insert(key, value)
            run.cost += costs.MAP_COST
            return built

        is_constant = all(
            key.constant is not runtime_values.MISSING and value.constant is not runtime_values.MISSING
            for key, value, _ in plans
        )
        if not is_constant or any(is_optional for _, _, is_optional in plans):
            return Plan(build_map)
        try:
            return make_constant(build_map(Run([], 0)))
        except runtime_values.EvaluationError as failure:
            raise syntax.ExpressionError(str(failure), node.position, is_unsupported=True) from failure

    def _plan_loop(self, node: syntax.Loop) -> Plan:
        if node.form == "bind":
            return self._plan_binding(node)
        items = self.plan(node.items).step
        places = tuple(range(self.count, self.count + len(node.variables)))
        self.count += len(places)
        outer = self._places
        self._places = {**outer, **dict(zip(node.variables, places, strict=True))}
        predicates = [self.plan(predicate).step for predicate in node.predicates]
        parts = [self.plan(part) for part in node.parts]
        self._places = outer
        is_built = node.form == "list" and parts[0].constant is runtime_values.MISSING
        cost = 2 + (costs.LIST_COST if is_built else 0)
        predicate = predicates[0] if predicates else None
        loop = LoopPlan(node.form, items, places, predicate, [part.step for part in parts], cost)

        def loop_over(run: Run) -> object:
            return run_loop(loop, run)

        return Plan(loop_over)

    def _plan_binding(self, node: syntax.Loop) -> Plan:
        """Plan a body with a name for a value; the value is evaluated when the name is used first, if it is."""
        value = self.plan(node.initial).step
        place = self.count
        self.count += 1
        outer, bound = self._places, self._bound
        self._places = {**outer, node.result_name: place}
        self._bound = {**bound, place: value}
        body = self.plan(node.outcome).step
        self._places, self._bound = outer, bound

        def bind(run: Run) -> object:
            run.names[place] = runtime_values.MISSING
            return body(run)

        return Plan(bind)


def _select_optional(run: Run, value: runtime_values.Optional, key: object) -> object:
    """Return the optional value of a field of an optional value; a field that is not there costs nothing."""
    if not value.has_value:
        return runtime_values.NONE
    found = find_present(value.value, key)
    if found is runtime_values.MISSING:
        return runtime_values.NONE
    run.cost += 1
    return runtime_values.Optional(found)


def _read_lazily(place: int, value_step: Step) -> Step:
    """Return the closure of a name whose value, or failure, is evaluated once."""

    def read_bound(run: Run) -> object:
        run.cost += 1
        value = run.names[place]
        if value is runtime_values.MISSING:
            try:
                value = value_step(run)
            except runtime_values.EvaluationError as failure:
                value = failure
            run.names[place] = value
        if isinstance(value, runtime_values.EvaluationError):
            raise value
        return value

    return read_bound


def _unwrap_element(value: object) -> object:
    """Return the value of an optional element, or `MISSING`."""
    if not isinstance(value, runtime_values.Optional):
        raise runtime_values.EvaluationError(f"cannot initialize optional list element from non-optional value {value}")
    return value.value if value.has_value else runtime_values.MISSING
