"""The overlay `cert-manager` with cert-manager itself: what it issues and renews is taken up, and nobody is refused."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography import x509

from certs.kept import fingerprint
from e2e.cert_manager.running import CERT_MANAGER, cert_manager
from e2e.gates.process import GateProcess
from e2e.gates.running import HERE
from e2e.installation.process import InstalledGate
from e2e.installation.rendered import KUSTOMIZE, Object, listed, own_overlay
from e2e.installation.uninstalling import uninstall
from e2e.load import STORED, Answer, Clients, until_more
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.said import said
from e2e.waiting import until

_OWN = "tallygate-system"
_SECRETS = {"tallygate": "tallygate-tls", "tallygate-authority": "tallygate-authority"}
"""What each Certificate of the component is kept in."""

_WITHIN = 240.0  # seconds
_MEANWHILE = 40  # pods that are created between two steps


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


def _secret(cluster: Cluster, name: str) -> dict[str, str]:
    """What it holds; nothing when it is not there."""
    text = said(cluster, "get", "secret", name, f"--namespace={_OWN}", "--ignore-not-found", "--output=json")
    data: dict[str, str] = json.loads(text)["data"] if text.strip() else {}
    return data


def _issued(cluster: Cluster, name: str) -> str:
    """The fingerprint of the certificate that a Secret holds; empty while there is none."""
    text = _secret(cluster, name).get("tls.crt", "")
    return fingerprint(x509.load_pem_x509_certificate(base64.b64decode(text))) if text else ""


def _is_another(cluster: Cluster, name: str, before: str) -> bool:
    return _issued(cluster, name) not in {"", before}


def _renew(cluster: Cluster, name: str) -> None:
    """As `cmctl renew` does; return once another is issued (cert-manager, cmd/ctl/pkg/renew)."""
    own, secret = f"--namespace={_OWN}", _SECRETS[name]
    before = _issued(cluster, secret)
    found = json.loads(said(cluster, "get", "certificates.cert-manager.io", name, own, "--output=json"))
    conditions = [each for each in found["status"]["conditions"] if each["type"] != "Issuing"]
    asked: dict[str, Any] = {"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand"}
    asked |= {"lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    patch = json.dumps({"status": {"conditions": [*conditions, asked]}})
    merged = ("--subresource=status", "--type=merge", f"--patch={patch}")
    said(cluster, "patch", "certificates.cert-manager.io", name, own, *merged)
    until(f"{name} is renewed", partial(_is_another, cluster, secret, before), _WITHIN)


def _delete(cluster: Cluster, name: str) -> None:
    """Take a certificate's Secret away; return once it is issued anew."""
    before = _issued(cluster, name)
    said(cluster, "delete", "secret", name, f"--namespace={_OWN}")
    until(f"{name} is issued anew", partial(_is_another, cluster, name, before), _WITHIN)


def _serves(gate: InstalledGate) -> str:
    shown: str = gate.readiness()["checks"]["certificate"]["fingerprint"]
    return shown


def _bring(cluster: Cluster, gate: InstalledGate) -> None:
    """Let the gate have what is issued, as the kubelet does within two minutes; return once it serves with that."""
    gate.bring_certificate()
    until("it is taken up", lambda: _serves(gate) == _issued(cluster, "tallygate-tls"), _WITHIN, gate.log)


def _trusted(cluster: Cluster) -> list[bytes]:
    """What each webhook trusts."""
    kinds = "mutatingwebhookconfiguration/tallygate", "validatingwebhookconfiguration/tallygate"
    read = json.loads(said(cluster, "get", *kinds, "--output=json"))["items"]
    clients = [webhook["clientConfig"] for each in read for webhook in each["webhooks"]]
    return [base64.b64decode(each.get("caBundle", "")) for each in clients]


def _trust(cluster: Cluster, authorities: int) -> bool:
    return all(text.count(b"BEGIN CERTIFICATE") == authorities for text in _trusted(cluster))


def test_what_cert_manager_issues_and_renews_is_taken_up_and_no_create_fails(
    site: Site, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    objects = _overlay(cluster)
    said(cluster, "apply", "--selector=app.kubernetes.io/component=gate", "--filename=-", stdin=listed(objects))
    until("the certificate is issued", lambda: _issued(cluster, "tallygate-tls") != "", _WITHIN)
    gate = InstalledGate(cluster, _OWN, tmp_path / "gate")
    gate.bring_certificate()
    gate.start()
    try:
        said(cluster, "apply", "--filename=-", stdin=listed(gate.called_here(objects)))
        until("the injector has filled in whom to trust", lambda: _trust(cluster, 1), _WITHIN)
        with Clients(cluster, namespace) as clients:
            until("a pod is let in", lambda: clients.create_one(pod(site, "first", "0")).status == STORED, _WITHIN)
            with clients.creating(lambda _: pod(site, f"p-{uuid4().hex}", "0")) as answers:
                _renew_all(cluster, gate, answers)
    finally:
        gate.stop()
    assert [answer for answer in answers if answer.status != STORED] == []


def _renew_all(cluster: Cluster, gate: InstalledGate, answers: list[Answer]) -> None:
    _renew(cluster, "tallygate")
    _bring(cluster, gate)
    until_more(answers, _MEANWHILE)
    _delete(cluster, "tallygate-tls")
    _bring(cluster, gate)
    until_more(answers, _MEANWHILE)
    _renew(cluster, "tallygate-authority")
    _renew(cluster, "tallygate")
    until("the injector has put the new authority beside the old one", lambda: _trust(cluster, 2), _WITHIN)
    until_more(answers, _MEANWHILE)  # who has the old certificate still is trusted
    _bring(cluster, gate)
    until_more(answers, _MEANWHILE)
