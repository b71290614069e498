"""The whole life of an installation: deploy/, policies, rejections, an upgrade, uninstalled.

The gate runs as a process with its ServiceAccount's token, and every right that it is given is used, and no other
requested. The Deployment's pods are there as well, simulated by KWOK: what admits and schedules them is real.
"""

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.api import api
from e2e.command_output import run_kubectl
from e2e.definitions import serve_kinds_of
from e2e.gates.process import GateProcess
from e2e.installation.leftovers import find_leftovers
from e2e.installation.process import InstalledGate
from e2e.installation.rendered import CHART, KUSTOMIZE, Object, render_own_overlay, run_helm, to_list
from e2e.installation.rights import Right, collect_rights, read_requests
from e2e.installation.uninstalling import uninstall
from e2e.load import STORED, Clients
from e2e.local.cluster import LocalCluster
from e2e.local.launches import audit_log
from e2e.pods import DONGLE, create, pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.waiting import until
from e2e.workload_kinds.modules import KARPENTER

_OWN = "tallygate-system"
_WITHIN = 240.0  # seconds; a new cap is active after some hundred
_IN_A_ROW = 30  # creates that are stored once the registration is there: it has been loaded by then
_COMPONENTS = ("ha", "self-signed", "network", "flow-control", "dashboard", "relay")
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: installed-dongles}
spec:
  namespaces: {selector: {matchLabels: {installed: "yes"}}}
  hard: {example.com/dongle: 2}
  surge: {amounts: {example.com/dongle: 1}, for: 1m}
  admit: whole
"""
_RULE = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: no-pairs}
spec:
  resources: [example.com/dongle]
  checks:
    perContainer: {oneOf: [1]}
"""
# A cap reserves soon after a start, and a gate still ends after its relay, but not so long after it.
_SETTINGS = ("--in-flight-bound=2s", "--drain-delay=6s")

Files = Mapping[str, str]


@pytest.fixture
def local(site: Site) -> Iterator[LocalCluster]:
    """Yield a cluster without anything of the gate, and remove what is left of it afterwards."""
    if not isinstance(site.gate, GateProcess) or not isinstance(site.cluster, LocalCluster):
        raise NotHereError("it takes a control plane whose audit log can be read, and on which nothing is installed")
    cluster = site.cluster
    uninstall(cluster)  # what other cases have left of it
    with serve_kinds_of(cluster, KARPENTER):  # or its pools are not watched
        yield cluster
    uninstall(cluster)


def _read_shipped_policy() -> str:
    return (KUSTOMIZE / "base" / "policies" / "default.yaml").read_text()


def _overlay(cluster: Cluster, policies: Files, tag: str = "1") -> list[Object]:
    """Render a user's own overlay: an image, policies, and the components of his choice."""
    options = {"disableNameSuffixHash": True}
    made = {"name": "tallygate-policies", "namespace": _OWN, "behavior": "replace", "options": options}
    own = {
        "images": [{"name": "tallygate", "newName": "registry.example.com/tallygate", "newTag": tag}],
        "configMapGenerator": [{**made, "literals": [f"{name}={text}" for name, text in policies.items()]}],
    }
    return render_own_overlay(cluster, KUSTOMIZE / "base", own, _COMPONENTS)


def _apply(cluster: Cluster, objects: list[Object], selector: str = "") -> None:
    chosen = (f"--selector={selector}",) if selector else ()
    run_kubectl(cluster, "apply", *chosen, "--filename=-", stdin=to_list(objects))


def _register(cluster: Cluster, gate: InstalledGate, objects: list[Object]) -> None:
    """Apply all of it, as a user does; the API server calls the gate once that has published its CA bundle."""
    run_kubectl(cluster, "apply", "--filename=-", stdin=to_list(gate.redirect_webhooks(objects)))
    until("a fraction is refused", partial(_refuses_a_fraction, cluster), _WITHIN, gate.log)


