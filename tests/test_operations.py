"""docs/operate.md and docs/security.md: what they say of the code and of its cases is so."""

import ast
import re
from pathlib import Path

import pytest

from tests.logged_events import events_of, logged
from tests.server.every_metric import every_metric
from webhook.state.ledger.reserve import Prerequisite

_ROOT = Path(__file__).parents[1]
_DOCS = _ROOT / "docs"
_OPERATE = (_DOCS / "operate.md").read_text()
_SECURITY = (_DOCS / "security.md").read_text()
_CASE = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)(?:::(test_\w+))?`")


def _tests_of(path: str) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse((_ROOT / path).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


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


def test_every_alert_leads_to_a_section_of_the_runbook_and_no_other_is_named() -> None:
    there = set(re.findall(r"alert: (\w+)", (_ROOT / "deploy" / "prometheus" / "tallygate.yaml").read_text()))
    seen = _OPERATE.split("## By what is seen", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"\bTallygate[A-Z]\w+(?=[^\n]*\]\(#)", seen)) == there
    assert set(re.findall(r"\bTallygate[A-Z]\w+", _OPERATE)) == there


def test_the_runbook_has_every_event_of_the_log_with_its_levels_and_no_other() -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| ([a-z, ]+) \| [^|]+ \| [^|]+ \|$", _OPERATE, re.MULTILINE)
    told = {event: set(levels.split(", ")) for events, levels in rows for event in re.findall(r"`([a-z-]+)`", events)}
    assert told == logged()


def test_every_event_for_which_a_page_leads_to_the_log_is_there() -> None:
    way = re.compile(r"log lines? `([a-z-]+)`|`([a-z-]+)` in the log|the log\s+says (?:once )?\(?`([a-z-]+)`")
    found = (each for page in _DOCS.glob("*.md") for each in way.findall(page.read_text()))
    named = {event for events in found for event in events if event}
    assert len(named) > 5
    assert named <= set(logged())


def test_an_event_is_found_however_it_is_logged() -> None:
    source = """
def f(self, why, event, bad):
    self._log.info("begun" if why else "ended")
    voice.log.warning(
        event, message=why)
    later = partial(log.error, "broken")
    loud = self._log.warning if why else self._log.error
    loud("half-broken")
    other("no event")
def g(self):
    self.f("why", "given", True)
"""
    found = {("begun", "info"), ("ended", "info"), ("given", "warning"), ("broken", "error")}
    assert set(events_of(source, "a.py")) == found | {("half-broken", "warning"), ("half-broken", "error")}
    with pytest.raises(AssertionError, match=r"a\.py:2: .* write it out"):
        list(events_of("def f(log, what):\n    log.info(f'{what}-begun')", "a.py"))


def test_every_reason_to_come_again_is_in_the_runbook() -> None:
    beginnings = re.findall(r"`([^`]+)`", _OPERATE.split("## 429", 1)[1].split("\n## ", 1)[0])
    assert [first for first in Prerequisite if not any(each in str(first) for each in beginnings)] == []
