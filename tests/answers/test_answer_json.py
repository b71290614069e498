"""The answer as its asker may see it: no name of a pod, a claim, a node or a device that he may not list."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tallygate.answers.answer_json import VisibleNames
from tests.accounting.scheduling.clusters import node
from tests.accounting.scheduling.devices import claim, device, device_class, device_slice, taint_rule
from tests.answers.asked_clusters import (
    ALL_NAMES,
    NO_NAMES,
    Ask,
    Object,
    answer,
    build_state,
    list_recorded_asks,
    read_policies,
)

MARK = "zzhidden"
RECORDED = [*list_recorded_asks()]
_NAMED = {"Node", "Pod", "Namespace", "ResourceClaim", "ResourceSlice"}


def mark_names(ask: Ask) -> list[Object]:
    """Return the cluster with a mark in each name that the asked objects do not have, and in metadata of its pods."""
    written = set(re.findall(r"[A-Za-z0-9][A-Za-z0-9.-]*", ask.text))
    written |= {ask.namespace, "default", "kube-system"}
    names = {each.get("metadata", {}).get("name") for each in ask.cluster if each["kind"] in _NAMED}
    names |= {each.get("metadata", {}).get("namespace") for each in ask.cluster}
    names |= {each["spec"]["pool"]["name"] for each in ask.cluster if each["kind"] == "ResourceSlice"}
    marked = [
        replace_texts(each, {str(name): f"{name}-{MARK}" for name in names - written if name}) for each in ask.cluster
    ]
    for each in marked:
        if each["kind"] in {"Pod", "ResourceClaim"}:
            each["metadata"]["annotations"] = {**(each.get("metadata", {}).get("annotations") or {}), MARK: MARK}
    return marked


def replace_texts(value: Any, texts: Mapping[str, str]) -> Any:
    """Return plain data with other texts in place of these, also where they are the parts of a path."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, list):
        return [replace_texts(each, texts) for each in value]
    return {key: replace_texts(each, texts) for key, each in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("ask", RECORDED, ids=lambda ask: ask.name)
def test_no_name_of_the_cluster_is_in_an_answer_for_someone_without_rights(ask: Ask) -> None:
    state = ask.build_state(mark_names(ask))
    assert MARK not in json.dumps(ask.answer(state, NO_NAMES))


def create_group(name: str, **spec: Any) -> Object:
    """Return a PodGroup of team-a that the scheduler has tried."""
    status = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team-a", "uid": name},
        "spec": {**policy, **spec},
        "status": status,
    }


def create_waiting(name: str, group: str, **spec: Any) -> Object:
    """Return a pod of a group of team-a that waits, with a hidden name."""
    container = {"name": "main", "image": "x"}
    spec = {"priority": 0, "schedulingGroup": {"podGroupName": group}, "containers": [container], **spec}
    return {"kind": "Pod", "metadata": {"name": f"{name}-{MARK}", "namespace": "team-a"}, "spec": spec}


CLAIMING = {"resourceClaims": [{"name": "c", "resourceClaimName": f"missing-{MARK}"}]}
DEVICE_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice", "DeviceTaintRule")
GROUPS = {
    "gated": create_waiting("gated", "gang", schedulingGates=[{"name": "later"}]),
    "missing claim": create_waiting("claiming", "gang", **CLAIMING),
    "parent": create_group("gang", parentCompositePodGroupName=f"parent-{MARK}"),
}


@pytest.mark.parametrize("other_object", GROUPS.values(), ids=GROUPS)
def test_the_other_pods_of_a_group_have_names_for_who_may_list_pods_there(other_object: Object) -> None:
    """Hide them from a user who may create pods in the namespace, and may list none."""
    cluster = [
        node("n1") | {"kind": "Node"},
        *({"kind": f"{kind}List", "items": []} for kind in ("PodGroup", *DEVICE_KINDS)),
        create_group("gang"),
        other_object,
    ]
    text = create_asked_pod("asked", schedulingGroup="{podGroupName: gang}")
    state = build_state(cluster)
    hidden = json.dumps([answer(text, state, visible) for visible in (NO_NAMES, VisibleNames(frozenset({"team-b"})))])
    assert MARK in json.dumps(answer(text, state))
    assert MARK in json.dumps(answer(text, state, VisibleNames(frozenset({"team-a"}))))
    assert MARK not in hidden
    assert "gang" in hidden


