"""docs/metrics.md tells of every metric, with the labels that it has, and of none that there is not."""

import re
import subprocess
from pathlib import Path

from prometheus_client import generate_latest

from tests.deploy.prometheus import promtool
from tests.server.every_metric import every_metric, everything
from webhook.server.telemetry.ledger_metrics import MAX_FULLEST_EACH, MAX_FULLEST_TOTAL, LedgerState
from webhook.server.telemetry.metrics import MAX_CAPS, REASONS
from webhook.state.ledger.reserve import MAX_RESERVATIONS
from webhook.state.ports import WriteResult

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(tallygate_\w+)` \|([^|]*)\|", re.MULTILINE)
_REASON = re.compile(r"^\| `([a-z-]+)` \| ?\d* ?\|", re.MULTILINE)
_PART = re.compile(r"_(bucket|count|sum)$")


def there() -> dict[str, frozenset[str]]:
    """Every metric and its labels; of a histogram one name, without the label of its buckets."""
    found = every_metric()
    histograms = {name.removesuffix("_bucket") for name in found if name.endswith("_bucket")}
    whole = {name: _PART.sub("", name) if _PART.sub("", name) in histograms else name for name in found}
    return {whole[name]: labels - {"le"} for name, labels in found.items()}


def told() -> dict[str, frozenset[str]]:
    """Every metric that has a row, and the labels that stand there."""
    return {name: frozenset(re.findall(r"`(\w+)`", labels)) for name, labels in _ROW.findall(PAGE)}


def test_every_metric_has_a_row_with_its_labels_and_no_row_is_about_none() -> None:
    assert told() == there()


def test_by_prometheus_names_types_and_units_are_as_they_ought_to_be() -> None:
    asked = (promtool(), "check", "metrics")
    done = subprocess.run(asked, input=generate_latest(everything()), capture_output=True, check=False)  # noqa: S603  # found on PATH or built, no shell
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_metric_that_is_named_anywhere_in_the_page_is_there() -> None:
    named = set(re.findall(r"(?<!:)\btallygate_\w+(?!\w*:)", PAGE))
    assert named <= there().keys()


def test_every_reason_has_a_row() -> None:
    assert set(_REASON.findall(PAGE)) == REASONS


def test_every_state_of_a_ledger_and_every_end_of_a_write_is_explained() -> None:
    for value in (*LedgerState, *WriteResult):
        assert f"`{value.value}`" in PAGE


def test_the_bounds_are_those_of_the_code() -> None:
    assert f"up to {MAX_CAPS} caps have series of their own" in PAGE
    assert f"the fullest: {MAX_FULLEST_EACH} of each cap and resource, and {MAX_FULLEST_TOTAL} in all" in PAGE
    assert f"in one ledger: {MAX_RESERVATIONS:,};" in PAGE
