"""The overlay `cert-manager` with cert-manager itself: its certificates are reloaded, and no create is rejected."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from e2e.cert_manager.certificates import has_authorities_everywhere, read_fingerprint, renew_all
from e2e.cert_manager.running import CERT_MANAGER, run_cert_manager
from e2e.command_output import run_kubectl
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE
from e2e.installation.process import InstalledGate
from e2e.installation.rendered import KUSTOMIZE, Object, render_own_overlay, to_list
from e2e.installation.uninstalling import uninstall
from e2e.load import STORED, Clients
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 240.0  # seconds


@pytest.fixture
def cluster(site: Site, tmp_path: Path) -> Iterator[Cluster]:
    """Yield a cluster in which cert-manager runs, and nothing of the gate is."""
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate that runs as a process here, beside cert-manager")
    if CERT_MANAGER.find_built() is None:
        raise NotHereError("cert-manager is not built here; `python -m e2e.cert_manager` does it, in some minutes")
    uninstall(site.cluster)
    with run_cert_manager(site.cluster, tmp_path / "cert-manager"):
        yield site.cluster
        uninstall(site.cluster)


def _overlay(cluster: Cluster) -> list[Object]:
    """Render the overlay as shipped, for the address by which the API server calls a process of this machine."""
    added = json.dumps([{"op": "add", "path": "/spec/ipAddresses", "value": [HERE]}])
    own = {"patches": [{"target": {"kind": "Certificate", "name": "tallygate"}, "patch": added}]}
    return render_own_overlay(cluster, KUSTOMIZE / "overlays" / "cert-manager", own)


def _serves(gate: InstalledGate) -> str:
    shown: str = gate.readiness()["checks"]["certificate"]["fingerprint"]
    return shown


def _bring(cluster: Cluster, gate: InstalledGate) -> None:
    """Hand the issued certificate to the gate, as the kubelet does in two minutes; return once it serves with it."""
    gate.bring_certificate()
    until("it is reloaded", lambda: _serves(gate) == read_fingerprint(cluster), _WITHIN, gate.log)


def test_certificates_that_cert_manager_issues_and_renews_are_reloaded_and_no_create_fails(
    site: Site, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    objects = _overlay(cluster)
    run_kubectl(cluster, "apply", "--selector=app.kubernetes.io/component=gate", "--filename=-", stdin=to_list(objects))
    until("the certificate is issued", lambda: read_fingerprint(cluster) != "", _WITHIN)
    gate = InstalledGate(cluster, _OWN, tmp_path / "gate")
    gate.bring_certificate()
    gate.start()
    try:
        run_kubectl(cluster, "apply", "--filename=-", stdin=to_list(gate.redirect_webhooks(objects)))
        until("the injector has filled in the CA bundle", lambda: has_authorities_everywhere(cluster, 1), _WITHIN)
        with Clients(cluster, namespace) as clients:
            until("a pod is accepted", lambda: clients.create_one(pod(site, "first", "0")).status == STORED, _WITHIN)
            with clients.creating(lambda _: pod(site, f"p-{uuid4().hex}", "0")) as answers:
                renew_all(cluster, partial(_bring, cluster, gate), answers)
    finally:
        gate.stop()
    assert [answer for answer in answers if answer.status != STORED] == []
