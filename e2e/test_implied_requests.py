"""Implied requests on a real control plane: pods take addresses of their node, and the scheduler fills it exactly.

`tallygate predict` says beforehand what the scheduler then says about the pod that waits.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Object, api
from e2e.command_output import run_tallygate
from e2e.extra_gates import run_watching_gate
from e2e.gates.process import GateProcess
from e2e.node_resources import DONGLES, advertise
from e2e.pods import make_deployment
from e2e.ports import Site
from e2e.suite_node import restore_node
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_IP = "example.com/ip"
_ONE = {_IP: "1"}
_POLICY = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {{name: one-address-each}}
spec:
  resource: {_IP}
  unless: {{hostNetwork: true}}
  match: {{namespaces: {{include: ["case-*"]}}}}
"""


@pytest.fixture(scope="module")
def implying_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate on this machine that gives each pod of a case an address."""
    folder = tmp_path_factory.mktemp("gate")
    with run_watching_gate(site, folder, {"addresses.yaml": _POLICY}, is_conditioned=True) as gate:
        yield gate


@pytest.fixture
def three_addresses(site: Site, namespace: str, implying_gate: GateProcess) -> Iterator[str]:
    """Yield a namespace, while the node has three addresses."""
    del implying_gate  # it runs
    restore_node(site, namespace)
    advertise(site.cluster, site.node, site.own | {**DONGLES, _IP: "3"})
    yield namespace
    for kind in ("apps/v1/namespaces/{}/deployments", "apps/v1/namespaces/{}/daemonsets"):
        api(site.cluster.kubeconfig).delete(f"/apis/{kind.format(namespace)}")
    api(site.cluster.kubeconfig).delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds="0")
    restore_node(site, namespace)


def _spec(site: Site, resources: Object | None = None, **more: Any) -> Object:
    container: Object = {"name": "main", "image": site.image}
    return {"containers": [container | ({"resources": resources} if resources else {})], **more}


def _pod(site: Site, name: str, resources: Object | None = None, **more: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _spec(site, resources, **more)}


def _list_pods(site: Site, namespace: str) -> list[Object]:
    return list(api(site.cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods"))


def _list_placed(site: Site, namespace: str) -> list[Object]:
    return [each for each in _list_pods(site, namespace) if each["spec"].get("nodeName")]


def _list_messages(site: Site, namespace: str) -> list[str]:
    """Return the scheduler's messages about the pods that wait."""
    return [
        condition["message"]
        for each in _list_pods(site, namespace)
        for condition in each["status"].get("conditions", ())
        if condition["type"] == "PodScheduled" and condition["status"] == "False"
    ]


def _predict(site: Site, folder: Path, namespace: str, *manifests: Object) -> list[Object]:
    """Return the predictions for manifests with the policies of the gate."""
    (folder / "addresses.yaml").write_text(_POLICY)
    (folder / "manifests.json").write_text("\n".join(map(json.dumps, manifests)))
    arguments = ("predict", str(folder / "manifests.json"), "--policies", str(folder / "addresses.yaml"))
    found = run_tallygate(
        site.cluster, *arguments, "-n", namespace, "-o", "json", "--kubeconfig", str(site.cluster.kubeconfig)
    )
    assert found.returncode in {0, 1}, found.stderr
    return list(json.loads(found.stdout)["items"])


def _get_resources(pod: Object) -> Object:
    return dict(pod["spec"]["containers"][0].get("resources", {}))


def test_a_node_runs_as_many_pods_as_it_has_addresses_and_the_next_waits_as_predicted(
    site: Site, three_addresses: str, tmp_path: Path
) -> None:
    deployment = make_deployment("web", 4, _spec(site))
    (prediction,) = _predict(site, tmp_path, three_addresses, deployment)
    assert (prediction["verdict"], prediction["copies"], prediction["placed"]) == ("not now", 4, 3)
    ours = api(site.cluster.kubeconfig)
    ours.create(f"/apis/apps/v1/namespaces/{three_addresses}/deployments", deployment)
    until("three pods are placed", lambda: len(_list_placed(site, three_addresses)) == 3, _WITHIN)
    until("the scheduler has tried the fourth", lambda: bool(_list_messages(site, three_addresses)), _WITHIN)
    (message,) = _list_messages(site, three_addresses)
    assert message == prediction["message"]
    assert f"Insufficient {_IP}" in message
    assert [_get_resources(each) for each in _list_pods(site, three_addresses)] == [
        {"requests": _ONE, "limits": _ONE}
    ] * 4
    template = ours.get(f"/apis/apps/v1/namespaces/{three_addresses}/deployments/web")["spec"]["template"]
    assert _get_resources(template) == {}


