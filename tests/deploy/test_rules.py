"""deploy/prometheus: the rules read metrics of the gate, and every alert is explained."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallygate.server.telemetry.metrics import REASONS
from tests.deploy.generate import ROOT
from tests.deploy.panels import ROWS
from tests.deploy.prometheus import find_promtool
from tests.deploy.promql import Series, find_series
from tests.deploy.relay_metrics import find_empty_selectors, list_relay_metrics
from tests.server.all_metrics import list_metrics

RULES = ROOT / "deploy" / "prometheus" / "tallygate.yaml"
ALERT_CASES = Path(__file__).parent / "rules" / "alerts.yaml"
GROUPS = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALL_RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
RECORDING_NAMES = {rule["record"] for rule in ALL_RULES if "record" in rule}
ALERTS = [rule for rule in ALL_RULES if "alert" in rule]


def find_unknown_series(expression: str) -> list[Series]:
    """Return the series of an expression whose metric, recording or label does not exist."""
    recorded = {name: frozenset(name.split(":")[0].split("_")) for name in RECORDING_NAMES}
    found = list(find_series(expression))
    of_relays = list_relay_metrics() if any(each.name.startswith("haproxy_") for each in found) else {}
    known = {**list_metrics(), **recorded, **of_relays}
    return [each for each in found if each.name not in known or not each.labels <= known[each.name]]


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.get("record") or rule["alert"])
def test_a_rule_reads_existing_metrics(rule: dict[str, Any]) -> None:
    assert list(find_series(rule["expr"]))
    assert find_unknown_series(rule["expr"]) == []
    assert find_empty_selectors(rule["expr"]) == []


def test_an_unknown_metric_of_a_relay_is_found() -> None:
    expression = 'haproxy_server_status{proxy="any_gate",serve="own"} or haproxy_gone'
    assert [each.name for each in find_unknown_series(expression)] == ["haproxy_server_status", "haproxy_gone"]


@pytest.mark.parametrize(
    ("selector", "empty"),
    [
        ('haproxy_server_status{proxy="any_gate",server="own",state="UP"}', []),
        ('haproxy_server_status{proxy="any_gate",server=~"own|peer",state!="UP"}', []),
        (
            'haproxy_server_status{proxy="any_gate",server="other"}',
            ['haproxy_server_status{proxy="any_gate",server="other"}'],
        ),
        ('haproxy_server_status{proxy!~".*"}', ['haproxy_server_status{proxy!~".*"}']),
    ],
)
def test_a_selector_for_which_a_relay_has_no_series_is_found(selector: str, empty: list[str]) -> None:
    assert find_empty_selectors(f"sum({selector}) > 0") == empty


def test_the_page_has_the_relays_metrics_that_rules_and_the_dashboard_read_and_their_labels() -> None:
    page = (ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(haproxy_\w+)` \|([^|]*)\|", page, re.MULTILINE)
    documented = {name: frozenset(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert documented
    assert documented == {name: list_relay_metrics()[name] for name in documented}
    expressions = [rule["expr"] for rule in ALL_RULES]
    expressions += [text for row in ROWS for panel in row.panels for text in panel.lines.values()]
    read = {each.name for text in expressions for each in find_series(text) if each.name.startswith("haproxy_")}
    assert read == documented.keys()


def test_an_unknown_metric_is_found() -> None:
    expression = 'rate(tallygate_cap_rejections_total{cap="a", why="b"}[5m]) / tallygate_gone / a:tallygate_gone:sum'
    assert [each.name for each in find_unknown_series(expression)] == [
        "tallygate_cap_rejections_total",
        "tallygate_gone",
        "a:tallygate_gone:sum",
    ]


def test_the_reasons_that_rules_select_exist() -> None:
    selected = {
        each
        for rule in ALL_RULES
        if "tallygate_cap_rejections" in rule["expr"]
        for text in re.findall(r'reason[=!]~?"([^"]*)"', rule["expr"])
        for each in text.split("|")
    }
    assert selected
    assert selected <= REASONS


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_severity_and_a_description_and_is_documented(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}
    page = (ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
    assert f"| `{rule['alert']}` | {rule['labels']['severity']} |" in page


def test_names_of_rules_are_unique() -> None:
    names = [rule.get("record") or rule["alert"] for rule in ALL_RULES]
    assert len(set(names)) == len(names)


def test_every_alert_has_a_case() -> None:
    cases = yaml.safe_load(ALERT_CASES.read_text(encoding="utf-8"))["tests"]
    fires = {alert["alertname"] for case in cases for alert in case.get("alert_rule_test", ()) if "exp_alerts" in alert}
    assert fires == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "--lint=all", "--lint-fatal", str(RULES)), ("test", "rules", str(ALERT_CASES))],
    ids=["are valid", "fire as the cases expect"],
)
def test_promtool_confirms_that_the_rules(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([find_promtool(), *arguments], capture_output=True, text=True, check=False)  # noqa: S603  # found on PATH or built, no shell
    assert done.returncode == 0, done.stdout + done.stderr
