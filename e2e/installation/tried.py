"""What somebody tries on a gate that was installed: whether it refuses, what its cap lets in, what doctor says."""

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.installation.desk import Desk
from e2e.load import STORED, Answer, Clients
from e2e.pods import pod
from e2e.ports import Cluster, Site
from e2e.waiting import until
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE

WITHIN: Final = 240.0
"""Seconds until something is so; a busy machine is slow, and a new ledger promises nothing for forty seconds."""

_GATE = ("--selector=app.kubernetes.io/component=gate", f"--namespace={DEFAULT_NAMESPACE}")
_DOCTORED = 120.0  # seconds
_FRACTION = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_MOST = 2  # dongles
_PAUSE = 0.1  # seconds between two pods of one client: it is about what happens, not about how much of it
_LOOKED = {0, 1}  # exit codes of a doctor who has
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: tried}}
spec:
  namespaces: {{include: [{namespace}]}}
  hard: {{example.com/dongle: {most}, pods: 100000}}
"""


def cap(namespace: str) -> str:
    """A policy file: two dongles, and any number of pods, so that each is counted."""
    return _CAP.format(namespace=namespace, most=_MOST)


def refuses(cluster: Cluster) -> bool:
    """Whether a fraction is refused by the gate."""
    asks = {"requests": {_FRACTION: "1500m"}, "limits": {_FRACTION: "1500m"}}
    spec = {"containers": [{"name": "main", "image": "none", "resources": asks}]}
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong", "namespace": "default"}, "spec": spec}
    done = cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(wrong))
    return done.returncode != 0 and "not a whole number" in done.stderr


def until_it_refuses(cluster: Cluster) -> None:
    """Wait until the gate judges.

    Raises:
        ClusterError: it does not in time; the text has what its pods say.
    """
    until("a fraction is refused", partial(refuses, cluster), WITHIN, partial(logged, cluster))


def fill(site: Site, namespace: str, begins: str) -> None:
    """Create as many pods with a dongle as the cap allows; their names begin so. A new ledger opens after a while.

    Raises:
        ClusterError: they are not let in in time; the text has what the gate's pods say.
    """
    with Clients(site.cluster, namespace) as clients:
        for number in range(_MOST):
            one = pod(site, f"{begins}-{number}")
            until(
                f"{begins}-{number} is let in", partial(_is_let_in, clients, one), WITHIN, partial(logged, site.cluster)
            )


def over(site: Site, namespace: str) -> Answer:
    """What is said of one more dongle; nothing of it is stored."""
    with Clients(site.cluster, namespace) as clients:
        return clients.create_one(pod(site, "one-too-many"))


def is_over(answer: Answer) -> bool:
    """Whether that is the cap's refusal."""
    return answer.status == HTTPStatus.FORBIDDEN and "(TG201, cap tried)" in answer.message


def created_meanwhile(site: Site, namespace: str, act: Callable[[], None]) -> list[Answer]:
    """What a client hears who creates one pod after the other while something is done."""
    answers: list[Answer] = []
    with Clients(site.cluster, namespace) as clients, ThreadPoolExecutor(1) as beside:
        doing = beside.submit(act)
        while not doing.done():
            answers.append(clients.create_one(pod(site, f"p-{uuid4().hex}", "0")))
            time.sleep(_PAUSE)
        doing.result()
    return answers


def logged(cluster: Cluster) -> str:
    """What the gate's pods say, and what is said of them."""
    described = cluster.kubectl("describe", "pods", *_GATE).stdout
    return described[-3000:] + cluster.kubectl("logs", *_GATE, "--tail=40", "--prefix").stdout


def pods(cluster: Cluster) -> list[str]:
    """The names of the gate's pods that are not being deleted."""
    read = json.loads(cluster.kubectl("get", "pods", *_GATE, "--output=json").stdout)["items"]
    return sorted(each["metadata"]["name"] for each in read if "deletionTimestamp" not in each["metadata"])


def readiness(cluster: Cluster, name: str) -> dict[str, Any]:
    """The checks that a replica's `/readyz` tells of; none where it is not ready, or not reached."""
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods/{name}:9090/proxy/readyz"
    done = cluster.kubectl("get", "--raw", path)
    checks: dict[str, Any] = json.loads(done.stdout)["checks"] if done.returncode == 0 else {}
    return checks


def until_doctor_warns(desk: Desk, warned: Mapping[str, str]) -> None:
    """Wait until `tallygate doctor` finds everything PASS but these checks, which come to what is said here.

    Raises:
        ClusterError: it does not in time, or does not look; the text has what it says.
    """

    def is_so() -> bool:
        return {check: said.partition(" ")[0] for check, said in _not_well(desk).items()} == warned

    until("doctor says what it should", is_so, _DOCTORED, lambda: f"{_not_well(desk)}")


def _not_well(desk: Desk) -> dict[str, str]:
    """The checks that are not PASS, with what is said of each."""
    done = desk.tried("tallygate doctor --output json")
    if done.returncode not in _LOOKED:
        raise ClusterError(f"tallygate doctor: exit code {done.returncode}\n{done.stderr}")
    found = json.loads(done.stdout)["checks"]
    return {each["check"]: f"{each['result']} {each['reason']}" for each in found if each["result"] != "PASS"}


def _is_let_in(clients: Clients, one: dict[str, object]) -> bool:
    return clients.create_one(one).status == STORED
