"""From nothing to nothing: installed from deploy/, policies, refusals, an upgrade, uninstalled.

The gate runs as a process with its ServiceAccount's token, and every right that it is given is used, and no other asked
for. The Deployment's pods are there as well, played by KWOK: what admits and schedules them is real.
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

from e2e.gates.process import GateProcess
from e2e.installation.process import InstalledGate
from e2e.installation.remains import remains
from e2e.installation.rendered import CHART, KUSTOMIZE, Object, listed, own_overlay, run_helm
from e2e.installation.rights import Right, asked, granted
from e2e.installation.uninstalling import uninstall
from e2e.load import STORED, Clients
from e2e.local.cluster import LocalCluster
from e2e.local.launches import audit_log
from e2e.pods import DONGLE, create, pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 120.0  # seconds; a busy machine is slow
_MOST_WITHOUT = 5.0  # seconds; it takes a tenth of one
_IN_A_ROW = 30  # creates that are stored once the registration is there: it has been taken up by then
_COMPONENTS = ("ha", "self-signed", "network", "flow-control", "dashboard", "relay")
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: installed-dongles}
spec:
  namespaces: {selector: {matchLabels: {installed: "yes"}}}
  hard: {example.com/dongle: 2}
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
# A cap promises something soon after a start, and a gate still ends after its relay, but not so long after it.
_SETTINGS = ("--in-flight-bound=2s", "--drain-delay=6s")

Files = Mapping[str, str]


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def local(site: Site) -> Iterator[LocalCluster]:
    """A cluster in which nothing of the gate is, and in which nothing of it is afterwards."""
    if not isinstance(site.gate, GateProcess) or not isinstance(site.cluster, LocalCluster):
        raise NotHereError("it takes a control plane whose audit log can be read, and on which nothing is installed")
    cluster = site.cluster
    uninstall(cluster)  # what other cases have left of it
    yield cluster
    uninstall(cluster)


def _shipped() -> str:
    return (KUSTOMIZE / "base" / "policies" / "default.yaml").read_text()


def _overlay(cluster: Cluster, policies: Files, tag: str = "1") -> list[Object]:
    """A user's own overlay: an image, policies, and the components of his choice."""
    options = {"disableNameSuffixHash": True}
    made = {"name": "tallygate-policies", "namespace": _OWN, "behavior": "replace", "options": options}
    own = {
        "images": [{"name": "tallygate", "newName": "registry.example.com/tallygate", "newTag": tag}],
        "configMapGenerator": [{**made, "literals": [f"{name}={text}" for name, text in policies.items()]}],
    }
    return own_overlay(cluster, KUSTOMIZE / "base", own, _COMPONENTS)


def _apply(cluster: Cluster, objects: list[Object], selector: str = "") -> None:
    chosen = (f"--selector={selector}",) if selector else ()
    _done(cluster, "apply", *chosen, "--filename=-", stdin=listed(objects))


def _register(cluster: Cluster, gate: InstalledGate, objects: list[Object]) -> None:
    """As a user does it, by applying all of it; the API server asks once the gate has published whom to trust."""
    _done(cluster, "apply", "--filename=-", stdin=listed(gate.called_here(objects)))
    until("a fraction is refused", partial(_refuses_a_fraction, cluster), _WITHIN, gate.log)


