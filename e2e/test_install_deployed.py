"""The overlay `ha` as it is meant: a Deployment, called through its Service, with a certificate of its own."""

import base64
import json
from collections.abc import Iterator

import pytest

from certs.files import CHAIN, KEY
from e2e.gates.deployment import GateDeployment
from e2e.installation.rendered import KUSTOMIZE, Object, listed, own_overlay, registers
from e2e.installing import install
from e2e.ledgers import forget_ledgers
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import unregister
from e2e.waiting import until

_OWN = "tallygate-system"
_WITHIN = 300.0  # seconds; a busy machine is slow
_FRACTION = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"


@pytest.fixture
def image(site: Site) -> Iterator[str]:
    """The image of the site's own gate, which makes way, and comes back afterwards as it was."""
    gate, cluster = site.gate, site.cluster
    if not isinstance(gate, GateDeployment):
        raise NotHereError("it takes nodes that run images")
    read = json.loads(_done(cluster, "get", "deployment", "tallygate", f"--namespace={_OWN}", "--output=json"))
    (container,) = read["spec"]["template"]["spec"]["containers"]
    gate.stop()
    unregister(cluster)
    yield container["image"]
    unregister(cluster)
    gate.stop()
    forget_ledgers(cluster, _OWN)
    ours = _overlay(cluster, container["image"])
    kept = {(each["kind"], each["metadata"]["name"]) for each in own_overlay(cluster, KUSTOMIZE / "base", {})}
    more = [each for each in ours if (each["kind"], each["metadata"]["name"]) not in kept]
    _done(cluster, "delete", "--ignore-not-found", "--filename=-", stdin=listed(more))
    install(cluster, container["image"])
    _done(cluster, "delete", "secret", "tallygate-tls", f"--namespace={_OWN}", "--ignore-not-found")
    _applied(cluster, [_certificate(gate)])
    gate.start()


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _overlay(cluster: Cluster, image: str) -> list[Object]:
    name, _, tag = image.rpartition(":")
    own = {"images": [{"name": "tallygate", "newName": name, "newTag": tag}]}
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
    chosen = ("--selector=app.kubernetes.io/component=gate", f"--namespace={_OWN}")
    described = cluster.kubectl("describe", "pods", *chosen).stdout
    return described[-3000:] + cluster.kubectl("logs", *chosen, "--tail=40", "--prefix").stdout


def test_two_replicas_run_with_their_own_certificate_and_go_on_when_one_is_taken_away(site: Site, image: str) -> None:
    cluster = site.cluster
    objects = _overlay(cluster, image)
    _applied(cluster, [each for each in objects if not registers(each)])
    done = cluster.kubectl("rollout", "status", "deployment/tallygate", f"--namespace={_OWN}", "--timeout=300s")
    assert done.returncode == 0, _logs(cluster)
    _applied(cluster, objects)
    until("a fraction is refused", lambda: _is_refused(cluster), _WITHIN, lambda: _logs(cluster))
    chosen = ("--selector=app.kubernetes.io/component=gate", f"--namespace={_OWN}")
    pods = _done(cluster, "get", "pods", *chosen, "--output=name").split()
    assert len(pods) == 2
    _done(cluster, "delete", pods[0], f"--namespace={_OWN}", "--wait=false")
    assert all(_is_refused(cluster) for _ in range(20))
    said = _logs(cluster).lower()
    assert "forbidden" not in said
    assert "traceback" not in said
