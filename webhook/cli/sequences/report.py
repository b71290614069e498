"""Reports of sequences: for a person, and as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from webhook.cli.report.table import create_table, escape_control
from webhook.cli.sequences import describe
from webhook.cli.sequences.compare import Difference, format_verdict
from webhook.cli.sequences.play import ScenarioResult, StepResult
from webhook.cli.sequences.world import CapUsage
from webhook.policy.model import SourceLocation

_STYLES = {"ok": "green", "FAILED": "bold red"}


def render_report(results: Sequence[ScenarioResult], *, verbose: bool) -> RenderableType:
    """One line a sequence; beneath it where it went wrong, and if `verbose` every step."""
    return Group(*(part for result in results for part in _render_scenario(result, verbose=verbose)))


def format_summary(results: Sequence[ScenarioResult], files: int) -> str:
    """`3 sequences in 2 files: 2 ok, 1 failed`."""
    failed = sum(result.failed_step is not None for result in results)
    parts = [f"{number} {word}" for number, word in ((len(results) - failed, "ok"), (failed, "failed")) if number]
    return f"{_format_count(len(results), 'sequence')} in {_format_count(files, 'file')}: {', '.join(parts)}"


def convert_report(results: Sequence[ScenarioResult]) -> dict[str, Any]:
    """The same for a program. A change of a key's meaning is a breaking one."""
    failed = sum(result.failed_step is not None for result in results)
    counts = {"sequences": len(results), "ok": len(results) - failed, "failed": failed}
    return {"sequences": [_convert_scenario(each) for each in results], "summary": counts}


def _render_scenario(result: ScenarioResult, *, verbose: bool) -> Iterator[RenderableType]:
    word = "ok" if result.failed_step is None else "FAILED"
    name, position = escape_control(result.scenario.name), escape_control(_format_source(result.scenario.source))
    yield Text.assemble((f"{word:<8}", _STYLES[word]), name, "  ", (position, "dim"), overflow="fold")
    for step_result in result.steps if verbose else ():
        yield Padding(_render_step(step_result), (0, 0, 0, 2))
    if result.failed_step is not None:
        yield Padding(_render_failure(result, result.failed_step), (0, 0, 0, 2))


def _render_step(step_result: StepResult) -> RenderableType:
    lines = [
        Text.assemble(
            f"{step_result.number}. {escape_control(describe.format_action(step_result.step))}: "
            f"{escape_control(format_verdict(step_result.request_result))}"
        )
    ]
    lines += [Text(f"   {escape_control(detail)}", "dim") for detail in _list_details(step_result)]
    return Group(*lines)


def _list_details(step_result: StepResult) -> Iterator[str]:
    result = step_result.request_result
    yield from (f"warning: {each}" for each in result.warnings)
    yield from (f"filled in: {field}: {value}" for field, value in result.filled.items())
    if result.pods_created or result.pods_missing:
        yield f"pods: {result.pods_created} made, {result.pods_missing} missing"
    yield from (f"event: {each}" for each in result.events)
    yield from (f"ledger {title}: {amounts}" for title, amounts in describe.format_ledgers(step_result.cap_usages))


def _render_failure(result: ScenarioResult, step_result: StepResult) -> RenderableType:
    head = (
        f"{_format_source(step_result.step.source)}: step {step_result.number}: "
        f"{describe.format_action(step_result.step)}"
    )
    rows = [row for each in step_result.differences for row in _list_difference_rows(each)]
    rows += [("event", each) for each in step_result.request_result.events]
    rows += [("ledger", f"{which}: {amounts}") for which, amounts in describe.format_ledgers(step_result.cap_usages)]
    remaining = len(result.scenario.steps) - step_result.number
    rows += [("then", f"{_format_count(remaining, 'step')} not played")] if remaining else []
    failure_table = create_table(("", ""), rows)
    failure_table.show_header = False
    return Group(Text(escape_control(head), "bold", overflow="fold"), Padding(failure_table, (0, 0, 0, 2)))


def _list_difference_rows(difference: Difference) -> Iterator[tuple[str, str]]:
    yield "expected", f"{difference.subject} {difference.expected}"
    yield "happened", difference.actual


def _format_source(source: SourceLocation) -> str:
    return f"{source.file}:{source.line}:{source.column}"


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _convert_scenario(result: ScenarioResult) -> dict[str, Any]:
    source = result.scenario.source
    return {
        "name": result.scenario.name,
        "file": source.file,
        "line": source.line,
        "column": source.column,
        "ok": result.failed_step is None,
        "steps": [_convert_step(step_result) for step_result in result.steps],
        "notPlayed": len(result.scenario.steps) - len(result.steps),
    }


def _convert_step(step_result: StepResult) -> dict[str, Any]:
    result = step_result.request_result
    return {
        "step": step_result.number,
        "line": step_result.step.source.line,
        "column": step_result.step.source.column,
        "action": describe.format_action(step_result.step),
        "namespace": step_result.step.namespace,
        "user": step_result.step.user.name,
        "verdict": result.verdict.value,
        "by": result.rejected_by,
        "codes": list(result.codes),
        "message": result.message,
        "warnings": list(result.warnings),
        "filled": dict(result.filled),
        "pods": {"made": result.pods_created, "missing": result.pods_missing},
        "events": list(result.events),
        "ledgers": [_convert_cap_usage(cap_usage) for cap_usage in step_result.cap_usages],
        "differences": [
            {"what": difference.subject, "expected": difference.expected, "happened": difference.actual}
            for difference in step_result.differences
        ],
    }


def _convert_cap_usage(cap_usage: CapUsage) -> dict[str, Any]:
    names = sorted(cap_usage.active_cap.resources)
    return {
        "cap": cap_usage.active_cap.definition.name,
        "namespace": cap_usage.namespace,
        "open": not cap_usage.ledger.initializer,
        "held": {name: cap_usage.ledger.used.get(name, 0) for name in names},
        "promised": {name: cap_usage.ledger.reserved.get(name, 0) for name in names},
        "free": {name: free for name in names if (free := cap_usage.get_free(name)) is not None},
    }