def test_pods_of_a_daemon_set_take_one_and_a_pod_that_asks_for_two_keeps_two(
    site: Site, three_addresses: str, tmp_path: Path
) -> None:
    deployment = make_deployment("daemon", 1, _spec(site, nodeSelector={"kubernetes.io/hostname": site.node}))
    del deployment["spec"]["replicas"]
    daemon_set = deployment | {"kind": "DaemonSet"}
    two = _pod(site, "two", {"requests": {_IP: "2"}, "limits": {_IP: "2"}})
    host, late = _pod(site, "host", hostNetwork=True), _pod(site, "late")
    predictions = _predict(site, tmp_path, three_addresses, daemon_set, two, host, late)
    assert [each["verdict"] for each in predictions] == ["fits now", "fits now", "fits now", "not now"]
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{three_addresses}/pods"
    ours.create(f"/apis/apps/v1/namespaces/{three_addresses}/daemonsets", daemon_set)
    until("the pod of the DaemonSet is placed", lambda: len(_list_placed(site, three_addresses)) == 1, _WITHIN)
    for each in (two, host):
        ours.create(pods, each)
    until("both are placed", lambda: len(_list_placed(site, three_addresses)) == 3, _WITHIN)
    ours.create(pods, late)
    until("the scheduler has tried the last", lambda: bool(_list_messages(site, three_addresses)), _WITHIN)
    assert _list_messages(site, three_addresses) == [predictions[-1]["message"]]
    by_name = {each["metadata"]["name"]: _get_resources(each) for each in _list_pods(site, three_addresses)}
    assert by_name["two"]["requests"] == {_IP: "2"}
    assert by_name["host"] == {}
    assert by_name["late"] == {"requests": _ONE, "limits": _ONE}


def test_a_mirror_pod_and_an_update_get_no_request(site: Site, three_addresses: str) -> None:
    ours, pods = api(site.cluster.kubeconfig), f"/api/v1/namespaces/{three_addresses}/pods"
    mirror = _pod(site, "mirror", nodeName=site.node)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "1"}
    ours.create(pods, mirror)
    assert _get_resources(ours.get(f"{pods}/mirror")) == {}
    ours.patch(f"{pods}/mirror", {"metadata": {"labels": {"changed": "yes"}}})
    assert _get_resources(ours.get(f"{pods}/mirror")) == {}


def test_a_dry_run_of_a_workload_warns_with_what_its_pods_get(site: Site, three_addresses: str) -> None:
    ours = api(site.cluster.kubeconfig)
    path = f"/apis/apps/v1/namespaces/{three_addresses}/deployments"
    answer = ours.ask("POST", path, make_deployment("web", 2, _spec(site)), query={"dryRun": "All"})
    assert answer.is_done, answer.rejection
    assert f"each pod gets request and limit 1 of {_IP}; the template stays as it is (TG122" in answer.messages
    assert _get_resources(json.loads(answer.body)["spec"]["template"]) == {}


def test_a_pod_that_lacks_the_request_is_admitted_with_a_warning(site: Site, three_addresses: str) -> None:
    """Register the mutating phase as for a policy that implies nothing: the API server then skips simple pods."""
    ours = api(site.cluster.kubeconfig)
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tallygate"
    before = ours.get(path)["webhooks"]
    never = [{"name": "never", "expression": "false"}]
    ours.patch(path, {"webhooks": [{**each, "matchConditions": never} for each in before]})
    pods = f"/api/v1/namespaces/{three_addresses}/pods"

    def is_warned() -> bool:
        answer = ours.ask("POST", pods, _pod(site, "bare"), query={"dryRun": "All"})
        assert answer.is_done, answer.rejection
        return f"the pod does not request {_IP}, of which every such pod uses 1" in answer.messages

    try:
        until("the mutating phase is skipped", is_warned, _WITHIN)
    finally:
        ours.patch(path, {"webhooks": before})
    until("the mutating phase is called again", lambda: not is_warned(), _WITHIN)
