"""Reports of scenario runs: as text, as data for JSON and YAML, as GitHub's workflow commands, and as JUnit XML.

The JUnit report has one suite for each file and one case for each scenario, in the form that Jenkins' xunit plugin and
GitLab's unit test reports read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any
from xml.sax.saxutils import quoteattr

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from tallygate.accounting.amounts import format_amount
from tallygate.answers.columns import escape_control
from tallygate.cli.output.ci_formats import format_workflow_command
from tallygate.cli.output.tables import create_table
from tallygate.cli.scenarios import scenario
from tallygate.cli.scenarios.compare import Difference, format_verdict
from tallygate.cli.scenarios.run import ScenarioResult, StepResult
from tallygate.cli.scenarios.scenario_document import ScaleStep
from tallygate.cli.scenarios.simulated_cluster import CapUsage
from tallygate.policy.model import SourceLocation

_STYLES = {"ok": "green", "FAILED": "bold red"}
_INVALID_XML_CHARACTERS = dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd")


def format_action(step: scenario.ScenarioStep) -> str:
    """Return the action of a step as text, for example `create pod trainer`."""
    match step.action:
        case scenario.Send(name, body):
            phrase = f"{name} {_format_object(body)}"
        case scenario.Change(_, target, ScaleStep(replicas=replicas)):
            phrase = f"scale {target} to {replicas}"
        case scenario.Change(name, target):
            phrase = f"{name} {target}"
        case scenario.Wait(_, text):
            phrase = f"wait {text}"
    return f"{phrase} (dry run)" if step.dry_run else phrase


def _format_object(body: scenario.JsonObject) -> str:
    metadata = body.get("metadata") or {}
    return f"{str(body['kind']).lower()} {metadata.get('name') or metadata.get('generateName') or ''}".rstrip()


def format_ledgers(cap_usages: Sequence[CapUsage]) -> Iterator[tuple[str, str]]:
    """Yield the title and the amounts of each ledger with used or reserved amounts, or without a first count."""
    for cap_usage in cap_usages:
        parts = [
            _format_cap_usage(cap_usage, name)
            for name in sorted(cap_usage.active_cap.resources)
            if cap_usage.ledger.compute_charged().get(name)
        ]
        if cap_usage.ledger.initializer:
            parts.append("not counted yet")
        if parts:
            scope = cap_usage.active_cap.group or cap_usage.namespace
            yield f"{cap_usage.active_cap.definition.name} {scope}".rstrip(), "; ".join(parts)


def _format_cap_usage(cap_usage: CapUsage, name: str) -> str:
    used, reserved = cap_usage.ledger.used.get(name, 0), cap_usage.ledger.reserved.get(name, 0)
    free = cap_usage.get_free(name)
    free_text = "" if free is None else f", free {format_amount(name, free)}"
    return f"{name} used {format_amount(name, used)}, reserved {format_amount(name, reserved)}{free_text}"


def _format_nodes(step_result: StepResult) -> Iterator[str]:
    for node in step_result.nodes:
        parts = [f"{name} {format_amount(name, amount)}" for name, amount in node.amounts.items()]
        parts += [f"{name}: {text}" for name, text in sorted(node.problems.items())]
        if parts:
            yield f"node {node.name}: {'; '.join(parts)}"


def render_report(results: Sequence[ScenarioResult], *, verbose: bool) -> RenderableType:
    """Render one line for each scenario with its failure, and with every step if `verbose`."""
    return Group(*(part for result in results for part in _render_scenario(result, verbose=verbose)))


def format_summary(results: Sequence[ScenarioResult], files: int) -> str:
    """Return the counts as text, for example `3 scenarios in 2 files: 2 ok, 1 failed`."""
    failed = sum(result.failed_step is not None for result in results)
    parts = [f"{number} {word}" for number, word in ((len(results) - failed, "ok"), (failed, "failed")) if number]
    return f"{_format_count(len(results), 'scenario')} in {_format_count(files, 'file')}: {', '.join(parts)}"


def convert_report(results: Sequence[ScenarioResult]) -> dict[str, Any]:
    """Convert the results to JSON values. A change of a key's meaning is a breaking change."""
    failed = sum(result.failed_step is not None for result in results)
    counts = {"scenarios": len(results), "ok": len(results) - failed, "failed": failed}
    return {"scenarios": [_convert_scenario(result) for result in results], "summary": counts}


def _render_scenario(result: ScenarioResult, *, verbose: bool) -> Iterator[RenderableType]:
    word = "ok" if result.failed_step is None else "FAILED"
    name, position = escape_control(result.scenario.name), escape_control(_format_source(result.scenario.source))
    yield Text.assemble((f"{word:<8}", _STYLES[word]), name, "  ", (position, "dim"))
    for step_result in result.steps if verbose else ():
        yield Padding(_render_step(step_result), (0, 0, 0, 2))
    if result.failed_step is not None:
        yield Padding(_render_failure(result, result.failed_step), (0, 0, 0, 2))


def _render_step(step_result: StepResult) -> RenderableType:
    lines = [
        Text.assemble(
            f"{step_result.number}. {escape_control(format_action(step_result.step))}: "
            f"{escape_control(format_verdict(step_result.request_result))}"
        )
    ]
    lines += [Text(f"   {escape_control(detail)}", "dim") for detail in _list_details(step_result)]
    return Group(*lines)


