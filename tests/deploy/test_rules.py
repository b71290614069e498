"""deploy/prometheus: what its rules are made from is what the gate tells, and every alert is explained."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.generate import ROOT
from tests.deploy.prometheus import promtool
from tests.deploy.promql import Series, series
from tests.server.every_metric import every_metric
from webhook.server.telemetry.metrics import REASONS

RULES = ROOT / "deploy" / "prometheus" / "tallygate.yaml"
PLAYED = Path(__file__).parent / "rules" / "alerts.yaml"
GROUPS = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
EVERY: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
RECORDED = {rule["record"] for rule in EVERY if "record" in rule}
ALERTS = [rule for rule in EVERY if "alert" in rule]


def unknown(expression: str) -> list[Series]:
    """What an expression names that there is not: a metric, a recording, or a label of one."""
    recorded = {name: frozenset(name.split(":")[0].split("_")) for name in RECORDED}
    there = {**every_metric(), **recorded}
    return [each for each in series(expression) if each.name not in there or not each.labels <= there[each.name]]


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.get("record") or rule["alert"])
def test_a_rule_is_made_from_what_there_is(rule: dict[str, Any]) -> None:
    assert list(series(rule["expr"]))
    assert unknown(rule["expr"]) == []


def test_what_there_is_not_is_found() -> None:
    told = 'rate(tallygate_cap_rejections_total{cap="a", why="b"}[5m]) / tallygate_gone / a:tallygate_gone:sum'
    assert [each.name for each in unknown(told)] == [
        "tallygate_cap_rejections_total",
        "tallygate_gone",
        "a:tallygate_gone:sum",
    ]


def test_the_reasons_that_rules_choose_by_are_reasons() -> None:
    chosen = {
        each
        for rule in EVERY
        if "tallygate_cap_rejections" in rule["expr"]
        for text in re.findall(r'reason[=!]~?"([^"]*)"', rule["expr"])
        for each in text.split("|")
    }
    assert chosen
    assert chosen <= REASONS


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description"}
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"| `{rule['alert']}` | {rule['labels']['severity']} |" in page


def test_names_of_rules_are_there_once() -> None:
    names = [rule.get("record") or rule["alert"] for rule in EVERY]
    assert len(set(names)) == len(names)


def test_every_alert_is_played() -> None:
    cases = yaml.safe_load(PLAYED.read_text(encoding="utf-8"))["tests"]
    fires = {alert["alertname"] for case in cases for alert in case.get("alert_rule_test", ()) if "exp_alerts" in alert}
    assert fires == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize(
    "asked",
    [("check", "rules", "--lint=all", "--lint-fatal", str(RULES)), ("test", "rules", str(PLAYED))],
    ids=["are such as Prometheus takes", "do what they say"],
)
def test_by_promtool_the_rules(asked: tuple[str, ...]) -> None:
    done = subprocess.run([promtool(), *asked], capture_output=True, text=True, check=False)  # noqa: S603  # found on PATH or built, no shell
    assert done.returncode == 0, done.stdout + done.stderr