def test_the_marks_are_in_the_answers_for_someone_with_all_rights() -> None:
    shown = [ask.name for ask in RECORDED if MARK in json.dumps(ask.answer(ask.build_state(mark_names(ask))))]
    assert len(shown) > len(RECORDED) // 3, shown


def list_paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each value of plain data, those of the items of a list as one."""
    if isinstance(value, list):
        for each in value:
            yield from list_paths(each, f"{path}[]")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from list_paths(each, f"{path}.{key}")
    else:
        yield path


def create_stored_pod(name: str, namespace: str, where: str, requests: Mapping[str, str], **spec: Any) -> Object:
    """Return a pod on a node whose metadata have its name everywhere."""
    texts = {f"example.com/{name}": name}
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": texts, "annotations": texts}
    container = {"name": "main", "image": "x", "resources": {"requests": requests}}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": where, "containers": [container], **spec}}


def other(name: str) -> str:
    """Return a name of another namespace, with the mark."""
    return f"{name}-{MARK}"


NODE_MARK = "yynode"
FIRST, SECOND = f"first-{NODE_MARK}", f"second.{NODE_MARK}.example.com"
CLUSTER: Sequence[Object] = (
    node(FIRST, cpu="8", memory="64Gi", **{"nvidia.com_gpu": "4"}) | {"kind": "Node"},
    node(SECOND, cpu="8", memory="64Gi", **{"nvidia.com_gpu": "4"}) | {"kind": "Node"},
    {"kind": "Namespace", "metadata": {"name": "team-a", "labels": {"team": "a"}}},
    {"kind": "Namespace", "metadata": {"name": other("team-b"), "labels": {"team": "b", MARK: MARK}}},
    {"kind": "ResourceClaimTemplateList", "items": []},
    {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100},
    create_stored_pod("own", "team-a", FIRST, {"nvidia.com/gpu": "1"}),
    create_stored_pod(other("one"), other("team-b"), FIRST, {"nvidia.com/gpu": "2"}),
    create_stored_pod(other("two"), other("team-b"), SECOND, {"nvidia.com/gpu": "3"}),
    device_class(),
    device_slice(FIRST, [device("d0", "40Gi"), device("d1", "40Gi")]),
    device_slice(SECOND, ["e0", "e1", "e2"], pool={"name": f"pool-{NODE_MARK}"}),
    taint_rule("worn", {"pool": FIRST, "device": "d1"}),
    claim(other("busy"), allocated=[f"{FIRST}/d0"], pods=[other("one")], metadata={"namespace": other("team-b")}),
    claim(other("idle"), allocated=[f"pool-{NODE_MARK}/e0"], metadata={"namespace": other("team-b")}),
    claim(
        other("used"), allocated=[f"pool-{NODE_MARK}/e1"], pods=[other("two")], metadata={"namespace": other("team-b")}
    ),
)
POLICIES = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: shared-gpus}
spec: {namespaces: {include: ["*"]}, shared: true, hard: {nvidia.com/gpu: 16}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: runs-now}
spec: {resources: ["nvidia.com/gpu", "gpu"], checks: {schedulable: not-now}, enforcement: warn}
"""


def create_asked_pod(name: str, requests: str = "{}", **spec: str) -> str:
    """Return a pod of team-a as text."""
    more = "".join(f"  {key}: {value}\n" for key, value in spec.items())
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team-a}}
spec:
  containers: [{{name: main, image: x, resources: {{requests: {requests}, limits: {requests}}}}}]
{more}---"""


TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: NAME, namespace: team-a}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2, selectors: [SELECTORS]}}]}}}
---"""
ASKED = "".join(
    (
        TEMPLATE.replace("NAME", "one").replace("count: 2", "count: 1").replace("SELECTORS", ""),
        TEMPLATE.replace("NAME", "two").replace("SELECTORS", ""),
        TEMPLATE.replace("NAME", "faulty").replace(
            "SELECTORS", "{cel: {expression: \"device.attributes['a'].b == 1\"}}"
        ),
        create_asked_pod("capped", '{nvidia.com/gpu: "12"}'),
        create_asked_pod("large", '{nvidia.com/gpu: "4"}'),
        create_asked_pod("important", '{nvidia.com/gpu: "3"}', priorityClassName="high"),
        create_asked_pod("fits", '{nvidia.com/gpu: "1"}'),
        create_asked_pod("with-device", resourceClaims="[{name: g, resourceClaimTemplateName: one}]"),
        create_asked_pod("without-device", resourceClaims="[{name: g, resourceClaimTemplateName: one}]"),
        create_asked_pod("with-devices", resourceClaims="[{name: g, resourceClaimTemplateName: two}]"),
        create_asked_pod("with-error", resourceClaims="[{name: g, resourceClaimTemplateName: faulty}]"),
        create_asked_pod("elsewhere", nodeSelector="{disk: ssd}"),
    )
)


