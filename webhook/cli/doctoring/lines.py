"""What was found, for a person and for a program."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from webhook.cli.doctoring.checks import CHECKS
from webhook.cli.doctoring.verdict import CheckReport, CheckStatus
from webhook.cli.report import write
from webhook.cli.report.table import escape_control

_STYLES = {
    CheckStatus.PASS: "green",
    CheckStatus.UNKNOWN: "cyan",
    CheckStatus.WARN: "yellow",
    CheckStatus.FAIL: "bold red",
}
_STATUS_WIDTH = max(map(len, CheckStatus)) + 2
_NAME_WIDTH = max(len(check.name) for check in CHECKS) + 2
_INDENT = " " * _STATUS_WIDTH


def render_reports(reports: Sequence[CheckReport]) -> Group:
    """One paragraph a check: how it stands, why, and beneath it what mends it, each command a line to copy."""
    return Group(*(part for report in reports for part in _render_report(report)))


def print_reports(reports: Sequence[CheckReport]) -> None:
    """Print them. Commands are never folded, so that they can be copied from a terminal of any width."""
    terminal = write.create_console(sys.stdout)
    terminal.print(render_reports(reports), soft_wrap=True)


def _render_report(report: CheckReport) -> Iterator[RenderableType]:
    result = report.result
    status = (f"{result.status:<{_STATUS_WIDTH}}", _STYLES[result.status])
    yield Text.assemble(status, (f"{report.name:<{_NAME_WIDTH}}", "bold"), escape_control(result.reason))
    for command in result.fix_commands:
        yield Text(f"{_INDENT}$ {escape_control(command)}")


def format_summary(reports: Sequence[CheckReport]) -> str:
    """How many of each."""
    counts = Counter(report.result.status for report in reports)
    counts_text = ", ".join(f"{counts[status]} {status}" for status in reversed(CheckStatus) if counts[status])
    return f"{len(reports)} checks: {counts_text}"


def convert_reports(reports: Sequence[CheckReport]) -> dict[str, Any]:
    """The same for a program."""
    counts = Counter(report.result.status for report in reports)
    return {
        "summary": {str(status): counts[status] for status in CheckStatus},
        "checks": [
            {
                "check": result.name,
                "title": result.title,
                "result": str(result.result.status),
                "reason": result.result.reason,
                "mend": list(result.result.fix_commands),
            }
            for result in reports
        ],
    }
