"""Installations and uninstallations during which no create fails, with ledgers, by Helm and by kustomize.

The gate runs as a process with what its Deployment says, whose pods KWOK simulates. Clients create pods all the time,
and each of them is charged to a cap, so that a ledger that cannot be written would refuse it.
"""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from e2e.command_output import run_kubectl
from e2e.gates.process import GateProcess
from e2e.installation.installed_checks import format_cap
from e2e.installation.leftovers import find_leftovers
from e2e.installation.process import InstalledGate
from e2e.installation.rendered import CHART, KUSTOMIZE, run_helm
from e2e.installation.uninstalling import uninstall
from e2e.ledgers import list_ledgers
from e2e.load import STORED, Answer, Clients, until_more
from e2e.local.cluster import LocalCluster
from e2e.pods import create, pod
from e2e.ports import NotHereError, Site
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 120.0  # seconds; a busy machine is slow
_KINDS = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
_PAUSE = 0.2  # seconds between two pods of a client
_SOME = 16  # creates of a load, so that each client has made some
_SETTINGS = ("--in-flight-bound=2s", "--drain-delay=3s")  # a new ledger reserves soon


@pytest.fixture
def local(site: Site) -> Iterator[LocalCluster]:
    """Yield a cluster without anything of the gate, and remove what is left of it afterwards."""
    if not isinstance(site.gate, GateProcess) or not isinstance(site.cluster, LocalCluster):
        raise NotHereError("it takes a cluster on which nothing is installed, and Services without a network")
    uninstall(site.cluster)
    yield site.cluster
    uninstall(site.cluster)


@contextmanager
def _keep_creating(site: Site, namespace: str) -> Iterator[list[Answer]]:
    """Create pods without dongles for as long as the block runs, and check that each was stored.

    Under a gate the cap is new, and admits until it is counted.
    """
    with Clients(site.cluster, namespace) as clients:
        prefix = uuid4().hex[:8]
        with clients.creating(lambda number: pod(site, f"p-{prefix}-{number}", "0"), _PAUSE) as answers:
            until_more(answers, _SOME)
            yield answers
            until_more(answers, _SOME)
    assert {each.message for each in answers if each.status != STORED} == set()


def _reject(site: Site, namespace: str, name: str) -> str:
    """Return the rejection of a pod with a dongle; empty if it is accepted."""
    done = create(site, namespace, name)
    return "" if done.returncode == 0 else done.stderr


def _read_registration(cluster: LocalCluster) -> dict[str, int]:
    """Return the number of webhooks of each configuration that exists."""
    text = run_kubectl(cluster, "get", _KINDS, "--field-selector=metadata.name=tallygate", "--output=json")
    return {each["kind"]: len(each.get("webhooks") or ()) for each in json.loads(text)["items"]}


def _is_registered(cluster: LocalCluster) -> bool:
    return all(_read_registration(cluster).values())


@contextmanager
def _run_gate(cluster: LocalCluster, folder: Path) -> Iterator[InstalledGate]:
    """Run what is installed, until it registers itself; end it at the latest with the block."""
    gate = InstalledGate(cluster, _OWN, folder / uuid4().hex, _SETTINGS)
    gate.annotate_registration()
    gate.start()
    try:
        until("it has registered itself", partial(_is_registered, cluster), _WITHIN, gate.log)
        yield gate
    finally:
        gate.stop()


def _stop_after_deployment(cluster: LocalCluster, gate: InstalledGate) -> None:
    """End the gate as a kubelet does, when its Deployment has been deleted."""
    deployment = ("get", "deployment", "tallygate", f"--namespace={_OWN}")
    until("the Deployment is deleted", lambda: cluster.kubectl(*deployment).returncode != 0, _WITHIN)
    gate.stop()


def _fill(site: Site, namespace: str, gate: InstalledGate) -> None:
    """Use the two dongles of the cap."""
    for name in ("first", "second"):
        until(f"{name} is accepted", lambda name=name: _reject(site, namespace, name) == "", _WITHIN, gate.log)  # type: ignore[misc]
    _until_full(site, namespace, gate)
    assert list_ledgers(site.cluster, _OWN)


def _check_cap_again(site: Site, namespace: str, gate: InstalledGate) -> None:
    """Check that the cap counts the pods of before, and admits one more when one of them is deleted."""
    _until_full(site, namespace, gate)
    run_kubectl(site.cluster, "delete", "pod", "second", f"--namespace={namespace}", "--wait")
    until("another is accepted", lambda: _reject(site, namespace, "second") == "", _WITHIN, gate.log)
    _until_full(site, namespace, gate)


def _until_full(site: Site, namespace: str, gate: InstalledGate) -> None:
    until("both are counted", lambda: "used 2, reserved" in _reject(site, namespace, "third"), _WITHIN, gate.log)


def _list_left(cluster: LocalCluster) -> list[str]:
    return [each for each in find_leftovers(cluster) if not each.startswith(("Lease ", "Pod "))]