def _list_details(step_result: StepResult) -> Iterator[str]:
    result = step_result.request_result
    yield from (f"warning: {warning}" for warning in result.warnings)
    yield from (f"filled in: {field}: {value}" for field, value in result.filled.items())
    if result.pods_created or result.pods_missing:
        yield f"pods: {result.pods_created} created, {result.pods_missing} missing"
    yield from (f"event: {event}" for event in result.events)
    yield from (f"ledger {title}: {amounts}" for title, amounts in format_ledgers(step_result.cap_usages))
    yield from _format_nodes(step_result)


def _render_failure(result: ScenarioResult, step_result: StepResult) -> RenderableType:
    head = f"{_format_source(step_result.step.source)}: step {step_result.number}: {format_action(step_result.step)}"
    rows = [row for difference in step_result.differences for row in _list_difference_rows(difference)]
    rows += [("event", event) for event in step_result.request_result.events]
    rows += [("ledger", f"{which}: {amounts}") for which, amounts in format_ledgers(step_result.cap_usages)]
    rows += [("node", text.removeprefix("node ")) for text in _format_nodes(step_result)]
    remaining = len(result.scenario.steps) - step_result.number
    rows += [("then", f"{_format_count(remaining, 'step')} not run")] if remaining else []
    failure_table = replace(create_table(("", ""), rows), indent=2)
    return Group(Text(escape_control(head), "bold"), failure_table)


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
        "notRun": len(result.scenario.steps) - len(result.steps),
    }


def _convert_step(step_result: StepResult) -> dict[str, Any]:
    result = step_result.request_result
    return {
        "step": step_result.number,
        "line": step_result.step.source.line,
        "column": step_result.step.source.column,
        "action": format_action(step_result.step),
        "namespace": step_result.step.namespace,
        "user": step_result.step.user.name,
        "verdict": result.verdict.value,
        "by": result.rejected_by,
        "codes": list(result.codes),
        "message": result.message,
        "warnings": list(result.warnings),
        "filled": dict(result.filled),
        "pods": {"created": result.pods_created, "missing": result.pods_missing},
        "events": list(result.events),
        "ledgers": [_convert_cap_usage(cap_usage) for cap_usage in step_result.cap_usages],
        "nodes": [
            {"node": node.name, "published": dict(node.amounts), "problems": dict(node.problems)}
            for node in step_result.nodes
        ],
        "differences": [
            {"subject": difference.subject, "expected": difference.expected, "happened": difference.actual}
            for difference in step_result.differences
        ],
    }


def _convert_cap_usage(cap_usage: CapUsage) -> dict[str, Any]:
    names = sorted(cap_usage.active_cap.resources)
    return {
        "cap": cap_usage.active_cap.definition.name,
        "group": cap_usage.active_cap.group,
        "namespace": cap_usage.namespace,
        "active": not cap_usage.ledger.initializer,
        "used": {name: cap_usage.ledger.used.get(name, 0) for name in names},
        "reserved": {name: cap_usage.ledger.reserved.get(name, 0) for name in names},
        "free": {name: free for name in names if (free := cap_usage.get_free(name)) is not None},
    }


def format_github_failures(results: Sequence[ScenarioResult]) -> list[str]:
    """Return a workflow command of GitHub for each failed scenario, which shows it next to the line of its step."""
    return [_format_failure_command(result, result.failed_step) for result in results if result.failed_step is not None]


def _format_failure_command(result: ScenarioResult, failed_step: StepResult) -> str:
    source = failed_step.step.source
    place = {"file": source.file, "line": str(source.line), "col": str(source.column)}
    message = "\n".join(_list_failure_lines(failed_step))
    return format_workflow_command("error", place, escape_control(result.scenario.name), message)


def format_junit(results: Sequence[ScenarioResult]) -> str:
    """Return the results as JUnit XML."""
    return "\n".join(_list_lines(results)) + "\n"


def _list_lines(results: Sequence[ScenarioResult]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites {_format_counts(results)}>"
    for file, group in groupby(results, key=lambda each: each.scenario.source.file):
        cases = list(group)
        yield f'  <testsuite name={_quote(file)} {_format_counts(cases)} errors="0" skipped="0">'
        for result in cases:
            yield from _list_case_lines(result, file)
        yield "  </testsuite>"
    yield "</testsuites>"


def _list_case_lines(result: ScenarioResult, file: str) -> Iterator[str]:
    name, line = _quote(result.scenario.name), result.scenario.source.line
    head = f'    <testcase name={name} classname={_quote(file)} file={_quote(file)} line="{line}"'
    if result.failed_step is None:
        yield f"{head}/>"
        return
    yield f"{head}>"
    yield f"      <failure message={_quote(_format_failure_text(result.failed_step))}/>"
    yield "    </testcase>"


def _format_failure_text(step_result: StepResult) -> str:
    first, *others = _list_failure_lines(step_result)
    return "\n".join((f"{_format_source(step_result.step.source)}: {first}", *others))


def _list_failure_lines(step_result: StepResult) -> Iterator[str]:
    """Yield the step, the differences from the expectation, and the events, ledgers and nodes after it."""
    yield f"step {step_result.number}: {format_action(step_result.step)}"
    for difference in step_result.differences:
        yield f"expected {difference.subject} {difference.expected}; happened: {difference.actual}"
    yield from (f"event {event}" for event in step_result.request_result.events)
    yield from (f"ledger {which}: {amounts}" for which, amounts in format_ledgers(step_result.cap_usages))
    yield from _format_nodes(step_result)


def _format_counts(results: Sequence[ScenarioResult]) -> str:
    return f'tests="{len(results)}" failures="{sum(result.failed_step is not None for result in results)}"'


def _quote(text: str) -> str:
    """Return a quoted XML attribute value; line ends are kept, and invalid XML characters are replaced."""
    return quoteattr(escape_control(text).translate(_INVALID_XML_CHARACTERS))
