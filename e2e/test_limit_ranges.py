"""Pods under LimitRanges get from the API server what the cases of `check` and of the forecasts expect."""

import json
from pathlib import Path
from typing import Any

import pytest

import tests.accounting
from e2e.api import api
from e2e.namespaces import new_namespace
from e2e.pods import make_deployment
from e2e.ports import Cluster
from e2e.waiting import until

_CASES = json.loads((Path(tests.accounting.__file__).parent / "pods_under_limit_ranges.json").read_text())
_WITHIN = 30.0  # seconds, until admission has the LimitRanges of a new namespace


@pytest.mark.parametrize("case", _CASES, ids=[each["name"] for each in _CASES])
def test_the_api_server_answers_as_recorded(cluster: Cluster, case: dict[str, Any]) -> None:
    with new_namespace(cluster) as namespace:
        create_limit_ranges(cluster, namespace, case)
        answers: list[dict[str, Any]] = []

        def is_as_recorded() -> bool:
            answers.append(ask_for_pod(cluster, namespace, case))
            return bool(answers[-1] == case["answer"])

        until("the answer is as recorded", is_as_recorded, _WITHIN, logs=lambda: str(answers[-1]))


def create_limit_ranges(cluster: Cluster, namespace: str, case: dict[str, Any]) -> None:
    """Create the LimitRanges of a case."""
    for each in case["limitRanges"]:
        body = {"apiVersion": "v1", "kind": "LimitRange", **each}
        api(cluster.kubeconfig).create(f"/api/v1/namespaces/{namespace}/limitranges", body)


def ask_for_pod(cluster: Cluster, namespace: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the API server to the pod of a case, which is not stored."""
    spec = {"automountServiceAccountToken": False, **case["spec"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    path, query = f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}
    answer = api(cluster.kubeconfig).ask("POST", path, pod, query=query)
    content = _read_resources(answer.body) if answer.is_done else {}
    return {"status": answer.status, "message": answer.rejection, **content}


def _read_resources(content: str) -> dict[str, Any]:
    """Return the requests and limits of each container, and the annotation of LimitRanger."""
    pod = json.loads(content)
    spec = pod["spec"]
    containers = (*spec["containers"], *spec.get("initContainers", ()))
    return {
        "resources": {each["name"]: each["resources"] for each in containers},
        "annotation": pod["metadata"].get("annotations", {}).get("kubernetes.io/limit-ranger", ""),
    }


def test_the_api_server_stores_a_template_of_which_it_rejects_the_pods(cluster: Cluster, namespace: str) -> None:
    """Create pods whose limit stands for a missing request, with a pod level that requests less than that."""
    containers = [{"name": "a", "image": "x", "resources": {"limits": {"memory": "1Gi"}}}]
    spec = {"containers": containers, "resources": {"requests": {"memory": "64Mi"}}}
    ours, query = api(cluster.kubeconfig), {"dryRun": "All"}
    deployments, pods = f"/apis/apps/v1/namespaces/{namespace}/deployments", f"/api/v1/namespaces/{namespace}/pods"
    stored = ours.ask("POST", deployments, make_deployment("web", 1, spec), query=query)
    assert stored.is_done, stored.rejection
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}
    rejected = ours.ask("POST", pods, pod, query=query)
    assert "must be greater than or equal to aggregate container requests of 1Gi" in rejected.rejection