def _write_overlay(folder: Path, namespace: str) -> Path:
    """Write an overlay of one's own over `ha`, as docs/operate/install.md shows it, with a cap."""
    folder = folder.resolve()
    folder.mkdir()
    (folder / "cap.yaml").write_text(format_cap(namespace))
    (folder / "default.yaml").write_text((KUSTOMIZE / "base" / "policies" / "default.yaml").read_text())
    generator = {"name": "tallygate-policies", "namespace": _OWN, "behavior": "replace"}
    overlay: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(KUSTOMIZE / "overlays" / "ha", folder)],
        "sortOptions": {"order": "fifo"},
        "configMapGenerator": [{**generator, "files": ["default.yaml", "cap.yaml"]}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))
    return folder


def _install_by_helm(cluster: LocalCluster, namespace: str, folder: Path) -> None:
    cap = folder / "cap.yaml"
    cap.write_text(format_cap(namespace))
    values = (f"--set-file=policies.cap\\.yaml={cap}", "--wait")
    run_helm(cluster, "install", "tallygate", str(CHART), f"--namespace={_OWN}", "--create-namespace", *values)


def test_by_kustomize_no_create_fails_from_apply_to_delete_and_the_cap_is_kept_after_another_install(
    site: Site, local: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    mine = _write_overlay(tmp_path / "mine", namespace)
    with _keep_creating(site, namespace):
        run_kubectl(local, "apply", "-k", str(mine))
        assert _read_registration(local) == {"MutatingWebhookConfiguration": 0, "ValidatingWebhookConfiguration": 0}
    with _run_gate(local, tmp_path) as gate:
        _fill(site, namespace, gate)
        with _keep_creating(site, namespace), ThreadPoolExecutor(1) as kubelet:
            run_kubectl(local, "apply", "-k", str(mine))  # once more: what the gate has written stays
            assert _is_registered(local)
            stopped = kubelet.submit(_stop_after_deployment, local, gate)
            run_kubectl(local, "delete", "-k", str(mine), "--ignore-not-found", "--timeout=60s")
            stopped.result()
    assert find_leftovers(local) == []
    run_kubectl(local, "apply", "-k", str(mine))
    with _run_gate(local, tmp_path) as gate:
        _check_cap_again(site, namespace, gate)


def test_by_helm_no_create_fails_from_install_to_uninstall_and_the_cap_is_kept_after_another_install(
    site: Site, local: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    with _keep_creating(site, namespace):
        _install_by_helm(local, namespace, tmp_path)
        assert _read_registration(local) == {"MutatingWebhookConfiguration": 0, "ValidatingWebhookConfiguration": 0}
    with _run_gate(local, tmp_path) as gate:
        _fill(site, namespace, gate)
        with _keep_creating(site, namespace), ThreadPoolExecutor(1) as kubelet:
            stopped = kubelet.submit(_stop_after_deployment, local, gate)
            run_helm(local, "uninstall", "tallygate", f"--namespace={_OWN}", "--wait", "--timeout=60s")
            stopped.result()
    # Helm waits for its own objects, and the cluster deletes those that they own a moment later.
    kept = [f"Namespace /{_OWN}", f"Secret {_OWN}/tallygate-tls"]
    until("nothing else is left", lambda: _list_left(local) == kept, _WITHIN, lambda: f"{_list_left(local)}")
    _install_by_helm(local, namespace, tmp_path)
    with _run_gate(local, tmp_path) as gate:
        _check_cap_again(site, namespace, gate)
    run_helm(local, "uninstall", "tallygate", f"--namespace={_OWN}", "--wait", "--timeout=60s")
    run_kubectl(local, "delete", "namespace", _OWN, "--timeout=60s")
    assert find_leftovers(local) == []


def test_a_gate_whose_deployment_is_deleted_ends_its_registration_and_one_that_is_scaled_to_0_does_not(
    site: Site, local: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    mine = _write_overlay(tmp_path / "mine", namespace)
    run_kubectl(local, "apply", "-k", str(mine))
    with _run_gate(local, tmp_path) as gate:
        run_kubectl(local, "scale", "deployment/tallygate", f"--namespace={_OWN}", "--replicas=0")
        gate.stop()
        assert _is_registered(local)
        assert "failed calling webhook" in _reject(site, namespace, "refused")
    run_kubectl(local, "scale", "deployment/tallygate", f"--namespace={_OWN}", "--replicas=2")
    with _run_gate(local, tmp_path) as gate:
        _fill(site, namespace, gate)
        with _keep_creating(site, namespace):
            run_kubectl(local, "delete", "deployment/tallygate", f"--namespace={_OWN}")
            gate.stop()
            assert set(_read_registration(local).values()) == {0}


def test_the_registration_of_a_killed_gate_is_deleted_after_its_namespace_whose_ledgers_keep_nothing(
    site: Site, local: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    mine = _write_overlay(tmp_path / "mine", namespace)
    run_kubectl(local, "apply", "-k", str(mine))
    with _run_gate(local, tmp_path) as gate:
        _fill(site, namespace, gate)
        gate.kill()
    assert "failed calling webhook" in _reject(site, namespace, "refused")
    run_kubectl(local, "delete", "namespace", _OWN, "--timeout=60s")
    until("both are deleted", lambda: _read_registration(local) == {}, _WITHIN)
    until("creates go on", lambda: _reject(site, namespace, "accepted") == "", _WITHIN)