def ask(visible: VisibleNames, cluster: Sequence[Object] = CLUSTER) -> Object:
    """Return the answer about pods for which each kind of reason, remedy and holder is found."""
    return answer(ASKED, build_state(cluster), visible, read_policies(POLICIES), "team-a")


def test_no_name_of_another_namespace_is_in_an_answer() -> None:
    text = json.dumps(ask(VisibleNames(frozenset({"team-a"}))))
    assert MARK not in text
    assert NODE_MARK in text
    assert "own" in text


def test_no_name_of_a_node_is_in_an_answer_for_someone_who_may_not_list_nodes() -> None:
    text = json.dumps(ask(VisibleNames(nodes=False)))
    assert NODE_MARK not in text
    assert MARK in text


def test_who_may_list_all_sees_all_names_and_no_hidden_ones() -> None:
    text = json.dumps(ask(ALL_NAMES))
    assert {f"{MARK}", NODE_MARK} <= set(re.findall(f"{MARK}|{NODE_MARK}", text))
    assert not re.findall(r'"hidden\w+": [1-9]', text)


def test_what_is_hidden_is_counted() -> None:
    shown, hidden = ask(ALL_NAMES), ask(NO_NAMES)
    for one, other_answer in zip(shown["objects"], hidden["objects"], strict=True):
        for full, reduced in zip(one["predictions"], other_answer["predictions"], strict=True):
            assert reduced["verdict"] == full["verdict"]
            assert [each["copies"] for each in reduced["on"]] == [each["copies"] for each in full["on"]]
            for all_pods, counted in zip(full["evictions"], reduced["evictions"], strict=True):
                assert (counted["pods"], counted["hiddenPods"]) == ([], len(all_pods["pods"]))
            for node_shown, node_hidden in zip(full["closestNodes"], reduced["closestNodes"], strict=True):
                assert node_hidden["node"] is None
                assert node_hidden["hiddenConsumers"] == len(node_shown["consumers"])
                assert node_hidden["shortfalls"] == node_shown["shortfalls"]


def test_the_cluster_gives_cause_for_each_kind_of_name() -> None:
    answered = ask(ALL_NAMES)
    used = {re.sub(r"^objects\[\]\.predictions\[\]", "", path[1:]) for path in list_paths(answered)}
    names = {
        *(".on[].node", ".devices[].node", ".preempts.pods[].name", ".closestNodes[].consumers[].name"),
        *(".evictions[].pods[].name", ".evictions[].claims[].claim", ".evictions[].claims[].devices[].pool"),
        *(".closestNodes[].deviceShortfalls[].pools[].allocated[].claim", ".remedies[].nodes[]"),
        *(".evictions[].node", ".preempts.node"),
    }
    assert names <= used, names - used


def test_an_asker_who_may_not_list_namespaces_reads_no_owner_of_a_guarantee() -> None:
    policies = read_policies(
        "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: gpus}\nspec:\n"
        "  namespaces: {include: ['*']}\n  shared: true\n  hard: {nvidia.com/gpu: 8}\n"
        f"  guarantee: [{{namespaces: ['{MARK}*'], amounts: {{nvidia.com/gpu: 3}}}}]\n"
    )
    names = ("team-a", f"{MARK}-b", f"{MARK}-c")
    cluster = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    resources = {"limits": {"nvidia.com/gpu": 3}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    labels = {"app": "w"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    deployment |= {"spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}}
    for each in (pod, deployment):
        shown, hidden = (
            json.dumps(answer(json.dumps(each), build_state(cluster), visible, policies, "team-a"))
            for visible in (ALL_NAMES, NO_NAMES)
        )
        assert "guaranteed to namespace zzhidden-b, namespace zzhidden-c" in shown
        assert "guaranteed to other namespaces" in hidden
        assert MARK not in hidden
