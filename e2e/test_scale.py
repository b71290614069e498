"""`kubectl scale` returns a warning about a cap, by a gate with the rights of its ServiceAccount alone."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from e2e.api import MERGE, api
from e2e.extra_gates import require_gate_process
from e2e.gates.process import GateProcess
from e2e.namespaces import label
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Site
from e2e.registering import register, unregister
from e2e.service_account import gates_account
from e2e.waiting import until

_DEPLOY = Path(__file__).parents[1] / "deploy" / "kustomize"
_OWN = "tallygate-system"
_WITHIN = 60.0
_DONGLE = "example.com/dongle"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: scaled}
spec:
  namespaces: {selector: {matchLabels: {scaled: "yes"}}}
  hard: {example.com/dongle: 4}
"""
_KINDS = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}
_SUM = f"3 replicas request 6 {_DONGLE}, cap scaled of this namespace has hard 4: 2 of them can run at a time (TG204"


@pytest.fixture(scope="module")
def watching_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster as its ServiceAccount, with a cap of four dongles."""
    require_gate_process(site)
    folder = tmp_path_factory.mktemp("scaled")
    kubeconfig = gates_account(site.cluster, folder, "cluster-access")
    gate = GateProcess(folder / "gate", arguments=("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}"))
    gate.start()
    register(site.cluster, gate)
    yield gate
    unregister(site.cluster)
    gate.stop()


def _workload(kind: str) -> dict[str, Any]:
    """Return a workload without pods yet, whose pods request two dongles each."""
    labels = {"app": "w"}
    amounts = {_DONGLE: "2"}
    resources = {"requests": amounts, "limits": amounts}
    spec = {"schedulerName": "no-scheduler", "containers": [{"name": "c", "image": "none", "resources": resources}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector: dict[str, Any] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    more = {"serviceName": "w"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": _KINDS[kind],
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {"replicas": 0, "selector": selector, "template": template, **more},
    }


def _scale(site: Site, namespace: str, kind: str, replicas: int) -> CompletedProcess[str]:
    return site.cluster.kubectl("scale", f"{kind.lower()}/w", f"--replicas={replicas}", f"--namespace={namespace}")


def _ask_dry(site: Site, namespace: str, kind: str) -> str:
    """Return the messages of scaling it to three replicas, as a dry run."""
    ours = api(site.cluster.kubeconfig)
    scale = f"{ours.collection(_workload(kind), namespace)}/w/scale"
    return ours.ask("PATCH", scale, {"spec": {"replicas": 3}}, kind=MERGE, query={"dryRun": "All"}).messages


def _prepare(site: Site, namespace: str, gate: GateProcess, kind: str, cap: str) -> None:
    label(site.cluster, namespace, {"scaled": "yes"})
    ours, workload = api(site.cluster.kubeconfig), _workload(kind)
    ours.create(ours.collection(workload, namespace), workload)
    gate.write_policies(SHIPPED_FILES | {"scaled.yaml": cap})


@pytest.mark.parametrize("kind", _KINDS)
def test_scaling_a_workload_beyond_a_cap_returns_a_warning_with_the_sum(
    site: Site, namespace: str, watching_gate: GateProcess, kind: str
) -> None:
    _prepare(site, namespace, watching_gate, kind, _CAP)

    until("the gate has seen the namespace's label", lambda: _SUM in _ask_dry(site, namespace, kind), _WITHIN)
    done = _scale(site, namespace, kind, 3)
    assert done.returncode == 0, done.stderr
    assert f'{kind} "w": {_SUM}' in done.stderr


def test_a_cap_that_denies_workloads_rejects_scaling_beyond_it(
    site: Site, namespace: str, watching_gate: GateProcess
) -> None:
    _prepare(site, namespace, watching_gate, "Deployment", f"{_CAP}  workloads: deny\n")

    until("the gate has seen it", lambda: _SUM in _ask_dry(site, namespace, "Deployment"), _WITHIN)
    assert _scale(site, namespace, "Deployment", 1).returncode == 0
    done = _scale(site, namespace, "Deployment", 3)
    assert done.returncode == 1
    assert _SUM in done.stderr
    ours = api(site.cluster.kubeconfig)
    stored = ours.get(f"{ours.collection(_workload('Deployment'), namespace)}/w")
    assert stored["spec"]["replicas"] == 1