def _count_failed(site: Site, gate: InstalledGate, objects: list[Object], namespace: str) -> int:
    """Register it once more, and return the number of creates that fail meanwhile."""
    run_kubectl(site.cluster, "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "tallygate")
    failed = stored = 0
    deadline = time.monotonic() + _WITHIN
    with Clients(site.cluster, namespace) as clients, ThreadPoolExecutor(1) as executor:
        registration = executor.submit(_register, site.cluster, gate, objects)
        while not registration.done() or stored < _IN_A_ROW:
            is_registered = registration.done()  # before that a create is stored since no gate is called
            answer = clients.create_one(pod(site, f"p-{uuid4().hex}", "0"))
            assert time.monotonic() < deadline, answer.message
            stored = stored + 1 if is_registered and answer.status == STORED else 0
            failed += answer.status != STORED
        registration.result()
    assert all(_read_bundles(site.cluster))
    return failed


def _refuses_a_fraction(cluster: Cluster) -> bool:
    name = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
    asks = {"requests": {name: "1500m"}, "limits": {name: "1500m"}}
    container = {"name": "main", "image": "none", "resources": asks}
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"}, "spec": {"containers": [container]}}
    done = cluster.kubectl("create", "--namespace=default", "--dry-run=server", "-f", "-", stdin=json.dumps(wrong))
    return done.returncode != 0 and "not a whole number" in done.stderr


def _policies(cluster: Cluster, gate: InstalledGate, files: Files, tag: str = "1") -> list[Object]:
    """Write these policies into the ConfigMap of the overlay; return once they are active."""
    before = gate.readiness()["checks"]["policies"]["digest"]
    objects = _overlay(cluster, files, tag)
    _apply(cluster, objects, "app.kubernetes.io/component=gate")
    gate.bring_policies()
    until("they are active", lambda: bool(gate.readiness()["checks"]["policies"]["digest"] != before), _WITHIN)
    return objects


def _reject(site: Site, namespace: str, name: str, dongles: str = "1") -> str:
    """Return the rejection of a pod; empty if it is accepted."""
    done = create(site, namespace, name, dongles)
    return "" if done.returncode == 0 else done.stderr


def _until_accepted(site: Site, namespace: str, name: str, gate: InstalledGate) -> None:
    until(f"{name} is accepted", lambda: _reject(site, namespace, name) == "", _WITHIN, gate.log)


def _workload(site: Site, kind: str) -> dict[str, Any]:
    """Return a workload of four pods with a dongle each; a Job has one, a DaemonSet as many as there are nodes."""
    name = kind.lower()
    labels = {"of": name}
    old = kind == "ReplicationController"
    spec: dict[str, Any] = {
        "replicas": 4,
        "selector": labels if old else {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod(site, name)["spec"]},
    }
    if kind in {"DaemonSet", "Job"}:
        del spec["replicas"]
    if kind == "Job":
        del spec["selector"]
        spec["template"]["spec"]["restartPolicy"] = "Never"
    version = {"ReplicationController": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _until_full(site: Site, namespace: str, gate: InstalledGate) -> None:
    until("both are counted", lambda: "used 2, reserved" in _reject(site, namespace, "third"), _WITHIN, gate.log)


def _use_what_is_rare(site: Site, namespace: str, gate: InstalledGate) -> None:
    """Cause what an ordinary day does not: an unused reservation, a deleted namespace, a renewal.

    The gate reads the Job whose pod takes over its amount, and a DaemonSet whose pods might surge.
    """
    cluster, own = site.cluster, f"--namespace={namespace}"
    deleted_namespace = f"{namespace}-deleted"
    run_kubectl(cluster, "create", "namespace", deleted_namespace)
    run_kubectl(cluster, "label", "namespace", deleted_namespace, "installed=yes")
    run_kubectl(
        cluster, "wait", "--for=create", "--timeout=110s", f"--namespace={deleted_namespace}", "serviceaccount/default"
    )
    _until_accepted(site, deleted_namespace, "first", gate)
    run_kubectl(cluster, "delete", "namespace", deleted_namespace, "--wait=false")
    run_kubectl(cluster, "create", "quota", "none", own, f"--hard=requests.{DONGLE}=0")
    # A pod that a quota accepts before its amounts are computed would use the last dongle of the cap.
    path, probe, query = f"/api/v1/namespaces/{namespace}/pods", pod(site, "probe"), {"dryRun": "All"}
    ask = partial(api(cluster.kubeconfig).ask, "POST", path, probe, query=query)
    until("the quota is computed", lambda: "exceeded quota" in ask().rejection, _WITHIN)
    assert "exceeded quota" in _reject(site, namespace, "refused")
    run_kubectl(cluster, "delete", "quota", "none", own)
    job = json.dumps(_workload(site, "Job"))
    until("the job is admitted", lambda: cluster.kubectl("create", own, "-f", "-", stdin=job).returncode == 0, _WITHIN)
    run_kubectl(cluster, "wait", "--for=create", "--timeout=110s", own, "pod", "--selector=job-name=job")
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        run_kubectl(cluster, "create", own, "--filename=-", stdin=json.dumps(_workload(site, kind)))
        run_kubectl(cluster, "scale", own, f"{kind}/{kind.lower()}", "--replicas=5")
    run_kubectl(cluster, "create", own, "--filename=-", stdin=json.dumps(_workload(site, "DaemonSet")))
    run_kubectl(cluster, "annotate", "secret", "tallygate-tls", f"--namespace={_OWN}", "tallygate.dev/renew=authority")


def _find_unused(given: frozenset[Right], log: Path, start: int) -> list[Right]:
    """Return the rights that were not used, for removal.

    Leases are deleted at the end, when the gate stops. A claim for devices is read when its reservation is old, as a
    pod is here. PodGroups are not served here; e2e/test_pod_group_wholes.py has them.
    """
    used = {each.right for each in read_requests(log, start)} | {Right("delete", "coordination.k8s.io", "leases")}
    elsewhere = {Right("get", "resource.k8s.io", "resourceclaims"), Right("get", "scheduling.k8s.io", "podgroups")}
    return sorted(given - used - elsewhere)


def _format_unused(given: frozenset[Right], log: Path, start: int) -> str:
    return "\n".join(" ".join(right) for right in _find_unused(given, log, start))


def test_installed_upgraded_and_uninstalled_with_the_rights_it_needs_and_nothing_left(
    site: Site, local: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    log = audit_log(local.folder)
    start = log.stat().st_size if log.exists() else 0
    first = _overlay(local, {"default.yaml": _read_shipped_policy()})
    _apply(local, first, "app.kubernetes.io/component=gate")
    run_kubectl(local, "rollout", "status", "deployment/tallygate", f"--namespace={_OWN}", "--timeout=120s")
    gate = InstalledGate(local, _OWN, tmp_path / "gate", _SETTINGS)
    gate.start()
    try:
        assert not _refuses_a_fraction(local)  # no gate is called yet
        _register(local, gate, first)
        assert _count_failed(site, gate, first, namespace) == 0

        run_kubectl(local, "label", "namespace", namespace, "installed=yes")
        _policies(local, gate, {"default.yaml": _read_shipped_policy(), "cap.yaml": _CAP})
        _until_accepted(site, namespace, "first", gate)
        _until_accepted(site, namespace, "second", gate)
        _until_full(site, namespace, gate)
        run_kubectl(local, "delete", "pod", "second", f"--namespace={namespace}", "--wait")
        _until_accepted(site, namespace, "second", gate)

        second = _upgrade(local, gate)
        _register(local, gate, second)
        assert "1 of them" in _reject(site, namespace, "pair", "2") or "no-pairs" in _reject(
            site, namespace, "pair", "2"
        )
        _until_full(site, namespace, gate)  # what was counted before is not forgotten

        run_kubectl(local, "delete", "pod", "second", f"--namespace={namespace}", "--wait")
        _use_what_is_rare(site, namespace, gate)
        given = collect_rights(second)
        until(
            "every right is used",
            lambda: not _find_unused(given, log, start),
            _WITHIN,
            lambda: _format_unused(given, log, start),
        )
    finally:
        gate.stop()
    used = list(read_requests(log, start))
    assert [each for each in used if each.is_forbidden] == []
    assert sorted({each.right for each in used} - given) == []
    uninstall(local)
    assert find_leftovers(local) == []
    assert not _refuses_a_fraction(local)


def _upgrade(cluster: Cluster, gate: InstalledGate) -> list[Object]:
    """Install the next version: another image, one more policy, and a column of the ledgers; the caBundle stays."""
    trusted = _read_bundles(cluster)
    assert all(trusted)
    policies = {"default.yaml": _read_shipped_policy(), "cap.yaml": _CAP, "rule.yaml": _RULE}
    objects = _overlay(cluster, policies, tag="2")
    (definition,) = (each for each in objects if each["kind"] == "CustomResourceDefinition")
    column = {"name": "PodsResourceVersion", "type": "string", "jsonPath": ".status.podsResourceVersion", "priority": 1}
    definition["spec"]["versions"][0]["additionalPrinterColumns"].append(column)
    _apply(cluster, objects, "app.kubernetes.io/component=gate")
    run_kubectl(cluster, "rollout", "status", "deployment/tallygate", f"--namespace={_OWN}", "--timeout=120s")
    gate.stop()
    gate.start()
    assert "PODSRESOURCEVERSION" in run_kubectl(cluster, "get", "capledgers", f"--namespace={_OWN}", "--output=wide")
    assert _read_bundles(cluster) == trusted
    return objects


def _is_registered(gate: InstalledGate) -> bool:
    return bool(gate.readiness()["checks"]["registration"]["state"] == "complete")


def _read_bundles(cluster: Cluster) -> list[str]:
    """Return the caBundle of every webhook."""
    kinds = "mutatingwebhookconfiguration/tallygate", "validatingwebhookconfiguration/tallygate"
    read = json.loads(run_kubectl(cluster, "get", *kinds, "--output=json"))["items"]
    return [webhook["clientConfig"].get("caBundle", "") for each in read for webhook in each.get("webhooks") or ()]


def test_by_helm_an_upgrade_keeps_the_ca_bundles_and_an_uninstall_leaves_nothing(
    local: LocalCluster, tmp_path: Path
) -> None:
    release = ("gate", str(CHART), f"--namespace={_OWN}")
    values = ("--set=failurePolicy=Ignore", "--set=dashboard.enabled=true", "--set-string=image.tag=1", "--wait")
    run_helm(local, "install", *release, "--create-namespace", *values)
    gate = InstalledGate(local, _OWN, tmp_path / "gate", _SETTINGS)
    gate.annotate_registration()
    gate.start()
    try:
        until("the gate has registered itself", lambda: _is_registered(gate), _WITHIN, gate.log)
        trusted = _read_bundles(local)
        assert all(trusted)
        run_helm(local, "upgrade", *release, "--reuse-values", "--set-string=image.tag=2", "--wait")
        assert _read_bundles(local) == trusted
    finally:
        gate.stop()
    run_helm(local, "uninstall", "gate", f"--namespace={_OWN}", "--wait")
    run_kubectl(local, "delete", "namespace", _OWN)
    assert find_leftovers(local) == []
