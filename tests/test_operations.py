"""docs/operate/runbook.md and docs/operate/security.md: their statements about code, metrics, alerts and tests."""

import ast
import re
from pathlib import Path

import pytest

from tallygate.state.ledger.reserve import Prerequisite
from tests.logged_events import find_events, list_logged_events
from tests.server.all_metrics import list_metrics

_ROOT = Path(__file__).parents[1]
_DOCS = _ROOT / "docs"
_OPERATE = (_DOCS / "operate" / "runbook.md").read_text()
_SECURITY = (_DOCS / "operate" / "security.md").read_text()
_CASE = re.compile(r"`((?:tests|e2e)/[\w/]+\.py)(?:::(test_\w+))?`")


def _list_functions(path: str) -> set[str]:
    """Return the names of the functions in a file."""
    tree = ast.parse((_ROOT / path).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


@pytest.mark.parametrize("page", [_OPERATE, _SECURITY], ids=["operate", "security"])
def test_every_case_that_a_page_names_exists(page: str) -> None:
    cases = _CASE.findall(page)
    assert cases
    assert [
        case
        for case in cases
        if not (_ROOT / case[0]).is_file() or (case[1] and case[1] not in _list_functions(case[0]))
    ] == []


def test_each_row_of_a_table_with_cases_names_one() -> None:
    without_case: list[str] = []
    for table in re.findall(r"(?:^\|.*\n)+", _SECURITY, re.MULTILINE):
        header, _, *rows = table.splitlines()
        if header.endswith("| case |"):
            without_case += [row for row in rows if not re.search(r"(?:`|::)test_", row)]
    assert without_case == []


def test_every_evasion_test_is_in_the_security_page() -> None:
    documented = set(re.findall(r"`(test_\w+)`", _SECURITY))
    cases = {name for name in _list_functions("e2e/test_evasion.py") if name.startswith("test_")}
    assert documented >= cases
    assert documented <= cases | set(_list_functions("e2e/test_claims.py"))


def test_every_metric_of_the_runbook_exists() -> None:
    named = set(re.findall(r"tallygate_[a-z_]+[a-z]", _OPERATE))
    assert named
    assert {name for name in named if name not in list_metrics() and f"{name}_count" not in list_metrics()} == set()


def test_the_runbook_has_a_section_for_every_alert_and_no_other() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (_ROOT / "deploy" / "prometheus" / "tallygate.yaml").read_text()))
    seen = _OPERATE.split("## By what is seen", 1)[1].split("\n## ", 1)[0]
    assert set(re.findall(r"\bTallygate[A-Z]\w+(?=[^\n]*\]\(#)", seen)) == alerts
    assert set(re.findall(r"\bTallygate[A-Z]\w+", _OPERATE)) == alerts


def test_the_runbook_lists_every_log_event_with_its_levels_and_no_other() -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| ([a-z, ]+) \| [^|]+ \| [^|]+ \|$", _OPERATE, re.MULTILINE)
    documented = {
        event: set(levels.split(", ")) for events, levels in rows for event in re.findall(r"`([a-z-]+)`", events)
    }
    assert documented == list_logged_events()


def test_every_log_event_of_a_page_exists() -> None:
    way = re.compile(r"log lines? `([a-z-]+)`|`([a-z-]+)` in the log|the log\s+says (?:once )?\(?`([a-z-]+)`")
    found = (each for page in _DOCS.rglob("*.md") for each in way.findall(page.read_text()))
    named = {event for events in found for event in events if event}
    assert len(named) > 5
    assert named <= set(list_logged_events())


def test_every_form_of_logging_is_found() -> None:
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
    assert set(find_events(source, "a.py")) == found | {("half-broken", "warning"), ("half-broken", "error")}
    with pytest.raises(AssertionError, match=r"a\.py:2: .* write it out"):
        list(find_events("def f(log, what):\n    log.info(f'{what}-begun')", "a.py"))


def test_every_reason_of_a_429_is_in_the_runbook() -> None:
    beginnings = re.findall(r"`([^`]+)`", _OPERATE.split("## 429", 1)[1].split("\n## ", 1)[0])
    answered = set(Prerequisite) - {Prerequisite.READ_RECORD}  # the gate itself reads the record and tries again
    assert {first for first in answered if not any(each in str(first) for each in beginnings)} == set()
