"""docs/operate.md and docs/security.md: what they say of the code and of its cases is so."""

import ast
import re
from pathlib import Path

import pytest

from tests.server.every_metric import every_metric
from webhook.state.ledger.reserving import First

_ROOT = Path(__file__).parents[1]
_DOCS = _ROOT / "docs"
_OPERATE = (_DOCS / "operate.md").read_text()
_SECURITY = (_DOCS / "security.md").read_text()
_LOGGED = re.compile(r"\b_?log\.(?:debug|info|warning|error)\(\s*\"([a-z-]+)\"(?: if \w+ else \"([a-z-]+)\")?")
_CASE = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)(?:::(test_\w+))?`")


def _tests_of(path: str) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse((_ROOT / path).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def _logged() -> set[str]:
    """Every event that the server logs."""
    sources = (path.read_text() for path in (_ROOT / "webhook" / "server").rglob("*.py"))
    return {event for source in sources for found in _LOGGED.findall(source) for event in found if event}


@pytest.mark.parametrize("page", [_OPERATE, _SECURITY], ids=["operate", "security"])
def test_every_case_that_is_pointed_to_is_there(page: str) -> None:
    cases = _CASE.findall(page)
    assert cases
    assert [
        case for case in cases if not (_ROOT / case[0]).is_file() or (case[1] and case[1] not in _tests_of(case[0]))
    ] == []


def test_every_try_of_a_tenant_is_told_and_is_there() -> None:
    told = set(re.findall(r"`(test_\w+)`", _SECURITY))
    tries = {name for name in _tests_of("e2e/test_evasion.py") if name.startswith("test_")}
    assert told == tries


def test_every_metric_that_the_runbook_names_is_there() -> None:
    named = set(re.findall(r"tallygate_[a-z_]+[a-z]", _OPERATE))
    assert named
    assert {name for name in named if name not in every_metric() and f"{name}_count" not in every_metric()} == set()


def test_every_alert_that_the_runbook_names_is_there() -> None:
    there = set(re.findall(r"alert: (\w+)", (_ROOT / "deploy" / "prometheus" / "tallygate.yaml").read_text()))
    assert set(re.findall(r"\bTallygate[A-Z]\w+", _OPERATE)) <= there


def test_every_event_of_the_log_that_the_runbook_names_is_there() -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| (?:info|warning|error)", _OPERATE, re.MULTILINE)
    named = {event for row in rows for event in re.findall(r"`([a-z-]+)`", row)}
    assert named
    assert named <= _logged()


def test_every_event_that_the_server_logs_is_told_in_some_page() -> None:
    told = {name for page in _DOCS.glob("*.md") for name in re.findall(r"`([a-z-]+)`", page.read_text())}
    assert _logged() - told == set()


def test_every_reason_to_come_again_is_in_the_runbook() -> None:
    beginnings = re.findall(r"`([^`]+)`", _OPERATE.split("## 429", 1)[1].split("\n## ", 1)[0])
    assert [first for first in First if not any(each in str(first) for each in beginnings)] == []
