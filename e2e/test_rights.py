"""The gate with the rights of its own ServiceAccount, and nothing more: it follows, counts, promises and settles."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.beside import keeping_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers
from e2e.pods import create, stored
from e2e.ports import Cluster, Site
from e2e.said import said
from e2e.service_account import gates_account
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 240.0  # seconds
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {selector: {matchLabels: {dongles: few}}}
  hard: {example.com/dongle: 2}
"""


@pytest.fixture
def following(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """A gate that follows the cluster as its ServiceAccount and keeps its ledgers there; with a cap of two dongles."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess):
        pytest.skip("it is about a gate of its own, beside the one of the site")
    define_ledgers(cluster)
    kubeconfig = gates_account(cluster, tmp_path, "followed")
    said(cluster, "delete", "leases", "--all", f"--namespace={_OWN}")  # of gates that others have killed
    with keeping_gate(site, tmp_path / "gate", {"dongles.yaml": _CAP}, _OWN, kubeconfig) as gate:
        yield gate


def _ledgers(cluster: Cluster) -> list[dict[str, Any]]:
    listed = json.loads(said(cluster, "get", "capledgers", f"--namespace={_OWN}", "--output=json"))
    items: list[dict[str, Any]] = listed["items"]
    return items


def test_caps_hold_settle_and_outlive_a_restart_with_the_rights_of_the_service_account_alone(
    site: Site, namespace: str, following: GateProcess
) -> None:
    cluster = site.cluster
    said(cluster, "label", "namespace", namespace, "dongles=few")
    until("the first pod is let in", lambda: create(site, namespace, "first").returncode == 0, _WITHIN)
    until("so is the second", lambda: create(site, namespace, "second").returncode == 0, _WITHIN)
    until("both are counted", lambda: "holds 2 of 2" in create(site, namespace, "third").stderr, _WITHIN)
    said(cluster, "delete", "pod", "first", f"--namespace={namespace}", "--wait")
    until("room comes back", lambda: create(site, namespace, "third").returncode == 0, _WITHIN)
    following.stop()
    following.start()
    full = "cap dongles of this namespace holds"
    until("it is full as before", lambda: full in create(site, namespace, "fourth").stderr, _WITHIN)
    assert stored(site, namespace) == {"second", "third"}
    assert any(each["spec"]["namespace"] == namespace for each in _ledgers(cluster))
    assert "forbidden" not in following.log().lower()
    until("it keeps the ledgers", lambda: _leases_check(following) == {"ready": True, "keeps": True}, _WITHIN)
    followed = following.readiness()["checks"]["cluster"]
    names = ("pods", "namespaces", "nodes", "resourcequotas", "deviceclasses")
    assert all("stale" not in followed[name] for name in names)


def test_of_two_replicas_one_keeps_the_ledgers_and_the_other_takes_over_when_it_leaves(
    following: GateProcess, tmp_path: Path, site: Site
) -> None:
    def keeps(gate: GateProcess) -> bool:
        return bool(_leases_check(gate)["keeps"])

    until("the first keeps", lambda: keeps(following), _WITHIN)
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--ledgers=kubernetes")
    other = GateProcess(tmp_path / "other", arguments=arguments)
    other.start()
    try:
        until("both have said that they are there", lambda: len(_leases(site.cluster)) == 3, _WITHIN)
        until("the first goes on", lambda: (keeps(following), keeps(other)) == (True, False), _WITHIN)
        following.stop()
        until("the other keeps", lambda: keeps(other), _WITHIN)
        following.start()
        until("both are there again", lambda: len(_leases(site.cluster)) == 3, _WITHIN)
        until("the other goes on", lambda: (keeps(following), keeps(other)) == (False, True), _WITHIN)
        other.kill()
        until("the first keeps again, though nobody has told it", lambda: keeps(following), _WITHIN)
    finally:
        other.stop()


def _leases_check(gate: GateProcess) -> dict[str, Any]:
    found: dict[str, Any] = gate.readiness()["checks"]["leases"]
    return found


def _leases(cluster: Cluster) -> list[str]:
    return said(cluster, "get", "leases", f"--namespace={_OWN}", "--output=name").split()
