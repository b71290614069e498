"""The overlay `ha` as it is meant: a Deployment, called through its Service, with a certificate of its own.

Installed, upgraded and taken away by the commands of docs/install.md and docs/upgrade.md.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from certs.files import CHAIN, KEY
from e2e.gates.deployment import GateDeployment
from e2e.installation.remains import remains
from e2e.installation.rendered import KUSTOMIZE, Object, listed, own_overlay
from e2e.installation.uninstalling import uninstall
from e2e.installing import install
from e2e.load import STORED, Answer, Clients
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import unregister
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 300.0  # seconds; a busy machine is slow
_PAUSE = 0.1  # seconds between two pods of one client: it is about what happens, not about how much of it
_GATE = "--selector=app.kubernetes.io/component=gate"
_OWNED = (_GATE, f"--namespace={_OWN}")
_FRACTION = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"


@dataclass(frozen=True, slots=True)
class Empty:
    """A cluster without the gate, whose nodes have its image; `before` is what is called like it all the same."""

    image: str
    before: frozenset[str]


@pytest.fixture
def empty(site: Site) -> Iterator[Empty]:
    """The site's own gate makes way, and comes back afterwards as it was."""
    gate, cluster = site.gate, site.cluster
    if not isinstance(gate, GateDeployment):
        raise NotHereError("it takes nodes that run images")
    read = json.loads(_done(cluster, "get", "deployment", "tallygate", f"--namespace={_OWN}", "--output=json"))
    (container,) = read["spec"]["template"]["spec"]["containers"]
    gate.stop()
    unregister(cluster)
    uninstall(cluster)
    yield Empty(container["image"], frozenset(remains(cluster)))
    uninstall(cluster)
    install(cluster, container["image"])
    _applied(cluster, [_certificate(gate)])
    gate.start()


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _overlay(cluster: Cluster, image: str, *more: str) -> list[Object]:
    """As a user writes it: over `ha`, with an image and more arguments."""
    name, _, tag = image.rpartition(":")
    added = [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": each} for each in more]
    own: dict[str, Any] = {"images": [{"name": "tallygate", "newName": name, "newTag": tag}]}
    if added:
        own["patches"] = [{"target": {"kind": "Deployment", "name": "tallygate"}, "patch": json.dumps(added)}]
    return own_overlay(cluster, KUSTOMIZE / "overlays" / "ha", own)


def _certificate(gate: GateDeployment) -> Object:
    """The Secret of the site's own gate, whose certificate is made by hand."""
    files = {name: base64.b64encode((gate.certificates / name).read_bytes()).decode() for name in (CHAIN, KEY)}
    metadata = {"name": "tallygate-tls", "namespace": _OWN}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": files}


def _applied(cluster: Cluster, objects: list[Object]) -> None:
    _done(cluster, "apply", "--server-side", "--force-conflicts", "--filename=-", stdin=listed(objects))


def _is_refused(cluster: Cluster) -> bool:
    asks = {"requests": {_FRACTION: "1500m"}, "limits": {_FRACTION: "1500m"}}
    spec = {"containers": [{"name": "main", "image": "none", "resources": asks}]}
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong", "namespace": "default"}, "spec": spec}
    done = cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(wrong))
    return done.returncode != 0 and "not a whole number" in done.stderr


def _logs(cluster: Cluster) -> str:
    described = cluster.kubectl("describe", "pods", *_OWNED).stdout
    return described[-3000:] + cluster.kubectl("logs", *_OWNED, "--tail=40", "--prefix").stdout


def _rolled_out(cluster: Cluster, objects: list[Object]) -> None:
    """First the gate, then what the API server is told of it."""
    manifest = listed(objects)
    # Its namespace goes first where nothing is there yet: a selector keeps no order.
    _done(cluster, "apply", f"--filename={KUSTOMIZE / 'base' / 'namespace.yaml'}")
    _done(cluster, "apply", _GATE, "--filename=-", stdin=manifest)
    done = cluster.kubectl("rollout", "status", "deployment/tallygate", f"--namespace={_OWN}", "--timeout=300s")
    assert done.returncode == 0, _logs(cluster)
    _done(cluster, "apply", "--filename=-", stdin=manifest)


def _created_meanwhile(site: Site, namespace: str, act: Callable[[], None]) -> list[Answer]:
    """What a client hears who creates one pod after the other while something is done."""
    answers: list[Answer] = []
    with Clients(site.cluster, namespace) as clients, ThreadPoolExecutor(1) as beside:
        doing = beside.submit(act)
        while not doing.done():
            answers.append(clients.create_one(pod(site, f"p-{uuid4().hex}", "0")))
            time.sleep(_PAUSE)
        doing.result()
    return answers


def test_installed_without_a_replica_upgraded_and_taken_away(site: Site, namespace: str, empty: Empty) -> None:
    cluster = site.cluster
    _rolled_out(cluster, _overlay(cluster, empty.image))
    until("a fraction is refused", lambda: _is_refused(cluster), _WITHIN, lambda: _logs(cluster))
    pods = _done(cluster, "get", "pods", *_OWNED, "--output=name").split()
    assert len(pods) == 2
    _done(cluster, "delete", pods[0], f"--namespace={_OWN}", "--wait=false")
    assert all(_is_refused(cluster) for _ in range(20))

    newer = _overlay(cluster, empty.image, "--log-level=debug")
    answers = _created_meanwhile(site, namespace, lambda: _rolled_out(cluster, newer))
    assert [answer for answer in answers if answer.status != STORED] == []
    assert _is_refused(cluster)
    said = _logs(cluster).lower()
    assert "forbidden" not in said
    assert "traceback" not in said

    uninstall(cluster)
    assert sorted(set(remains(cluster)) - empty.before) == []
    assert not _is_refused(cluster)
