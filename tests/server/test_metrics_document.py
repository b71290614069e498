"""docs/operate/metrics.md documents every metric with its labels, and no other metric."""

import re
import subprocess
from pathlib import Path

from prometheus_client import generate_latest

from tallygate.server.telemetry.ledger_metrics import MAX_FULLEST_EACH, MAX_FULLEST_TOTAL, LedgerState
from tallygate.server.telemetry.metrics import MAX_CAPS, REASONS
from tallygate.state.ledger.reserve import MAX_RESERVATIONS
from tallygate.state.ports import WriteResult
from tests.deploy.prometheus import find_promtool
from tests.server.all_metrics import create_registry, list_metrics

_ROOT = Path(__file__).parents[2]
PAGE = (_ROOT / "docs" / "operate" / "metrics.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(tallygate_\w+)` \|([^|]*)\|", re.MULTILINE)
_REASON = re.compile(r"^\| `([a-z-]+)` \| ?\d* ?\|", re.MULTILINE)
_PART = re.compile(r"_(bucket|count|sum)$")


def list_whole_metrics() -> dict[str, frozenset[str]]:
    """Return every metric and its labels; a histogram has one name, without the label of its buckets."""
    found = list_metrics()
    histograms = {name.removesuffix("_bucket") for name in found if name.endswith("_bucket")}
    whole = {name: _PART.sub("", name) if _PART.sub("", name) in histograms else name for name in found}
    return {whole[name]: labels - {"le"} for name, labels in found.items()}


def list_documented_metrics() -> dict[str, frozenset[str]]:
    """Return every metric that has a row, and the labels of the row."""
    return {name: frozenset(re.findall(r"`(\w+)`", labels)) for name, labels in _ROW.findall(PAGE)}


def test_every_metric_has_a_row_with_its_labels_and_every_row_a_metric() -> None:
    assert list_documented_metrics() == list_whole_metrics()


def test_prometheus_accepts_names_types_and_units() -> None:
    command = (find_promtool(), "check", "metrics")
    done = subprocess.run(command, input=generate_latest(create_registry()), capture_output=True, check=False)  # noqa: S603  # found on PATH or built, no shell
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_metric_that_the_page_names_exists() -> None:
    named = set(re.findall(r"(?<!:)\btallygate_\w+(?!\w*:)", PAGE))
    assert named <= list_whole_metrics().keys()


_LISTS = frozenset({"metrics.md", "changelog.md", "upgrade.md"})
_READ_BY_DOCTOR = frozenset({"tallygate_policy_rules", "tallygate_policy_caps"})
"""The metrics that nothing but the checks `policies` and `ledgers` of doctor reads."""


def test_every_metric_is_used_in_a_rule_or_a_panel_or_a_step_of_a_page() -> None:
    pages = [path for path in (_ROOT / "docs").rglob("*.md") if path.name not in _LISTS]
    files = [_ROOT / "deploy" / "prometheus" / "tallygate.yaml", _ROOT / "deploy" / "grafana" / "tallygate.json"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*pages, *files))
    used = {_PART.sub("", name) for name in re.findall(r"\btallygate_\w+", text)}
    assert list_whole_metrics().keys() - used == _READ_BY_DOCTOR


def test_every_reason_has_a_row() -> None:
    assert set(_REASON.findall(PAGE)) == REASONS


def test_every_state_of_a_ledger_and_every_result_of_a_write_is_explained() -> None:
    for value in (*LedgerState, *WriteResult):
        assert f"`{value.value}`" in PAGE


def test_the_limits_are_those_of_the_code() -> None:
    assert f"up to {MAX_CAPS} caps have series of their own" in PAGE
    assert f"the fullest: {MAX_FULLEST_EACH} of each cap and resource, and {MAX_FULLEST_TOTAL} in all" in PAGE
    assert f"in one ledger: {MAX_RESERVATIONS:,};" in PAGE
