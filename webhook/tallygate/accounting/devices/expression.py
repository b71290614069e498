"""Selectors of devices: expressions that are compiled once and evaluated for many devices (cel/compile.go)."""

from __future__ import annotations

from typing import Final

from tallygate.accounting.cel import cel_types
from tallygate.accounting.cel.evaluator import plan_program
from tallygate.accounting.cel.expression_parser import parse_expression
from tallygate.accounting.cel.loops import MAX_COST, Run, Step
from tallygate.accounting.cel.runtime_values import AbortedEvaluationError, EvaluationError, Optional, name_type
from tallygate.accounting.cel.syntax import ExpressionError, TextPosition
from tallygate.accounting.cel.type_checker import check_types
from tallygate.accounting.devices.device_values import Device, make_variable
from tallygate.errors import TallygateError

_DEVICE: Final = cel_types.CelType("kubernetes.DRADevice")
_FIELDS: Final = {
    _DEVICE.name: {
        "driver": cel_types.STRING,
        "attributes": cel_types.make_map(cel_types.STRING, cel_types.make_map(cel_types.STRING, cel_types.DYN)),
        "capacity": cel_types.make_map(cel_types.STRING, cel_types.make_map(cel_types.STRING, cel_types.QUANTITY)),
        "allowMultipleAllocations": cel_types.BOOL,
    }
}


class UndecidedMatchError(TallygateError):
    """The result of an expression on a device is undecided: the evaluation failed, or costs more than is allowed.

    `is_unsupported` is true where Kubernetes may have a result, and this package has not. `cost` is the cost of the
    evaluation until then.
    """

    def __init__(self, message: str, *, is_unsupported: bool = False, cost: int = 0) -> None:
        super().__init__(message)
        self.is_unsupported = is_unsupported
        self.cost = cost


class CompiledSelector:
    """A compiled expression; it can be used by several threads."""

    __slots__ = ("_count", "_step", "text")

    def __init__(self, text: str, step: Step, count: int) -> None:
        self.text = text
        self._step = step
        self._count = count

    def matches(self, device: Device) -> bool:
        """Return whether a device matches.

        Raises:
            UndecidedMatchError: if Kubernetes fails to decide, or this package cannot.
        """
        return self.evaluate(device)[0]

    def evaluate(self, device: Device, max_cost: int = MAX_COST) -> tuple[bool, int]:
        """Return whether a device matches, and the cost of the evaluation.

        Raises:
            UndecidedMatchError: as `matches`, or if the evaluation costs more than `max_cost`.
        """
        run: Run | None = None
        try:
            run = Run([make_variable(device)], self._count - 1, max_cost)
            value = self._step(run)
            run.check()
        except (EvaluationError, AbortedEvaluationError) as error:
            cost = 0 if run is None else run.cost
            raise UndecidedMatchError(str(error), is_unsupported=error.is_unsupported, cost=cost) from error
        while isinstance(value, Optional) and value.has_value:
            value = value.value
        if type(value) is not bool:
            raise UndecidedMatchError(f"CEL result of type {name_type(value)} could not be converted to bool")
        return value, run.cost


def compile_selector(text: str) -> CompiledSelector:
    """Compile an expression over `device`, whose result must be a bool.

    Raises:
        ExpressionError: with the position of the mistake.
    """
    root = parse_expression(text)
    kind = check_types(root, {"device": _DEVICE}, _FIELDS)
    if kind not in (cel_types.BOOL, cel_types.DYN):
        raise ExpressionError(f"must evaluate to bool or the unknown type, not {kind}", TextPosition(1, 1))
    step, count = plan_program(root, ("device",))
    return CompiledSelector(text, step, count)
