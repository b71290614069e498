"""What /metrics says of caps whose ledgers are kept in the cluster is so, and all of it is documented."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as families

from e2e.gates.process import GateProcess
from e2e.ledgers import forget_ledgers
from e2e.pods import DONGLE, create
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.registering import register, unregister
from e2e.waiting import until

_ROOT = Path(__file__).parents[1]
_DEFINITION = _ROOT / "deploy" / "kustomize" / "components" / "followed" / "crd.yaml"
_OWN = "metrics-gate"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  hard: {example.com/dongle: 2}
"""
_WITHIN = 60.0  # seconds, until a ledger is open, counted, or has dropped a promise
_STALE = 120.0


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def kept(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """A gate on this machine that follows the cluster and keeps its ledgers there, registered."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess):
        pytest.skip("it is about a gate of its own, beside the one of the site")
    _done(cluster, "create", "namespace", _OWN)
    _done(cluster, "apply", "--filename", str(_DEFINITION))
    _done(cluster, "wait", "--for=condition=Established", "--timeout=60s", "crd/capledgers.tallygate.dev")
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={cluster.kubeconfig}", "--ledgers=kubernetes")
    gate = GateProcess(tmp_path / "gate", arguments=(*arguments, f"--namespace={_OWN}", "--in-flight-bound=2s"))
    gate.write_policies(SHIPPED_FILES | {"dongles.yaml": _CAP})
    gate.start()
    try:
        register(cluster, gate)
        yield gate
        unregister(cluster)
    finally:
        gate.stop()
        forget_ledgers(cluster, _OWN)
        _done(cluster, "delete", "namespace", _OWN, "--wait")


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


def _tally(cluster: Cluster, namespace: str) -> dict[str, str]:
    """What the ledger object of a namespace says is held."""
    said = _done(cluster, "get", "capledgers", f"--namespace={_OWN}", "--output=json")
    (found,) = [each for each in json.loads(said)["items"] if each["spec"]["namespace"] == namespace]
    tally: dict[str, str] = found["status"]["tally"]
    return tally


def test_after_a_refused_create_the_figures_are_true(site: Site, namespace: str, kept: GateProcess) -> None:
    cluster = site.cluster
    _done(cluster, "label", "namespace", namespace, "dongles=few")
    until("the first pod is let in", lambda: create(site, namespace, "first").returncode == 0, _WITHIN)
    assert create(site, namespace, "second").returncode == 0
    refused = create(site, namespace, "third")
    assert "holds" in refused.stderr
    told = Told(kept)
    assert told.cap("cap_refusals_total", reason="excess") == 1
    waits = ("converging", "behind", "uncounted-namespaces", "uncounted-names", "uncounted-pods")
    busy = sum(json.loads(line).get("verdict") == "busy" for line in kept.log().splitlines())
    assert sum(told.cap("cap_refusals_total", reason=reason) for reason in waits) == busy
    assert told.cap("cap_held", resource=DONGLE) + told.cap("cap_promised", resource=DONGLE) == 2
    until("both are counted", lambda: Told(kept).cap("cap_rows") == 0, _WITHIN)
    told = Told(kept)
    assert told.cap("cap_held", resource=DONGLE) == told.cap("cap_hard", resource=DONGLE) == 2
    assert told.cap("cap_ledgers", state="full") == 1
    assert told.cap("cap_fullest_ratio", resource=DONGLE, cap_namespace=namespace) == 1
    assert _tally(cluster, namespace) == {DONGLE: "2"}
    assert told.of("ledger_write_seconds_count", end="stored") >= 2
    assert told.of("ledger_batch_size_sum") >= told.of("ledger_batch_size_count") >= 2
    assert told.cap("ledger_drifts_total") == 0
    assert told.of("ledger_keeper") == 1
    for resource in ("pods", "namespaces", "nodes"):
        assert told.of("watch_age_seconds", resource=resource) < _STALE
        assert told.of("watch_objects", resource=resource) > 0
    documented = set(re.findall(r"^\| `(tallygate_\w+)`", (_ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in told.names - documented} <= documented


def test_a_pod_that_comes_past_the_gate_is_told_as_drift(site: Site, namespace: str, kept: GateProcess) -> None:
    _done(site.cluster, "label", "namespace", namespace, "dongles=few")
    until("the first pod is let in", lambda: create(site, namespace, "first").returncode == 0, _WITHIN)
    until("it is counted", lambda: Told(kept).cap("cap_held", resource=DONGLE) == 1, _WITHIN)
    unregister(site.cluster)
    assert create(site, namespace, "past", "3").returncode == 0
    until("it is counted too", lambda: Told(kept).cap("cap_held", resource=DONGLE) == 4, _WITHIN)
    register(site.cluster, kept)
    told = Told(kept)
    assert told.cap("ledger_drifts_total") == 1
    assert told.cap("ledger_drift_last", resource=DONGLE) == 3
    assert told.cap("cap_ledgers", state="over") == 1
    (line,) = [json.loads(each) for each in kept.log().splitlines() if "ledger-drift" in each]
    assert (line["cap"], line["namespace"], line["amounts"]) == ("dongles", namespace, {DONGLE: "3"})


def test_promises_to_pods_that_are_refused_behind_the_gate_expire(
    site: Site, namespace: str, kept: GateProcess
) -> None:
    _done(site.cluster, "label", "namespace", namespace, "dongles=few")
    until("the first pod is let in", lambda: create(site, namespace, "first").returncode == 0, _WITHIN)
    _done(site.cluster, "create", "quota", "none", f"--namespace={namespace}", "--hard=pods=1")
    wait = ("wait", "--for=jsonpath={.status.used.pods}=1", "--timeout=60s", "resourcequota/none")
    _done(site.cluster, *wait, f"--namespace={namespace}")
    until("it is counted", lambda: Told(kept).cap("cap_rows") == 0, _WITHIN)
    assert "exceeded quota" in create(site, namespace, "second").stderr
    assert Told(kept).cap("cap_promised", resource=DONGLE) == 1
    until("the promise is dropped", lambda: Told(kept).of("promises_expired_total") == 1, 20, kept.metrics)
    assert Told(kept).cap("cap_promised", resource=DONGLE) == 0
