"""Reports as JUnit XML, which CI systems show beside their own tests.

One suite a file, one case a sequence; the form that Jenkins' xunit plugin and GitLab's unit test reports read.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.sax.saxutils import quoteattr

from webhook.cli.report.table import escape_control
from webhook.cli.sequences import describe
from webhook.cli.sequences.play import ScenarioResult, StepResult

_INVALID_XML_CHARACTERS = dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd")


def format_junit(results: Sequence[ScenarioResult]) -> str:
    """The whole report."""
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
    source = step_result.step.source
    head = (
        f"{source.file}:{source.line}:{source.column}: step {step_result.number}: "
        f"{describe.format_action(step_result.step)}"
    )
    rows = [
        f"expected {difference.subject} {difference.expected}; happened: {difference.actual}"
        for difference in step_result.differences
    ]
    rows += [f"event {each}" for each in step_result.request_result.events]
    rows += [f"ledger {which}: {amounts}" for which, amounts in describe.format_ledgers(step_result.cap_usages)]
    return "\n".join((head, *rows))


def _format_counts(results: Sequence[ScenarioResult]) -> str:
    return f'tests="{len(results)}" failures="{sum(result.failed_step is not None for result in results)}"'


def _quote(text: str) -> str:
    """An attribute; line ends are kept, and what XML cannot hold is not."""
    return quoteattr(escape_control(text).translate(_INVALID_XML_CHARACTERS))
