"""The Grafana dashboard as JSON."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.deploy.panels import ROWS, Panel

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
# A variable instead of an input at import: a dashboard from a ConfigMap is loaded without a user who answers.
_STORE: Final = {
    "name": "datasource",
    "label": "Data source",
    "type": "datasource",
    "query": "prometheus",
    "refresh": 1,
}
_LEGEND: Final = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []}
_WIDTH, _HEIGHT = 8, 8
_ACROSS = 24


def render_dashboard() -> str:
    """Return the dashboard as JSON, as Grafana imports it (schema 39: Grafana 10 and newer)."""
    content = {
        "uid": "tallygate",
        "title": "tallygate",
        "description": "Made by `python -m tests.deploy.generate`; docs/operate/metrics.md describes each metric.",
        "tags": ["tallygate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_STORE, _variable("cap"), _variable("resource")]},
        "panels": list(_panels()),
    }
    return json.dumps(content, indent=1) + "\n"


def _variable(label: str) -> dict[str, Any]:
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values(tallygate_cap_hard, {label})",
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
        "sort": 1,
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Yield rows one below the other, and panels from left to right."""
    number, top = 0, 0
    for row in ROWS:
        number += 1
        place = {"x": 0, "y": top, "w": _ACROSS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top += 1
        for index, panel in enumerate(row.panels):
            number += 1
            down, across = divmod(index * _WIDTH, _ACROSS)
            yield _graph(number, panel, {"x": across, "y": top + down * _HEIGHT, "w": _WIDTH, "h": _HEIGHT})
        top += -(-len(row.panels) * _WIDTH // _ACROSS) * _HEIGHT


def _graph(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
        for index, (legend, expression) in enumerate(panel.lines.items())
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": targets,
    }
