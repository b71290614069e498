"""The server of asks about PodGroups of Kubernetes 1.37: an answer equals what kube-scheduler then does."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, NamedTuple

import httpx
import pytest

from e2e.api import Object, api
from e2e.gates.asks import AskServer, ask, create_ask_token, provide_asks_account
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.local.releases import select_release
from e2e.ports import NotHereError
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN: Final = 120.0  # seconds
_GATES: Final = "GenericWorkload=true"
_SERVED: Final = "--runtime-config=scheduling.k8s.io/v1beta1=true"
_CARD: Final = "example.com/card"
_GROUPS: Final = "scheduling.k8s.io/v1beta1"
_POLICIES: Final = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: cards}}
spec: {{namespaces: {{include: ["*"]}}, hard: {{{_CARD}: 100}}}}
"""


class Setting(NamedTuple):
    """A tenant who may create PodGroups, and his client of the server of asks."""

    cluster: LocalCluster
    dev: Tenant
    client: httpx.Client


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Run a control plane with the feature gate, a node with four cards, and a server of asks."""
    if select_release(os.environ).minor < "1.37":
        raise NotHereError("it takes a feature gate that Kubernetes has since 1.37")
    folder = tmp_path_factory.mktemp("groups")
    (folder / "policies").mkdir()
    (folder / "policies" / "none.yaml").write_text(_POLICIES)
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster((_SERVED,), _GATES))
        add_nodes(cluster, node("one", {_CARD: "4"}))
        kubeconfig = stack.enter_context(provide_asks_account(cluster, folder))
        asks = stack.enter_context(AskServer(folder / "asks", kubeconfig, folder / "policies"))
        dev = stack.enter_context(tenant(cluster, folder))
        _allow_groups(cluster, dev)
        token = create_ask_token(cluster, dev.namespace, "tenant", "tallygate")
        yield Setting(cluster, dev, stack.enter_context(asks.open_client(token)))


def _allow_groups(cluster: LocalCluster, dev: Tenant) -> None:
    """Let the tenant create and list PodGroups, which `edit` does not; return once the API server knows it."""
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{dev.namespace}"
    rules = [{"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["create", "list"]}]
    api(cluster.kubeconfig).create(f"{root}/roles", {"metadata": {"name": "groups"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "groups"}
    who = {"kind": "ServiceAccount", "name": "tenant", "namespace": dev.namespace}
    bound = {"metadata": {"name": "groups"}, "roleRef": role, "subjects": [who]}
    api(cluster.kubeconfig).create(f"{root}/rolebindings", bound)
    path = f"/apis/{_GROUPS}/namespaces/{dev.namespace}/podgroups"
    until("the tenant has the right", lambda: dev.api.ask("GET", path).is_done, _WITHIN)


def _create_gang(name: str, pods: int, cards: int) -> list[Object]:
    """Return a PodGroup that needs all of its pods, and these."""
    policy = {"gang": {"minCount": pods}}
    group = {
        "apiVersion": _GROUPS,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy},
    }
    amounts = {_CARD: str(cards)}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"schedulingGroup": {"podGroupName": name}, "containers": [container]}
    metadata = [{"name": f"{name}-{number}"} for number in range(pods)]
    return [group, *({"apiVersion": "v1", "kind": "Pod", "metadata": each, "spec": spec} for each in metadata)]


def _ask(setting: Setting, objects: list[Object]) -> dict[str, tuple[str, str]]:
    """Return the verdict and the message about each pod."""
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    answer = ask(setting.client, listed, setting.dev.namespace)
    return {
        each["object"]["name"]: (prediction["verdict"], prediction["message"] or "")
        for each in answer["objects"]
        for prediction in each["predictions"]
    }


def _create(setting: Setting, objects: list[Object]) -> None:
    for each in objects:
        answer = setting.dev.create(each)
        assert answer.is_done, answer.body


def _read_results(setting: Setting, name: str) -> dict[str, tuple[str, str]]:
    """Return for each pod of a group `fits now` if it has a node, else the message of the scheduler; none before it."""
    found = {}
    for each in setting.dev.api.items(setting.dev.pods):
        if each["metadata"]["name"].startswith(f"{name}-"):
            rejected = [condition for condition in each["status"].get("conditions", ()) if _is_rejection(condition)]
            if each["spec"].get("nodeName"):
                found[each["metadata"]["name"]] = "fits now", ""
            elif rejected:
                found[each["metadata"]["name"]] = "not now", rejected[0]["message"]
    return found


def _is_rejection(condition: dict[str, Any]) -> bool:
    return condition["type"] == "PodScheduled" and condition["status"] == "False" and bool(condition.get("message"))


def _read_waiting(setting: Setting) -> dict[str, str]:
    """Return the sentence about each waiting pod in the report of the namespace."""
    response = setting.client.get("/v1/usage", params={"namespace": setting.dev.namespace})
    waiting = response.json().get("waiting") or ()
    return {name: each["sentence"] for each in waiting for name in each["names"]}


def test_an_answer_about_a_pod_group_is_what_the_scheduler_then_does(setting: Setting) -> None:
    """Ask before and after the scheduler has shown by a first group that it places the pods of groups together."""
    large, whole = _create_gang("large", 4, 2), _create_gang("whole", 3, 1)
    assert {verdict for verdict, _ in _ask(setting, whole).values()} == {"unknown"}
    _create(setting, _create_gang("before", 1, 1))
    until("the first group has a node", lambda: len(_read_results(setting, "before")) == 1, _WITHIN)
    until("the server of asks knows it", partial(_fits, setting, whole), _WITHIN)
    _compare(setting, "large", large, "not now")
    sentences = {name: message for name, (_, message) in _read_results(setting, "large").items()}
    until("the report has the messages of the scheduler", lambda: _read_waiting(setting) == sentences, _WITHIN)
    _compare(setting, "whole", whole, "fits now")


def _compare(setting: Setting, name: str, gang: list[Object], verdict: str) -> None:
    """Ask about a gang, create it, and compare the answers with the results of the scheduler."""
    answered = _ask(setting, gang)
    assert {each for each, _ in answered.values()} == {verdict}
    _create(setting, gang)
    until("the scheduler has tried all", partial(_has_results, setting, name, len(answered)), _WITHIN)
    assert _read_results(setting, name) == answered


def _fits(setting: Setting, objects: list[Object]) -> bool:
    return {verdict for verdict, _ in _ask(setting, objects).values()} == {"fits now"}


def _has_results(setting: Setting, name: str, pods: int) -> bool:
    return len(_read_results(setting, name)) == pods
