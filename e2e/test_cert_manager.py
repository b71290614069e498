"""The overlay `cert-manager` with cert-manager itself: what it issues and renews is taken up, and nobody is refused."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.cert_manager.certificates import issued, renew_all, trusted_by_all
from e2e.cert_manager.running import CERT_MANAGER, cert_manager
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE
from e2e.installation.process import InstalledGate
from e2e.installation.rendered import KUSTOMIZE, Object, listed, own_overlay
from e2e.installation.uninstalling import uninstall
from e2e.load import STORED, Clients
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 240.0  # seconds


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster in which cert-manager runs, and nothing of the gate is."""
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate that runs as a process here, beside cert-manager")
    if CERT_MANAGER.built() is None:
        raise NotHereError("cert-manager is not built here; `python -m e2e.cert_manager` does it, in some minutes")
    uninstall(site.cluster)
    with cert_manager(site.cluster, tmp_path / "cert-manager"):
        yield site.cluster
        uninstall(site.cluster)


def _overlay(cluster: Cluster) -> list[Object]:
    """As shipped, and good for the address by which the API server calls a process of this machine."""
    added = json.dumps([{"op": "add", "path": "/spec/ipAddresses", "value": [HERE]}])
    own = {"patches": [{"target": {"kind": "Certificate", "name": "tallygate"}, "patch": added}]}
    return own_overlay(cluster, KUSTOMIZE / "overlays" / "cert-manager", own)


def _serves(gate: InstalledGate) -> str:
    shown: str = gate.readiness()["checks"]["certificate"]["fingerprint"]
    return shown


def _bring(cluster: Cluster, gate: InstalledGate) -> None:
    """Let the gate have what is issued, as the kubelet does within two minutes; return once it serves with that."""
    gate.bring_certificate()
    until("it is taken up", lambda: _serves(gate) == issued(cluster), _WITHIN, gate.log)


def test_what_cert_manager_issues_and_renews_is_taken_up_and_no_create_fails(
    site: Site, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    objects = _overlay(cluster)
    said(cluster, "apply", "--selector=app.kubernetes.io/component=gate", "--filename=-", stdin=listed(objects))
    until("the certificate is issued", lambda: issued(cluster) != "", _WITHIN)
    gate = InstalledGate(cluster, _OWN, tmp_path / "gate")
    gate.bring_certificate()
    gate.start()
    try:
        said(cluster, "apply", "--filename=-", stdin=listed(gate.called_here(objects)))
        until("the injector has filled in whom to trust", lambda: trusted_by_all(cluster, 1), _WITHIN)
        with Clients(cluster, namespace) as clients:
            until("a pod is let in", lambda: clients.create_one(pod(site, "first", "0")).status == STORED, _WITHIN)
            with clients.creating(lambda _: pod(site, f"p-{uuid4().hex}", "0")) as answers:
                renew_all(cluster, partial(_bring, cluster, gate), answers)
    finally:
        gate.stop()
    assert [answer for answer in answers if answer.status != STORED] == []
