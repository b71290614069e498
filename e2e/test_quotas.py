"""Warnings about ResourceQuotas for an applied workload, compared with what ResourceQuota then does to its pods."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from e2e.api import Object, api
from e2e.extra_gates import run_watching_gate
from e2e.gates.process import GateProcess
from e2e.pods import pod
from e2e.ports import Cluster, Site
from e2e.waiting import until

_WITHIN = 240.0  # seconds
_GPU = "example.com/dongle"


@pytest.fixture(scope="module")
def watching_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate that watches the cluster, with the shipped policies."""
    with run_watching_gate(site, tmp_path_factory.mktemp("gate"), {}) as gate:
        yield gate


def _quota(site: Site, namespace: str, hard: dict[str, str], scopes: Sequence[str] = ()) -> None:
    """Create a computed quota that the gate has seen: it warns of one that was made and computed after it."""
    _create_computed(site.cluster, namespace, "q", {"hard": hard, "scopes": scopes})
    _create_computed(site.cluster, namespace, "later", {"hard": {"pods": "100"}})
    probe = _deployment(site, "probe", 101, {})
    until("the gate has seen it", lambda: "quota later" in _ask_dry(site.cluster, namespace, probe), _WITHIN)


def _create_computed(cluster: Cluster, namespace: str, name: str, spec: dict[str, Any]) -> None:
    api(cluster.kubeconfig).create(_quotas(namespace), {"metadata": {"name": name}, "spec": spec})
    until(f"quota {name} is computed", lambda: "hard" in _status(cluster, f"{_quotas(namespace)}/{name}"), _WITHIN)


def _quotas(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas"


def _deployments(namespace: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def _status(cluster: Cluster, path: str) -> Object:
    status: Object = api(cluster.kubeconfig).get(path).get("status", {})
    return status


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


def _is_warned(cluster: Cluster, namespace: str, body: dict[str, Any]) -> bool:
    """Return whether its creation returns a warning about the quota."""
    answer = api(cluster.kubeconfig).ask("POST", _deployments(namespace), body)
    assert answer.is_done, answer.rejection
    messages = answer.messages
    assert (messages == "") is ("TG208" not in messages)
    return "quota q of this namespace" in messages


def _ask_dry(cluster: Cluster, namespace: str, body: dict[str, Any]) -> str:
    """Return the messages of its creation, as a dry run."""
    answer = api(cluster.kubeconfig).ask("POST", _deployments(namespace), body, query={"dryRun": "All"})
    assert answer.is_done, answer.rejection
    return answer.messages


def _is_short(cluster: Cluster, namespace: str, name: str, replicas: int) -> bool:
    """Return whether ResourceQuota rejects some of its pods, once that or the opposite is certain.

    It also rejects pods before it has seen that a quota is computed; that passes.
    """
    found: list[bool] = []

    def is_certain() -> bool:
        status = _status(cluster, f"{_deployments(namespace)}/{name}")
        failures = [each["message"] for each in status.get("conditions", ()) if each["type"] == "ReplicaFailure"]
        if any("exceeded quota" in each for each in failures):
            found.append(True)
        elif status.get("replicas", 0) == replicas:
            found.append(False)
        return bool(found)

    until(f"the pods of {name} are there, or are refused", is_certain, _WITHIN)
    return found[0]


class _Case(NamedTuple):
    """A quota of these scopes, a number of pods with these resources, and whether ResourceQuota rejects some."""

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
@pytest.mark.usefixtures("watching_gate")
def test_the_gate_warns_of_exactly_the_workloads_whose_pods_a_quota_rejects(
    site: Site, namespace: str, case: _Case
) -> None:
    _quota(site, namespace, case.hard, case.scopes)
    is_warned = _is_warned(site.cluster, namespace, _deployment(site, "web", case.replicas, case.resources))
    assert (is_warned, _is_short(site.cluster, namespace, "web", case.replicas)) == (case.is_short, case.is_short)


@pytest.mark.usefixtures("watching_gate")
def test_the_use_of_other_workloads_is_reported_and_what_they_free_is_seen(site: Site, namespace: str) -> None:
    cluster = site.cluster
    _quota(site, namespace, {f"requests.{_GPU}": "3"})
    assert not _is_warned(cluster, namespace, _deployment(site, "first", 2, _ONE))
    assert not _is_short(cluster, namespace, "first", 2)
    second, third = _deployment(site, "second", 2, _ONE), _deployment(site, "third", 1, _ONE)
    until("the gate has seen what is used", lambda: "quota q " in _ask_dry(cluster, namespace, second), _WITHIN)
    assert _is_warned(cluster, namespace, second)
    assert _is_short(cluster, namespace, "second", 2)
    api(cluster.kubeconfig).delete(f"{_deployments(namespace)}/first")
    used = {f"requests.{_GPU}": "2"}
    until("room is left", lambda: _status(cluster, f"{_quotas(namespace)}/q")["used"] == used, _WITHIN)
    until("the gate has seen what is free", lambda: not _ask_dry(cluster, namespace, third), _WITHIN)
    assert not _is_warned(cluster, namespace, third)
