"""deploy/grafana: every panel shows what there is, by labels that there are, and covers no other."""

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import grafana
from tests.deploy.dashboard import dashboard
from tests.deploy.prometheus import promtool
from tests.deploy.promql import series
from tests.deploy.test_rules import EVERY, RECORDED, unknown
from tests.server.every_metric import every_metric

MADE: dict[str, Any] = json.loads(dashboard())
PANELS: list[dict[str, Any]] = [panel for panel in MADE["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_is_made_from_what_there_is(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert list(series(target["expr"])), target["expr"]
        assert unknown(target["expr"]) == []


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_the_series_have(panel: dict[str, Any]) -> None:
    of_scrape = {"instance"}
    for target in panel["targets"]:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        first = next(iter(series(target["expr"]))).name
        labels = set(first.split(":")[0].split("_")) if first in RECORDED else set(every_metric()[first])
        assert named <= labels | of_scrape


def test_panels_have_ids_of_their_own_and_do_not_cover_each_other() -> None:
    assert len({panel["id"] for panel in MADE["panels"]}) == len(MADE["panels"])
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in MADE["panels"])
        for x, y in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24


def test_by_prometheus_every_expression_is_promql(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": each.replace("$", "")} for number, each in enumerate(_targets())]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML too
    done = subprocess.run([promtool(), "check", "rules", str(file)], capture_output=True, text=True, check=False)  # noqa: S603  # found on PATH or built, no shell
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_variable_is_there_and_used() -> None:
    there = {each["name"] for each in MADE["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(MADE["panels"])))
    assert there == used


def test_every_panel_has_a_unit_that_grafana_knows() -> None:
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS} <= grafana.UNITS


def test_by_grafana_everything_has_a_name_and_a_type_that_it_knows() -> None:
    read = grafana.read(MADE)
    assert list(grafana.misfits(read)) == []
    assert list(grafana.lost(MADE, grafana.written(read))) == []


def test_by_grafana_a_graph_lacks_no_option() -> None:
    again = grafana.written(grafana.read(MADE))
    assert [panel["options"] for panel in again["panels"] if panel["type"] != "row"] == [
        panel["options"] for panel in PANELS
    ]


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("panels", 1, "options", "legend", "placment"), "right", "panels[1].options.legend.placment is unknown"),
        (("panels", 1, "fieldConfig", "defaults", "mn"), 0, "panels[1].fieldConfig.defaults.mn is unknown"),
        (("panels", 1, "targets", 0, "legend"), "{{phase}}", "panels[1].targets[0].legend is unknown"),
    ],
)
def test_what_grafana_does_not_know_is_found(at: tuple[str | int, ...], value: object, said: str) -> None:
    other = _with(at, value)
    assert list(grafana.lost(other, grafana.written(grafana.read(other)))) == [said]


@pytest.mark.parametrize(
    ("at", "value", "said"),
    [
        (("panels", 1, "options", "tooltip", "mode"), "all", "panels[1].options.tooltip.mode is 'all'"),
        (("panels", 1, "fieldConfig", "defaults", "min"), "0", "panels[1].field_config.defaults.min_val is '0'"),
        (("templating", "list", 1, "refresh"), 3, "templating.list_val[1].refresh is 3"),
        (("refresh",), 30, "refresh is 30"),
    ],
)
def test_what_is_of_another_type_is_found(at: tuple[str | int, ...], value: object, said: str) -> None:
    assert list(grafana.misfits(grafana.read(_with(at, value)))) == [said]


def _with(at: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """The dashboard with another value somewhere."""
    other: dict[str, Any] = json.loads(dashboard())
    *path, last = at
    place: Any = other
    for step in path:
        place = place[step]
    place[last] = value
    return other


def test_nothing_is_recorded_that_no_panel_and_no_other_rule_uses() -> None:
    used = {each.name for target in _targets() for each in series(target)}
    used |= {each.name for rule in EVERY for each in series(rule["expr"])}
    assert RECORDED - used == set()


def _targets() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]