def _seconds_without(site: Site, gate: InstalledGate, objects: list[Object], namespace: str) -> float:
    """Register it once more: so long creates fail, until the gate has published whom to trust."""
    said(site.cluster, "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "tallygate")
    failed: list[float] = []
    stored = 0
    deadline = time.monotonic() + _WITHIN
    with Clients(site.cluster, namespace) as clients, ThreadPoolExecutor(1) as beside:
        registered = beside.submit(_register, site.cluster, gate, objects)
        while not registered.done() or stored < _IN_A_ROW:
            asked = registered.done()  # before that a create is stored since nobody is asked
            answer = clients.create_one(pod(site, f"p-{uuid4().hex}", "0"))
            assert time.monotonic() < deadline, answer.message
            stored = stored + 1 if asked and answer.status == STORED else 0
            failed += [time.monotonic()] * (answer.status != STORED)
        registered.result()
    assert all(_trusted(site.cluster))
    return failed[-1] - failed[0] if failed else 0.0


def _refuses_a_fraction(cluster: Cluster) -> bool:
    name = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
    asks = {"requests": {name: "1500m"}, "limits": {name: "1500m"}}
    container = {"name": "main", "image": "none", "resources": asks}
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"}, "spec": {"containers": [container]}}
    done = cluster.kubectl("create", "--namespace=default", "--dry-run=server", "-f", "-", stdin=json.dumps(wrong))
    return done.returncode != 0 and "not a whole number" in done.stderr


def _policies(cluster: Cluster, gate: InstalledGate, files: Files, tag: str = "1") -> list[Object]:
    """Let the ConfigMap of the overlay have these; return once they are in force."""
    before = gate.readiness()["checks"]["policies"]["digest"]
    objects = _overlay(cluster, files, tag)
    _apply(cluster, objects, "app.kubernetes.io/component=gate")
    gate.bring_policies()
    until("they are in force", lambda: bool(gate.readiness()["checks"]["policies"]["digest"] != before), _WITHIN)
    return objects


def _says(site: Site, namespace: str, name: str, dongles: str = "1") -> str:
    """What is said of a pod: nothing when it is let in."""
    done = create(site, namespace, name, dongles)
    return "" if done.returncode == 0 else done.stderr


def _until_let_in(site: Site, namespace: str, name: str, gate: InstalledGate) -> None:
    until(f"{name} is let in", lambda: _says(site, namespace, name) == "", _WITHIN, gate.log)


def _workload(site: Site, kind: str) -> dict[str, Any]:
    """A workload of four pods with a dongle each."""
    name = kind.lower()
    labels = {"of": name}
    old = kind == "ReplicationController"
    spec = {
        "replicas": 4,
        "selector": labels if old else {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod(site, name)["spec"]},
    }
    return {"apiVersion": "v1" if old else "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _use_what_is_rare(site: Site, namespace: str, gate: InstalledGate) -> None:
    """Bring about what an ordinary day does not: a promise that comes to nothing, a namespace that goes, a renewal."""
    cluster = site.cluster
    gone = f"{namespace}-gone"
    _done(cluster, "create", "namespace", gone)
    _done(cluster, "label", "namespace", gone, "installed=yes")
    _done(cluster, "wait", "--for=create", "--timeout=110s", f"--namespace={gone}", "serviceaccount/default")
    _until_let_in(site, gone, "first", gate)
    _done(cluster, "delete", "namespace", gone, "--wait=false")
    own = f"--namespace={namespace}"
    _done(cluster, "create", "quota", "none", own, f"--hard=requests.{DONGLE}=0")
    until("quota refuses", lambda: "exceeded quota" in _says(site, namespace, f"p-{uuid4().hex[:6]}"), _WITHIN)
    _done(cluster, "delete", "quota", "none", own)
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"):
        _done(cluster, "create", own, "--filename=-", stdin=json.dumps(_workload(site, kind)))
        _done(cluster, "scale", own, f"{kind}/{kind.lower()}", "--replicas=5")
    _done(cluster, "annotate", "secret", "tallygate-tls", f"--namespace={_OWN}", "tallygate.dev/renew=certificate")


def _unused(given: frozenset[Right], log: Path, start: int) -> list[Right]:
    """What nobody has asked for: a right to take away. Leases are deleted at the end, when it stops."""
    used = {each.right for each in asked(log, start)} | {Right("delete", "coordination.k8s.io", "leases")}
    return sorted(given - used)


def _told(given: frozenset[Right], log: Path, start: int) -> str:
    return "\n".join(" ".join(right) for right in _unused(given, log, start))


def test_installed_upgraded_and_uninstalled_with_the_rights_it_needs_and_nothing_left(
    site: Site, local: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    log = audit_log(local.folder)
    start = log.stat().st_size if log.exists() else 0
    first = _overlay(local, {"default.yaml": _shipped()})
    _apply(local, first, "app.kubernetes.io/component=gate")
    _done(local, "rollout", "status", "deployment/tallygate", f"--namespace={_OWN}", "--timeout=120s")
    gate = InstalledGate(local, _OWN, tmp_path / "gate", _SETTINGS)
    gate.start()
    try:
        assert not _refuses_a_fraction(local)  # nobody is asked yet
        _register(local, gate, first)
        # What it takes is to be told of it; who only looks now and then needs ten seconds.
        assert max(_seconds_without(site, gate, first, namespace) for _ in range(2)) < _MOST_WITHOUT

        _done(local, "label", "namespace", namespace, "installed=yes")
        _policies(local, gate, {"default.yaml": _shipped(), "cap.yaml": _CAP})
        _until_let_in(site, namespace, "first", gate)
        _until_let_in(site, namespace, "second", gate)
        assert "used 2, reserved" in _says(site, namespace, "third")
        _done(local, "delete", "pod", "second", f"--namespace={namespace}", "--wait")
        _until_let_in(site, namespace, "second", gate)

        second = _upgrade(local, gate)
        _register(local, gate, second)
        assert "1 of them" in _says(site, namespace, "pair", "2") or "no-pairs" in _says(site, namespace, "pair", "2")
        assert "used 2, reserved" in _says(site, namespace, "third")  # what was counted before is not forgotten

        _done(local, "delete", "pod", "second", f"--namespace={namespace}", "--wait")
        _use_what_is_rare(site, namespace, gate)
        given = granted(second)
        until("every right is used", lambda: not _unused(given, log, start), _WITHIN, lambda: _told(given, log, start))
    finally:
        gate.stop()
    used = list(asked(log, start))
    assert [each for each in used if each.is_forbidden] == []
    assert sorted({each.right for each in used} - given) == []
    uninstall(local)
    assert remains(local) == []
    assert not _refuses_a_fraction(local)


def _upgrade(cluster: Cluster, gate: InstalledGate) -> list[Object]:
    """The next version: another image, one more policy, and one more column of the ledgers; the caBundle stays."""
    trusted = _trusted(cluster)
    assert all(trusted)
    policies = {"default.yaml": _shipped(), "cap.yaml": _CAP, "rule.yaml": _RULE}
    objects = _overlay(cluster, policies, tag="2")
    (definition,) = (each for each in objects if each["kind"] == "CustomResourceDefinition")
    column = {"name": "PodsResourceVersion", "type": "string", "jsonPath": ".status.podsResourceVersion", "priority": 1}
    definition["spec"]["versions"][0]["additionalPrinterColumns"].append(column)
    _apply(cluster, objects, "app.kubernetes.io/component=gate")
    _done(cluster, "rollout", "status", "deployment/tallygate", f"--namespace={_OWN}", "--timeout=120s")
    gate.stop()
    gate.start()
    assert "ASOF" in _done(cluster, "get", "capledgers", f"--namespace={_OWN}", "--output=wide")
    assert _trusted(cluster) == trusted
    return objects


def _trusted(cluster: Cluster) -> list[str]:
    """The caBundle of every webhook."""
    kinds = "mutatingwebhookconfiguration/tallygate", "validatingwebhookconfiguration/tallygate"
    read = json.loads(_done(cluster, "get", *kinds, "--output=json"))["items"]
    return [webhook["clientConfig"].get("caBundle", "") for each in read for webhook in each["webhooks"]]


def test_by_helm_an_upgrade_keeps_whom_the_api_server_trusts_and_an_uninstall_leaves_nothing(
    local: LocalCluster, tmp_path: Path
) -> None:
    """Its webhooks call the Service, which nobody answers here: with Ignore the API server goes on."""
    release = ("gate", str(CHART), f"--namespace={_OWN}")
    values = ("--set=failurePolicy=Ignore", "--set=dashboard=true", "--set-string=image.tag=1", "--wait")
    run_helm(local, "install", *release, "--create-namespace", *values, "--set=registration=false")
    gate = InstalledGate(local, _OWN, tmp_path / "gate", _SETTINGS)
    gate.start()
    try:
        run_helm(local, "upgrade", *release, "--reuse-values", "--set=registration=true", "--wait")
        until("the gate has published whom to trust", lambda: all(_trusted(local)), _WITHIN, gate.log)
        trusted = _trusted(local)
        run_helm(local, "upgrade", *release, "--reuse-values", "--set-string=image.tag=2", "--wait")
        assert _trusted(local) == trusted
    finally:
        gate.stop()
    run_helm(local, "upgrade", *release, "--reuse-values", "--set=registration=false")
    run_helm(local, "uninstall", "gate", f"--namespace={_OWN}", "--wait")
    _done(local, "delete", "namespace", _OWN)
    assert remains(local) == []
