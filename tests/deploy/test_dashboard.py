"""deploy/grafana: every panel shows existing metrics by existing labels, and panels do not overlap."""

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import grafana
from tests.deploy.dashboard import render_dashboard
from tests.deploy.prometheus import find_promtool
from tests.deploy.promql import find_series
from tests.deploy.relay_metrics import find_empty_selectors, list_relay_metrics
from tests.deploy.test_rules import ALL_RULES, RECORDING_NAMES, find_unknown_series
from tests.server.all_metrics import list_metrics

DASHBOARD: dict[str, Any] = json.loads(render_dashboard())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_shows_existing_metrics(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert list(find_series(target["expr"])), target["expr"]
        assert find_unknown_series(target["expr"]) == []
        assert find_empty_selectors(target["expr"]) == []


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_the_series_have(panel: dict[str, Any]) -> None:
    scrape_labels = {"instance"}
    for target in panel["targets"]:
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        first = next(iter(find_series(target["expr"]))).name
        if first in RECORDING_NAMES:
            labels = set(first.split(":")[0].split("_"))
        else:
            labels = set((list_relay_metrics() if first.startswith("haproxy_") else list_metrics())[first])
        assert named <= labels | scrape_labels


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    covered = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x, y in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24


def test_prometheus_accepts_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": each.replace("$", "")} for number, each in enumerate(_list_expressions())
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML too
    done = subprocess.run([find_promtool(), "check", "rules", str(file)], capture_output=True, text=True, check=False)  # noqa: S603  # found on PATH or built, no shell
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_every_variable_is_defined_and_used() -> None:
    defined = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert defined == used


def test_every_panel_has_a_unit_that_grafana_knows() -> None:
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in PANELS} <= grafana.UNITS


def test_grafana_knows_every_name_and_type() -> None:
    read = grafana.parse_dashboard(DASHBOARD)
    assert list(grafana.find_type_errors(read)) == []
    assert list(grafana.find_lost_fields(DASHBOARD, grafana.serialize_dashboard(read))) == []


def test_a_graph_sets_every_option_that_grafana_has() -> None:
    serialized = grafana.serialize_dashboard(grafana.parse_dashboard(DASHBOARD))
    assert [panel["options"] for panel in serialized["panels"] if panel["type"] != "row"] == [
        panel["options"] for panel in PANELS
    ]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("panels", 1, "options", "legend", "placment"), "right", "panels[1].options.legend.placment is unknown"),
        (("panels", 1, "fieldConfig", "defaults", "mn"), 0, "panels[1].fieldConfig.defaults.mn is unknown"),
        (("panels", 1, "targets", 0, "legend"), "{{phase}}", "panels[1].targets[0].legend is unknown"),
    ],
)
def test_a_name_that_grafana_does_not_know_is_found(path: tuple[str | int, ...], value: object, message: str) -> None:
    changed = _replace(path, value)
    assert list(grafana.find_lost_fields(changed, grafana.serialize_dashboard(grafana.parse_dashboard(changed)))) == [
        message
    ]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("panels", 1, "options", "tooltip", "mode"), "all", "panels[1].options.tooltip.mode is 'all'"),
        (("panels", 1, "fieldConfig", "defaults", "min"), "0", "panels[1].field_config.defaults.min_val is '0'"),
        (("templating", "list", 1, "refresh"), 3, "templating.list_val[1].refresh is 3"),
        (("refresh",), 30, "refresh is 30"),
    ],
)
def test_a_value_of_another_type_is_found(path: tuple[str | int, ...], value: object, message: str) -> None:
    assert list(grafana.find_type_errors(grafana.parse_dashboard(_replace(path, value)))) == [message]


def _replace(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    """Return the dashboard with another value at this path."""
    changed: dict[str, Any] = json.loads(render_dashboard())
    *parents, last = path
    place: Any = changed
    for step in parents:
        place = place[step]
    place[last] = value
    return changed


def test_every_recording_is_used_by_a_panel_or_a_rule() -> None:
    used = {each.name for target in _list_expressions() for each in find_series(target)}
    used |= {each.name for rule in ALL_RULES for each in find_series(rule["expr"])}
    assert RECORDING_NAMES - used == set()


def _list_expressions() -> list[str]:
    return [target["expr"] for panel in PANELS for target in panel["targets"]]
