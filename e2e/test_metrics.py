"""What /metrics says of caps whose ledgers are kept in the cluster is so, and all of it is documented."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from e2e.api import api
from e2e.beside import keeping_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import ledgers_of
from e2e.namespaces import label, new_namespace
from e2e.pods import DONGLE, sent
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
_WITHIN = 240.0  # seconds, until a ledger is open, counted, or has dropped a promise
_STALE = 120.0


@pytest.fixture
def own(cluster: Cluster) -> Iterator[str]:
    """The namespace of the gate's ledgers, by whose name namespaces under its cap are labelled, and no case's else."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture
def kept(site: Site, own: str, tmp_path: Path) -> Iterator[GateProcess]:
    """A gate on this machine that follows the cluster and keeps its ledgers there, registered."""
    with keeping_gate(site, tmp_path / "gate", {"dongles.yaml": _CAP.replace("FEW", own)}, own) as gate:
        yield gate


@pytest.fixture
def few(cluster: Cluster, namespace: str, own: str) -> str:
    """A namespace that may have two dongles."""
    label(cluster, namespace, {"dongles": own})
    return namespace


class Told:
    """The series of a gate as they are now."""

    def __init__(self, gate: GateProcess) -> None:
        samples = [sample for family in families(gate.metrics()) for sample in family.samples]
        self._values = {(each.name, frozenset(each.labels.items())): each.value for each in samples}
        self.names = {each.name for each in samples if each.name.startswith("tallygate_")}

    def of(self, name: str, **labels: str) -> float:
        """The value of one; 0 where there is none."""
        return self._values.get((f"tallygate_{name}", frozenset(labels.items())), 0.0)

    def cap(self, name: str, **labels: str) -> float:
        """The same, of the only cap."""
        return self.of(name, cap="dongles", **labels)


def _until(what: str, is_so: Callable[[Told], bool], gate: GateProcess) -> None:
    """Wait until the figures say it: they are written after what they are about has been answered."""
    until(what, lambda: is_so(Told(gate)), _WITHIN, gate.metrics)


def _until_created(site: Site, namespace: str, name: str) -> None:
    """Come again for as long as the gate says so, as while a ledger is counted."""
    until(f"{name} is let in", lambda: sent(site, namespace, name).is_done, _WITHIN)


def _tally(cluster: Cluster, own: str, namespace: str) -> dict[str, str]:
    """What the ledger object of a namespace says is held."""
    (found,) = [each for each in ledgers_of(cluster, own) if each["spec"]["namespace"] == namespace]
    tally: dict[str, str] = found["status"]["used"]
    return tally


def _is_each_refusal_counted(gate: GateProcess) -> bool:
    """Whether one is for want of room, and the others are as many as the log has that asked for patience."""
    told, lines = Told(gate), [json.loads(line) for line in gate.log().splitlines()]
    waits = ("initializing", "stale-namespaces", "uncounted-namespaces", "uncounted-resources", "uncounted-pods")
    busy = sum(line.get("verdict") == "retry" for line in lines)
    counted = sum(told.cap("cap_rejections_total", reason=reason) for reason in waits)
    return (told.cap("cap_rejections_total", reason="excess"), counted) == (1, busy)


def test_after_a_refused_create_the_figures_are_true(site: Site, own: str, few: str, kept: GateProcess) -> None:
    _until_created(site, few, "first")
    _until_created(site, few, "second")
    until("there is no room for a third", lambda: "(TG201" in sent(site, few, "third").refusal, _WITHIN)
    until("each refusal is counted", lambda: _is_each_refusal_counted(kept), _WITHIN, kept.log)
    told = Told(kept)
    assert told.cap("cap_used", resource=DONGLE) + told.cap("cap_reserved", resource=DONGLE) == 2
    _until("both are counted", lambda told: told.cap("cap_reservations") == 0, kept)
    told = Told(kept)
    assert told.cap("cap_used", resource=DONGLE) == told.cap("cap_hard", resource=DONGLE) == 2
    assert told.cap("cap_ledgers", state="full") == 1
    assert told.cap("cap_utilization_ratio", resource=DONGLE, cap_namespace=few) == 1
    assert _tally(site.cluster, own, few) == {DONGLE: "2"}
    assert told.of("ledger_write_duration_seconds_count", result="stored") >= 2
    assert told.of("ledger_batch_size_sum") >= told.of("ledger_batch_size_count") >= 2
    assert told.cap("ledger_drift_total") == 0
    assert told.of("leader") == 1
    for resource in ("pods", "namespaces", "nodes"):
        assert told.of("watch_age_seconds", resource=resource) < _STALE
        assert told.of("watch_objects", resource=resource) > 0
    documented = set(re.findall(r"^\| `(tallygate_\w+)`", (_ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in told.names - documented} <= documented


def test_a_pod_that_comes_past_the_gate_is_told_as_drift(site: Site, few: str, kept: GateProcess) -> None:
    _until_created(site, few, "first")
    _until("it is counted", lambda told: told.cap("cap_used", resource=DONGLE) == 1, kept)
    unregister(site.cluster)
    assert sent(site, few, "past", "3").is_done
    _until("it is counted too", lambda told: told.cap("cap_used", resource=DONGLE) == 4, kept)
    register(site.cluster, kept)
    _until("it is told", lambda told: told.cap("ledger_drift_total") > 0, kept)
    until("it is logged", lambda: bool(_drifts(kept)), _WITHIN, kept.log)
    told = Told(kept)
    assert told.cap("ledger_drift_total") == 1
    assert told.cap("ledger_drift_last", resource=DONGLE) == 3
    assert told.cap("cap_ledgers", state="exceeded") == 1
    (line,) = _drifts(kept)
    assert (line["cap"], line["namespace"], line["amounts"]) == ("dongles", few, {DONGLE: "3"})


def _drifts(gate: GateProcess) -> list[dict[str, Any]]:
    return [json.loads(each) for each in gate.log().splitlines() if "ledger-drift" in each]


def test_promises_to_pods_that_are_refused_behind_the_gate_expire(site: Site, few: str, kept: GateProcess) -> None:
    ours, quotas = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{few}/resourcequotas"
    _until_created(site, few, "first")
    ours.create(quotas, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "1"}}})
    used = {"pods": "1"}
    until("it is used up", lambda: ours.get(f"{quotas}/none").get("status", {}).get("used") == used, _WITHIN)
    _until("it is counted", lambda told: told.cap("cap_reservations") == 0, kept)
    until("the quota refuses one", lambda: "exceeded quota" in sent(site, few, "second").refusal, _WITHIN)
    told = Told(kept)
    assert told.cap("cap_reserved", resource=DONGLE) + told.of("reservations_expired_total") == 1
    _until("the promise is dropped", lambda told: told.of("reservations_expired_total") == 1, kept)
    _until("its room is free", lambda told: told.cap("cap_reserved", resource=DONGLE) == 0, kept)
