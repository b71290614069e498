"""One evaluation, and the loops of comprehensions in it (evalFold in interpreter/interpretable.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tallygate.accounting.cel import runtime_values

MAX_COST: Final = 1_000_000
"""The cost of one evaluation that Kubernetes allows for a selector of devices."""
_MAX_ITEMS = 1_000_000
_CHECK_EVERY = 64


class Run:
    """One evaluation: the values of names by place, the cost until now, and the items of all loops until now."""

    __slots__ = ("cost", "items", "max_cost", "names")

    def __init__(self, names: list[object], count: int, max_cost: int = MAX_COST) -> None:
        self.names = names + [None] * count
        self.max_cost = max_cost
        self.cost = 0
        self.items = 0

    def check(self) -> None:
        """Check the cost.

        Raises:
            AbortedEvaluationError: if it is more than is allowed.
        """
        if self.cost > self.max_cost:
            raise runtime_values.AbortedEvaluationError(f"the evaluation costs more than {self.max_cost}")
        if self.items > _MAX_ITEMS:
            message = f"loops over more than {_MAX_ITEMS} items are not supported"
            raise runtime_values.AbortedEvaluationError(message, is_unsupported=True)


Step = Callable[[Run], object]
"""A part of a program: it returns its value, or raises an `EvaluationError`."""


class LoopPlan(NamedTuple):
    """A loop to run: its form, the range, the places of its variables, and the parts of each step."""

    form: str
    items: Step
    places: tuple[int, ...]
    predicate: Step | None
    parts: Sequence[Step]
    cost: int
    """The cost of adding an item to the result."""


def run_loop(plan: LoopPlan, run: Run) -> object:
    items = _iterate(plan, run, plan.items(run))
    if plan.form == "all":
        return _test_items(plan, run, items, decisive=False, cost=3)
    if plan.form == "exists":
        return _test_items(plan, run, items, decisive=True, cost=4)
    if plan.form == "one":
        return _count_items(plan, run, items)
    return _collect_list(plan, run, items) if plan.form == "list" else _collect_map(plan, run, items)


def _iterate(plan: LoopPlan, run: Run, items: object) -> Iterator[None]:
    """Return an iterator that sets the variables of the loop to each item."""
    names, places = run.names, plan.places
    pairs: Iterable[tuple[object, ...]]
    if isinstance(items, list):
        pairs = enumerate(items) if len(places) > 1 else ((item,) for item in items)
    elif isinstance(items, runtime_values.CelMap):
        pairs = ((key, items.find(key)) for key in list(items.list_keys()))
    else:
        raise runtime_values.EvaluationError(f"got '{type(items).__name__}', expected iterable type")

    def step_through() -> Iterator[None]:
        for pair in pairs:
            run.items += 1
            if run.cost > MAX_COST or run.items % _CHECK_EVERY == 0:
                run.check()
            for place, value in zip(places, pair, strict=False):
                names[place] = value
            yield

    return step_through()


def _test_items(plan: LoopPlan, run: Run, items: Iterator[None], *, decisive: bool, cost: int) -> object:
    """Return whether the predicate has the decisive value for an item; failures count only if it has not."""
    predicate = plan.predicate
    assert predicate is not None  # noqa: S101
    failure: runtime_values.EvaluationError | None = None
    result = not decisive
    run.cost += 1
    for _ in items:
        if result is decisive:
            run.cost += cost - 1  # the condition that ends the loop
            return result
        run.cost += cost
        try:
            value = predicate(run)
        except runtime_values.EvaluationError as error:
            failure = runtime_values.select_failure(failure, error)
            continue
        if value is decisive:
            result = decisive
        elif type(value) is not bool:
            failure = failure or runtime_values.EvaluationError("no such overload")
    if result is decisive or failure is None:
        return result
    raise failure


def _count_items(plan: LoopPlan, run: Run, items: Iterator[None]) -> object:
    """Return whether the predicate is true for exactly one item."""
    count = 0
    for _ in items:
        if _is_accepted(plan, run):
            run.cost += 2
            count += 1
    run.cost += 2
    return count == 1


def _is_accepted(plan: LoopPlan, run: Run) -> bool:
    """Return the value of the predicate; without one every item is accepted."""
    value = True if plan.predicate is None else plan.predicate(run)
    if type(value) is not bool:
        raise runtime_values.EvaluationError("no such overload")
    return value


def _collect_list(plan: LoopPlan, run: Run, items: Iterator[None]) -> object:
    collected = []
    (part,) = plan.parts
    for _ in items:
        if _is_accepted(plan, run):
            run.cost += plan.cost
            collected.append(part(run))
    run.cost += 1
    return collected


def _collect_map(plan: LoopPlan, run: Run, items: Iterator[None]) -> object:
    """Return the map of the entries of all accepted items; no key may come twice."""
    collected = runtime_values.CelMap({})
    for _ in items:
        if not _is_accepted(plan, run):
            continue
        run.cost += plan.cost
        values = [part(run) for part in plan.parts]
        if len(values) > 1:
            _insert_new(collected, values[0], values[1])
            continue
        if not isinstance(values[0], runtime_values.CelMap):
            raise runtime_values.UnsupportedValueError("an entry that is no map is not supported")
        for key in values[0].list_keys():
            _insert_new(collected, key, values[0].find(key))
    run.cost += 1
    return collected


def _insert_new(collected: runtime_values.CelMap, key: object, value: object) -> None:
    if collected.get_own(key) is not runtime_values.MISSING:
        raise runtime_values.EvaluationError(f"insert failed: key {key} already exists")
    collected.insert(key, value)
