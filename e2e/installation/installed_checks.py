"""Checks of an installed gate: whether it rejects, what its cap accepts, what doctor reports."""

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

from e2e.errors import ClusterError
from e2e.installation.admin_shell import AdminShell
from e2e.load import STORED, Answer, Clients
from e2e.pods import pod
from e2e.ports import Cluster, Site
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE

WITHIN: Final = 240.0
"""Seconds until something is so; a busy machine is slow, and a new ledger reserves nothing for forty seconds."""

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


def format_cap(namespace: str) -> str:
    """Return a policy file: two dongles, and any number of pods, so that each is counted."""
    return _CAP.format(namespace=namespace, most=_MOST)


def rejects_fraction(cluster: Cluster) -> bool:
    """Return whether the gate rejects a fraction."""
    asks = {"requests": {_FRACTION: "1500m"}, "limits": {_FRACTION: "1500m"}}
    spec = {"containers": [{"name": "main", "image": "none", "resources": asks}]}
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong", "namespace": "default"}, "spec": spec}
    done = cluster.kubectl("create", "--dry-run=server", "--filename=-", stdin=json.dumps(wrong))
    return done.returncode != 0 and "not a whole number" in done.stderr


def until_it_rejects(cluster: Cluster) -> None:
    """Wait until the gate evaluates requests.

    Raises:
        ClusterError: if it does not in time; the text has what its pods say.
    """
    until("a fraction is refused", partial(rejects_fraction, cluster), WITHIN, partial(read_logs, cluster))


def fill_cap(site: Site, namespace: str, begins: str) -> None:
    """Create as many pods with a dongle as the cap allows, named by a prefix. A new ledger is active after a while.

    Raises:
        ClusterError: if they are not accepted in time; the text has the logs of the gate's pods.
    """
    with Clients(site.cluster, namespace) as clients:
        for number in range(_MOST):
            one = pod(site, f"{begins}-{number}")
            until(
                f"{begins}-{number} is accepted",
                partial(_is_accepted, clients, one),
                WITHIN,
                partial(read_logs, site.cluster),
            )


def exceed_cap(site: Site, namespace: str) -> Answer:
    """Return the answer to one dongle more; nothing of it is stored."""
    with Clients(site.cluster, namespace) as clients:
        return clients.create_one(pod(site, "one-too-many"))


def is_cap_rejection(answer: Answer) -> bool:
    """Return whether the answer is the cap's rejection."""
    return answer.status == HTTPStatus.FORBIDDEN and "(TG201, cap tried)" in answer.message


def create_during(site: Site, namespace: str, act: Callable[[], None]) -> list[Answer]:
    """Run an action, and return the answers to a client that creates one pod after the other meanwhile."""
    answers: list[Answer] = []
    with Clients(site.cluster, namespace) as clients, ThreadPoolExecutor(1) as executor:
        action = executor.submit(act)
        while not action.done():
            answers.append(clients.create_one(pod(site, f"p-{uuid4().hex}", "0")))
            time.sleep(_PAUSE)
        action.result()
    return answers


def read_logs(cluster: Cluster) -> str:
    """Return the logs of the gate's pods, and their descriptions."""
    described = cluster.kubectl("describe", "pods", *_GATE).stdout
    return described[-3000:] + cluster.kubectl("logs", *_GATE, "--tail=40", "--prefix").stdout


def list_gate_pods(cluster: Cluster) -> list[str]:
    """Return the names of the gate's pods that are not being deleted."""
    read = json.loads(cluster.kubectl("get", "pods", *_GATE, "--output=json").stdout)["items"]
    return sorted(each["metadata"]["name"] for each in read if "deletionTimestamp" not in each["metadata"])


def read_checks(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return the checks of a replica's `/readyz`; empty if it is not ready, or not reached."""
    path = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods/{name}:9090/proxy/readyz"
    done = cluster.kubectl("get", "--raw", path)
    checks: dict[str, Any] = json.loads(done.stdout)["checks"] if done.returncode == 0 else {}
    return checks


def until_doctor_warns(shell: AdminShell, warnings: Mapping[str, str]) -> None:
    """Wait until `tallygate doctor` reports PASS for every check but these, with the expected results.

    Raises:
        ClusterError: if it takes too long, or doctor fails; the text has its output.
    """

    def is_so() -> bool:
        return {check: text.partition(" ")[0] for check, text in _find_warnings(shell).items()} == warnings

    until("doctor says what it should", is_so, _DOCTORED, lambda: f"{_find_warnings(shell)}")


def _find_warnings(shell: AdminShell) -> dict[str, str]:
    """Return the checks that are not PASS, each with its result and reason."""
    done = shell.run_unchecked("tallygate doctor --output json")
    if done.returncode not in _LOOKED:
        raise ClusterError(f"tallygate doctor: exit code {done.returncode}\n{done.stderr}")
    found = json.loads(done.stdout)["checks"]
    return {each["check"]: f"{each['result']} {each['reason']}" for each in found if each["result"] != "PASS"}


def _is_accepted(clients: Clients, one: dict[str, object]) -> bool:
    return clients.create_one(one).status == STORED
