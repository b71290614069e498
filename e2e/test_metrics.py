"""The figures of /metrics for caps with ledgers in the cluster are correct, and all of them are documented."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from e2e.api import api
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import list_ledgers
from e2e.namespaces import label, new_namespace
from e2e.pods import DONGLE, submit
from e2e.ports import Cluster, Site
from e2e.registering import register, unregister
from e2e.waiting import until

_ROOT = Path(__file__).parents[1]
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {dongles: FEW}}}
  hard: {example.com/dongle: 2}
"""
_WITHIN = 240.0  # seconds, until a ledger is active, counted, or has expired a reservation
_STALE = 120.0


@pytest.fixture
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gate's ledgers; its name is the label of namespaces under this case's cap."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture
def ledger_gate(site: Site, own: str, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate on this machine that watches the cluster with its ledgers there, registered."""
    with run_ledger_gate(site, tmp_path / "gate", {"dongles.yaml": _CAP.replace("FEW", own)}, own) as gate:
        yield gate


@pytest.fixture
def few(cluster: Cluster, namespace: str, own: str) -> str:
    """Label a namespace that may use two dongles."""
    label(cluster, namespace, {"dongles": own})
    return namespace


class Series:
    """The series of a gate as they are now."""

    def __init__(self, gate: GateProcess) -> None:
        samples = [sample for family in families(gate.metrics()) for sample in family.samples]
        self._values = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
        self.names = {each.name for each in samples if each.name.startswith("tallygate_")}

    def get(self, name: str, **labels: str) -> float:
        """Return the value of one; 0 if it is missing."""
        return self._values.get((f"tallygate_{name}", frozenset(labels.items())), 0.0)

    def cap(self, name: str, **labels: str) -> float:
        """Return the value of one for the only cap."""
        return self.get(name, cap="dongles", **labels)


def _until(what: str, is_so: Callable[[Series], bool], gate: GateProcess) -> None:
    """Wait until the metrics show it: they are written after the request has been answered."""
    until(what, lambda: is_so(Series(gate)), _WITHIN, gate.metrics)


def _until_created(site: Site, namespace: str, name: str) -> None:
    """Retry for as long as the gate says so, as while a ledger is counted."""
    until(f"{name} is accepted", lambda: submit(site, namespace, name).is_done, _WITHIN)


def _read_used(cluster: Cluster, own: str, namespace: str) -> dict[str, str]:
    """Return the used amounts of the ledger object of a namespace."""
    (found,) = [each for each in list_ledgers(cluster, own) if each["spec"]["namespace"] == namespace]
    used: dict[str, str] = found["status"]["used"]
    return used


def _is_each_rejection_counted(gate: GateProcess) -> bool:
    """Return whether one rejection is for an exceeded cap, and the others are as many as the log has with `retry`."""
    series, lines = Series(gate), [json.loads(line) for line in gate.log().splitlines()]
    waits = ("initializing", "stale-namespaces", "uncounted-namespaces", "uncounted-resources", "uncounted-pods")
    busy = sum(line.get("verdict") == "retry" for line in lines)
    counted = sum(series.cap("cap_rejections_total", reason=reason) for reason in waits)
    return (series.cap("cap_rejections_total", reason="excess"), counted) == (1, busy)


def test_after_a_rejected_create_the_metrics_are_correct(
    site: Site, own: str, few: str, ledger_gate: GateProcess
) -> None:
    _until_created(site, few, "first")
    _until_created(site, few, "second")
    until("there is no room for a third", lambda: "(TG201" in submit(site, few, "third").rejection, _WITHIN)
    until("each refusal is counted", lambda: _is_each_rejection_counted(ledger_gate), _WITHIN, ledger_gate.log)
    series = Series(ledger_gate)
    assert series.cap("cap_used", resource=DONGLE) + series.cap("cap_reserved", resource=DONGLE) == 2
    _until("both are counted", lambda series: series.cap("cap_reservations_max") == 0, ledger_gate)
    series = Series(ledger_gate)
    assert series.cap("cap_used", resource=DONGLE) == series.cap("cap_hard", resource=DONGLE) == 2
    assert series.cap("cap_ledgers", state="full") == 1
    assert series.cap("cap_utilization_ratio", resource=DONGLE, cap_namespace=few, cap_group="") == 1
    assert _read_used(site.cluster, own, few) == {DONGLE: "2"}
    assert series.get("ledger_write_duration_seconds_count", result="stored") >= 2
    assert series.get("ledger_batch_size_sum") >= series.get("ledger_batch_size_count") >= 2
    assert series.cap("ledger_drift_total") == 0
    assert series.get("leader") == 1
    for resource in ("pods", "namespaces", "nodes"):
        assert series.get("watch_age_seconds", resource=resource) < _STALE
        assert series.get("watch_objects", resource=resource) > 0
    page = (_ROOT / "docs" / "operate" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(tallygate_\w+)`", page, re.MULTILINE))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in series.names - documented} <= documented


def test_a_pod_that_bypasses_the_gate_is_reported_as_drift(site: Site, few: str, ledger_gate: GateProcess) -> None:
    _until_created(site, few, "first")
    _until("it is counted", lambda series: series.cap("cap_used", resource=DONGLE) == 1, ledger_gate)
    unregister(site.cluster)
    assert submit(site, few, "past", "3").is_done
    _until("it is counted too", lambda series: series.cap("cap_used", resource=DONGLE) == 4, ledger_gate)
    register(site.cluster, ledger_gate)
    _until("it is reported", lambda series: series.cap("ledger_drift_total") > 0, ledger_gate)
    until("it is logged", lambda: bool(_drifts(ledger_gate)), _WITHIN, ledger_gate.log)
    series = Series(ledger_gate)
    assert series.cap("ledger_drift_total") == 1
    assert series.cap("cap_ledgers", state="exceeded") == 1
    (line,) = _drifts(ledger_gate)
    assert (line["cap"], line["namespace"], line["amounts"]) == ("dongles", few, {DONGLE: "3"})


def _drifts(gate: GateProcess) -> list[dict[str, Any]]:
    return [json.loads(each) for each in gate.log().splitlines() if "ledger-drift" in each]


def test_reservations_of_pods_that_are_rejected_after_the_gate_expire(
    site: Site, few: str, ledger_gate: GateProcess
) -> None:
    ours, quotas = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{few}/resourcequotas"
    _until_created(site, few, "first")
    ours.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "1"}}})
    used = {"pods": "1"}
    until("it is used up", lambda: ours.get(f"{quotas}/none").get("status", {}).get("used") == used, _WITHIN)
    _until("it is counted", lambda series: series.cap("cap_reservations_max") == 0, ledger_gate)
    until("the quota refuses one", lambda: "exceeded quota" in submit(site, few, "second").rejection, _WITHIN)
    series = Series(ledger_gate)
    assert series.cap("cap_reserved", resource=DONGLE) + series.get("reservations_expired_total") == 1
    _until("the reservation expires", lambda series: series.get("reservations_expired_total") == 1, ledger_gate)
    _until("its amount is free", lambda series: series.cap("cap_reserved", resource=DONGLE) == 0, ledger_gate)
