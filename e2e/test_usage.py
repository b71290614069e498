"""`tallygate usage` beside a gate with ledgers in the cluster: what it shows, and which faults it finds."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.api import api
from e2e.command_output import run_tallygate
from e2e.extra_gates import run_ledger_gate
from e2e.gates.process import GateProcess
from e2e.ledgers import get_ledgers_path, list_ledgers
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, pod, submit
from e2e.ports import Cluster, Site
from e2e.waiting import until

_ROOT = Path(__file__).parents[1]
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {include: ["case-*"]}
  hard: {example.com/dongle: 8}
  soft: {example.com/dongle: 2}
"""
_WITHIN = 240.0  # seconds, until a ledger is active or has been counted
_SECONDS = 240.0  # for a command of tallygate

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gate's ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module", autouse=True)
def ledger_gate(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate on this machine that watches the cluster with its ledgers there, registered."""
    with run_ledger_gate(site, tmp_path_factory.mktemp("gate") / "g", {"dongles.yaml": _CAP}, own) as gate:
        yield gate


@pytest.fixture
def tallygate(site: Site, ledger_gate: GateProcess) -> Run:
    """Return a function that runs a command of tallygate on the cluster, by the gate's policies."""

    def run(command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_tallygate(site.cluster, *_command(site.cluster, ledger_gate, command), *arguments)

    return run


@pytest.fixture
def three(site: Site, namespace: str, tallygate: Run) -> str:
    """Return a namespace in which three pods use a dongle each, which are counted."""
    for number in range(3):
        _until_created(site, namespace, f"pod-{number}")
    until("three are counted", lambda: _line(tallygate, namespace)["used"] == 3, _WITHIN)
    return namespace


def _command(cluster: Cluster, gate: GateProcess, command: str) -> list[str]:
    policies = [] if command == "snapshot" else ["--policies", str(gate.policies)]
    return [command, *policies, "--kubeconfig", str(cluster.kubeconfig)]


def _until_created(site: Site, namespace: str, name: str) -> None:
    """Retry as long as the gate says so: a ledger of a new namespace must be counted first."""
    until(f"{name} is created", lambda: submit(site, namespace, name).is_done, _WITHIN)


def _line(tallygate: Run, namespace: str, *source: str) -> dict[str, Any]:
    result = tallygate("usage", "--namespace", namespace, "-o", "json", *source)
    assert result.returncode == 0, result.stderr
    (line,) = json.loads(result.stdout)["items"]
    assert line["resource"] == DONGLE
    return dict(line)


def _ledger(cluster: Cluster, own: str, namespace: str) -> dict[str, Any]:
    """Return a namespace's CapLedger."""
    (found,) = [each for each in list_ledgers(cluster, own) if each["spec"]["namespace"] == namespace]
    return found


def _falsify(cluster: Cluster, own: str, namespace: str, ledger_used: int) -> None:
    path = f"{get_ledgers_path(own)}/{_ledger(cluster, own, namespace)['metadata']['name']}"
    api(cluster.kubeconfig).patch(path, {"status": {"used": {DONGLE: f"{ledger_used}"}}})


def test_usage_shows_what_pods_use_and_verify_finds_no_drift(tallygate: Run, three: str) -> None:
    until("reservations are settled", lambda: _line(tallygate, three)["reserved"] == 0, _WITHIN)
    line = _line(tallygate, three)
    assert {name: line[name] for name in ("cap", "namespace", "hard", "soft", "used", "free", "exceeded")} == {
        "cap": "dongles",
        "namespace": three,
        "hard": 8,
        "soft": 2,
        "used": 3,
        "free": 5,
        "exceeded": "soft",
    }
    assert line["countedAt"]
    table = tallygate("usage", "--namespace", three)
    assert table.stderr == ""
    assert "1 over soft" in table.stdout
    verified = tallygate("usage", "--verify", "--namespace", three)
    assert (verified.returncode, verified.stdout) == (0, "")
    assert verified.stderr == "1 ledger compared with the pods: no drift\n"


def test_explain_lists_the_pods_behind_a_number(tallygate: Run, three: str) -> None:
    result = tallygate("usage", "--explain", "dongles", "-n", three, "-o", "json")
    (found,) = json.loads(result.stdout)["items"]
    assert (found["used"], found["ledgerUsed"]) == (3, 3)
    assert [(each["pod"], each["amount"], each["calculation"]) for each in found["pods"]] == [
        (f"pod-{number}", 1, "container 1 = 1") for number in range(3)
    ]


def test_a_ledger_that_was_changed_by_hand_is_found(
    site: Site, own: str, ledger_gate: GateProcess, tallygate: Run, three: str
) -> None:
    for pod_used, ledger_used in ((3, 2), (4, 7)):
        until("reservations are settled", lambda: _line(tallygate, three)["reserved"] == 0, _WITHIN)
        with ledger_gate.freeze():  # it looks at its ledgers now and then, and would put this one right
            _falsify(site.cluster, own, three, ledger_used)
            found = tallygate("usage", "--verify", "--namespace", three, "-o", "json")
        assert found.returncode == 1, found.stdout + found.stderr
        (drift,) = json.loads(found.stdout)["items"]
        assert (drift["cap"], drift["resource"], drift["ledger"], drift["pods"]) == (
            "dongles",
            DONGLE,
            ledger_used,
            pod_used,
        )
        _until_created(site, three, f"another-{ledger_used}")
        until("the gate has put it right", partial(_has_used, tallygate, three, pod_used + 1), _WITHIN)
        until("it is right", lambda: tallygate("usage", "--verify", "--namespace", three).returncode == 0, _WITHIN)


def _has_used(tallygate: Run, namespace: str, dongles: int) -> bool:
    return bool(_line(tallygate, namespace)["used"] == dongles)


def test_the_used_amount_of_a_ledger_is_exactly_that_of_the_pods_at_its_revision(
    site: Site, own: str, three: str
) -> None:
    """List pods as they were then, as long as etcd still knows: so a ledger can be proven exactly."""
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{three}/pods"
    for number in range(3):
        ours.delete(f"{pods}/pod-{number}")
        ledger = _ledger(site.cluster, own, three)
        listed = ours.items(
            pods, resourceVersion=f"{ledger['status']['podsResourceVersion']}", resourceVersionMatch="Exact"
        )
        assert len(listed) == int(ledger["status"]["used"].get(DONGLE, 0))
        _until_created(site, three, f"other-{number}")


def test_a_deleted_namespace_leaves_its_ledger_which_is_reported(
    site: Site, ledger_gate: GateProcess, tallygate: Run, three: str
) -> None:
    def note() -> str:
        return next((line for line in tallygate("usage").stderr.splitlines() if "of deleted namespaces" in line), "")

    assert three not in note()
    with ledger_gate.freeze():  # no gate deletes the ledger
        api(site.cluster.kubeconfig).delete(f"/api/v1/namespaces/{three}")
        until("it is reported", lambda: three in note() or " more" in note(), _WITHIN)
    assert "of deleted namespaces" not in tallygate("usage", "--cap", "dongles").stderr


@pytest.fixture
def machine(cluster: Cluster) -> Iterator[str]:
    """Yield a node without a kubelet."""
    name = f"machine-{uuid4().hex[:8]}"
    api(cluster.kubeconfig).create("/api/v1/nodes", {"metadata": {"name": name}})
    yield name
    api(cluster.kubeconfig).delete(f"/api/v1/nodes/{name}")


def test_a_pod_that_is_being_deleted_is_still_counted_and_reported(
    site: Site, tallygate: Run, namespace: str, machine: str
) -> None:
    """Use a node without a kubelet: nothing ends the pod."""
    stays = pod(site, "stays")
    stays["spec"]["nodeName"] = machine
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{namespace}/pods"
    until("it is created", lambda: ours.ask("POST", pods, stays).is_done, _WITHIN)
    ours.delete(f"{pods}/stays")
    until("it is counted", lambda: _line(tallygate, namespace)["used"] == 1, _WITHIN)
    until("its end is seen", lambda: _line(tallygate, namespace)["terminating"] == 1, _WITHIN)
    assert "1 of them terminating" in tallygate("usage", "--namespace", namespace).stdout
    ours.delete(f"{pods}/stays", gracePeriodSeconds="0")
    until("it is deleted", lambda: _line(tallygate, namespace)["used"] == 0, _WITHIN)
    assert tallygate("usage", "--verify", "--namespace", namespace).returncode == 0


def test_unhealthy_devices_of_a_node_are_named_until_they_are_healthy(
    site: Site, tallygate: Run, namespace: str, machine: str
) -> None:
    """Play the kubelet, which reports an unhealthy device in the capacity alone."""
    until("it is counted", lambda: submit(site, namespace, "counted").is_done, _WITHIN)
    ours, status = api(site.cluster.kubeconfig), f"/api/v1/nodes/{machine}/status"
    ours.patch(status, {"status": {"capacity": {DONGLE: "4"}, "allocatable": {DONGLE: "3"}}})
    shown = f"1 of 4 {DONGLE} unhealthy on {machine}"
    assert shown in tallygate("usage", "--namespace", namespace).stderr
    listed = json.loads(tallygate("usage", "--namespace", namespace, "-o", "json").stdout)
    assert {"node": machine, "resource": DONGLE, "unhealthy": 1, "capacity": 4} in listed["unhealthy"]
    ours.patch(status, {"status": {"allocatable": {DONGLE: "4"}}})
    assert shown not in tallygate("usage", "--namespace", namespace).stderr


def test_a_snapshot_says_the_same(
    site: Site, ledger_gate: GateProcess, tallygate: Run, three: str, tmp_path: Path
) -> None:
    until("reservations are settled", lambda: _line(tallygate, three)["reserved"] == 0, _WITHIN)
    path = tmp_path / "now.json"
    taken = tallygate("snapshot", str(path))
    assert (taken.returncode, taken.stdout, taken.stderr) == (0, "", "")
    usage = ["usage", "--policies", str(ledger_gate.policies), "--snapshot", str(path)]
    for more in (("--namespace", three), ("--namespace", three, "--verify"), ("--explain", "dongles", "-n", three)):
        stored = run_tallygate(site.cluster, *usage, *more)
        live = tallygate("usage", *more)
        assert (stored.returncode, stored.stdout, stored.stderr) == (0, live.stdout, live.stderr)
    assert b"securityContext" not in path.read_bytes()


def test_watch_shows_a_change_and_ends_by_an_interrupt(
    site: Site, ledger_gate: GateProcess, three: str, tmp_path: Path
) -> None:
    shown, usage = tmp_path / "shown", _command(site.cluster, ledger_gate, "usage")
    with shown.open("w") as output:
        watching = subprocess.Popen(  # noqa: S603  ours, and no shell
            [sys.executable, "-m", "tallygate.cli", *usage, "--watch", "--namespace", three, "-o", "json"],
            env={**os.environ, **site.cluster.environment, "PYTHONPATH": str(_ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        until("it shows three", lambda: '"used": 3' in shown.read_text(), _WITHIN)
        _until_created(site, three, "fourth")
        until("it shows four", lambda: '"used": 4' in shown.read_text(), _WITHIN, shown.read_text)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(_SECONDS) == 130, shown.read_text()
    finally:
        watching.kill()
        watching.wait()
