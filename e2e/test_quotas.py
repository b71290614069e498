"""What is told of ResourceQuotas when a workload is applied, held against what ResourceQuota then does to its pods."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from e2e.gates.process import GateProcess
from e2e.pods import pod
from e2e.ports import Cluster, NotHereError, Site
from e2e.registering import register, unregister
from e2e.waiting import until

_WITHIN = 60.0
_GPU = "example.com/dongle"


@pytest.fixture(scope="module")
def following(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """A gate that follows the cluster, with the shipped policies."""
    if not isinstance(site.gate, GateProcess):
        raise NotHereError("it is about a gate of its own, beside the one of the site")
    arguments = ("--cluster=kubeconfig", f"--kubeconfig={site.cluster.kubeconfig}")
    gate = GateProcess(tmp_path_factory.mktemp("gate"), arguments=arguments)
    gate.start()
    register(site.cluster, gate)
    yield gate
    unregister(site.cluster)
    gate.stop()


def _done(cluster: Cluster, *args: str, stdin: str | None = None) -> tuple[str, str]:
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def _quota(cluster: Cluster, namespace: str, hard: dict[str, str], scopes: Sequence[str] = ()) -> None:
    """A quota, computed."""
    spec = {"hard": hard, "scopes": scopes}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    _done(cluster, "apply", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(body))
    computed = ["--for=jsonpath={.status.hard}", "--timeout=60s", "resourcequota/q"]
    _done(cluster, "wait", f"--namespace={namespace}", *computed)


def _deployment(site: Site, name: str, replicas: int, resources: dict[str, Any]) -> dict[str, Any]:
    spec = pod(site, name)["spec"]
    spec["containers"][0]["resources"] = resources
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template,
            "strategy": {"type": "Recreate"},  # else room is missed for a rollout too
        },
    }


def _told(cluster: Cluster, namespace: str, body: dict[str, Any]) -> bool:
    """Whether whoever applies it is told of the quota."""
    _, said = _done(cluster, "apply", f"--namespace={namespace}", "--filename=-", stdin=json.dumps(body))
    assert (said == "") is ("TG208" not in said)
    return "quota q of this namespace" in said


def _is_short(cluster: Cluster, namespace: str, name: str, replicas: int) -> bool:
    """Whether ResourceQuota refuses some of its pods, once that or the opposite is certain."""
    found: list[bool] = []

    def is_certain() -> bool:
        status = json.loads(
            _done(cluster, "get", "deployment", name, f"--namespace={namespace}", "--output=json")[0]
        ).get("status", {})
        if any(each["type"] == "ReplicaFailure" for each in status.get("conditions", ())):
            found.append(True)
        elif status.get("replicas", 0) == replicas:
            found.append(False)
        return bool(found)

    until(f"the pods of {name} are there, or are refused", is_certain, _WITHIN)
    return found[0]


class _Case(NamedTuple):
    """A quota of these scopes, so many pods with these resources, and whether ResourceQuota refuses some."""

    hard: dict[str, str]
    replicas: int
    resources: dict[str, Any]
    is_short: bool
    scopes: Sequence[str] = ()


_ONE = {"limits": {_GPU: "1"}}
_CASES = {
    "what fits exactly": _Case({f"requests.{_GPU}": "3"}, 3, _ONE, is_short=False),
    "one too many": _Case({f"requests.{_GPU}": "3"}, 4, _ONE, is_short=True),
    "pods": _Case({"pods": "2"}, 3, {}, is_short=True),
    "cpu that fits": _Case({"cpu": "1"}, 3, {"requests": {"cpu": "333m"}}, is_short=False),
    "cpu": _Case({"requests.cpu": "1"}, 3, {"requests": {"cpu": "334m"}}, is_short=True),
    "memory": _Case({"limits.memory": "1Gi"}, 3, {"limits": {"memory": "512Mi"}}, is_short=True),
    "a key that never counts": _Case({f"limits.{_GPU}": "1"}, 2, _ONE, is_short=False),
    "a scope that selects": _Case({"pods": "1"}, 2, {}, is_short=True, scopes=["NotTerminating"]),
    "a scope that does not": _Case({"pods": "1"}, 2, {}, is_short=False, scopes=["Terminating"]),
    "burstable pods": _Case({"pods": "1"}, 2, {"requests": {"cpu": "1m"}}, is_short=True, scopes=["NotBestEffort"]),
    "pods of best effort": _Case({"pods": "1"}, 2, _ONE, is_short=False, scopes=["NotBestEffort"]),
}


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
@pytest.mark.usefixtures("following")
def test_who_is_told_is_who_is_refused(site: Site, namespace: str, case: _Case) -> None:
    _quota(site.cluster, namespace, case.hard, case.scopes)
    told = _told(site.cluster, namespace, _deployment(site, "web", case.replicas, case.resources))
    assert (told, _is_short(site.cluster, namespace, "web", case.replicas)) == (case.is_short, case.is_short)


@pytest.mark.usefixtures("following")
def test_what_others_use_is_told_and_room_that_they_leave_is_seen(site: Site, namespace: str) -> None:
    cluster = site.cluster
    _quota(cluster, namespace, {f"requests.{_GPU}": "3"})
    assert not _told(cluster, namespace, _deployment(site, "first", 2, _ONE))
    assert not _is_short(cluster, namespace, "first", 2)
    assert _told(cluster, namespace, _deployment(site, "second", 2, _ONE))
    assert _is_short(cluster, namespace, "second", 2)
    _done(cluster, "delete", "deployment", "first", f"--namespace={namespace}", "--wait")
    used = r"--for=jsonpath={.status.used.requests\.example\.com/dongle}=2"
    _done(cluster, "wait", f"--namespace={namespace}", used, "--timeout=60s", "resourcequota/q")
    assert not _told(cluster, namespace, _deployment(site, "third", 1, _ONE))
