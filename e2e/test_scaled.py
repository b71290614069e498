"""`kubectl scale` is told what a cap will say to the pods, by a gate with the rights of its ServiceAccount alone."""

from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from e2e.api import MERGE, api
from e2e.beside import see_that_gates_are_processes
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
def following(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """A gate that follows the cluster as its ServiceAccount, with a cap of four dongles."""
    see_that_gates_are_processes(site)
    folder = tmp_path_factory.mktemp("scaled")
    kubeconfig = gates_account(site.cluster, folder, "cluster-access")
    gate = GateProcess(folder / "gate", arguments=("--cluster=kubeconfig", f"--kubeconfig={kubeconfig}"))
    gate.start()
    register(site.cluster, gate)
    yield gate
    unregister(site.cluster)
    gate.stop()


def _workload(kind: str) -> dict[str, Any]:
    """One that has no pods yet, whose pods ask for two dongles each."""
    labels = {"app": "w"}
    amounts = {_DONGLE: "2"}
    resources = {"requests": amounts, "limits": amounts}
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none", "resources": resources}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector: dict[str, Any] = labels if kind == "ReplicationController" else {"matchLabels": labels}
    more = {"serviceName": "w"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": _KINDS[kind],
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {"replicas": 0, "selector": selector, "template": template, **more},
    }


def _scaled(site: Site, namespace: str, kind: str, replicas: int) -> CompletedProcess[str]:
    return site.cluster.kubectl("scale", f"{kind.lower()}/w", f"--replicas={replicas}", f"--namespace={namespace}")


def _would_be_told(site: Site, namespace: str, kind: str) -> str:
    """What whoever scales it to three replicas would be told now."""
    ours = api(site.cluster.kubeconfig)
    scale = f"{ours.collection(_workload(kind), namespace)}/w/scale"
    return ours.ask("PATCH", scale, {"spec": {"replicas": 3}}, kind=MERGE, query={"dryRun": "All"}).told


def _prepared(site: Site, namespace: str, gate: GateProcess, kind: str, cap: str) -> None:
    label(site.cluster, namespace, {"scaled": "yes"})
    ours, workload = api(site.cluster.kubeconfig), _workload(kind)
    ours.create(ours.collection(workload, namespace), workload)
    gate.write_policies(SHIPPED_FILES | {"scaled.yaml": cap})


@pytest.mark.parametrize("kind", _KINDS)
def test_whoever_scales_a_workload_beyond_a_cap_is_told_the_sum(
    site: Site, namespace: str, following: GateProcess, kind: str
) -> None:
    _prepared(site, namespace, following, kind, _CAP)

    until("the gate has heard of the namespace's label", lambda: _SUM in _would_be_told(site, namespace, kind), _WITHIN)
    done = _scaled(site, namespace, kind, 3)
    assert done.returncode == 0, done.stderr
    assert f'{kind} "w": {_SUM}' in done.stderr


def test_where_a_cap_denies_workloads_nobody_scales_one_beyond_it(
    site: Site, namespace: str, following: GateProcess
) -> None:
    _prepared(site, namespace, following, "Deployment", f"{_CAP}  workloads: deny\n")

    until("the gate has heard of it", lambda: _SUM in _would_be_told(site, namespace, "Deployment"), _WITHIN)
    assert _scaled(site, namespace, "Deployment", 1).returncode == 0
    done = _scaled(site, namespace, "Deployment", 3)
    assert done.returncode == 1
    assert _SUM in done.stderr
    ours = api(site.cluster.kubeconfig)
    stored = ours.get(f"{ours.collection(_workload('Deployment'), namespace)}/w")
    assert stored["spec"]["replicas"] == 1
