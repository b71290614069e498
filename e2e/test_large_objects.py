"""Objects as large as etcd takes still go through the webhooks: neither conditions nor the gate give up on them."""

from typing import Any

import pytest

from e2e.api import api
from e2e.ports import Cluster

_LARGE = 1024 * 1024  # bytes; etcd takes one and a half times as much in all
_VARIABLES = 5_000  # small ones, so that there is much to compare beside much to read
_FRACTION = {"limits": {"example.com/dongle": "1500m"}}


def _spec() -> dict[str, Any]:
    each = "x" * (_LARGE // _VARIABLES - 80)  # what is left beside its name, quotes and managedFields
    env = [{"name": f"V{number}", "value": each} for number in range(_VARIABLES)]
    return {"containers": [{"name": "main", "image": "none", "env": env}], "tolerations": [{"key": "nowhere"}]}


def _objects() -> dict[str, dict[str, Any]]:
    labels = {"app": "large"}
    template = {"metadata": {"labels": labels}, "spec": _spec()}
    deployment = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": _spec()},
        "deployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "large"},
            "spec": deployment,
        },
    }


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize("kind", ["pod", "deployment"])
def test_an_object_of_a_megabyte_is_created_and_updated(cluster: Cluster, namespace: str, kind: str) -> None:
    ours, large = api(cluster.kubeconfig), _objects()[kind]
    path = ours.collection(large, namespace)
    ours.create(path, large)
    assert len(ours.ask("GET", f"{path}/large").body) > _LARGE
    for change in ({"annotations": {"note": "1"}}, {"labels": {"tier": "x"}}, {"labels": {"tier": None}}):
        ours.patch(f"{path}/large", {"metadata": change})


@pytest.mark.usefixtures("gate")
def test_a_mistake_in_an_object_of_a_megabyte_is_reported(cluster: Cluster, namespace: str) -> None:
    pod = _objects()["pod"]
    pod["spec"]["containers"][0]["resources"] = _FRACTION
    refusal = api(cluster.kubeconfig).ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod).rejection
    assert "1500m is not a whole number" in refusal
    assert "TG101" in refusal
