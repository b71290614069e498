"""The usage of a namespace: its caps, its holders, what may still start, what waits, and no name of others."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.namespace_usage import UsageContext, answer_usage
from tallygate.answers.namespace_usage_json import convert_usage
from tallygate.answers.usage_columns import LINES
from tallygate.answers.usage_records import AskUsage, UsageItemRecord
from tallygate.cluster.refusal_events import Refusal, ReportedRefusals
from tallygate.cluster.rejected_pods import RejectedPods
from tallygate.server.web.pages.drawings import draw_cap
from tests.accounting.scheduling.clusters import node
from tests.agreement.drawn import CASES, DrawnCase
from tests.agreement.namespace_usages import compare_usages
from tests.answers.asked_clusters import ALL_NAMES, NO_NAMES, NOW, Object, build_state, read_policies
from tests.answers.test_answer_json import CLUSTER, MARK, NODE_MARK, create_stored_pod, other
from tests.effort import examples
from tests.schemas import generate_usage_schema

GPU = "nvidia.com/gpu"
OWN = VisibleNames(frozenset({"team-a"}), nodes=False)
CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: shared-gpus}
spec: {namespaces: {include: ["*"]}, shared: true, hard: {nvidia.com/gpu: 16}, soft: {nvidia.com/gpu: 8}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: own-pods}
spec: {namespaces: {include: ["*"]}, hard: {pods: 5}}
"""


MESSAGE = f"cap shared-gpus exceeded: free 0; top consumers: namespace {other('team-b')} (5). Pods run on first-yynode"
REPORTED = ReportedRefusals(
    (RejectedPods("Deployment", "team-a", "web", 2, MESSAGE),),
    (Refusal("Job", "train", 3, NOW, MESSAGE),),
    ("jobs may not be listed by this server",),
)


def show_usage(
    cluster: Sequence[Object], visible: VisibleNames = ALL_NAMES, policies: str = CAPS, **more: Any
) -> dict[str, Any]:
    """Return the usage of team-a as JSON."""
    state = build_state(cluster, with_templates=True)
    context = UsageContext(
        policies=read_policies(policies),
        state=state,
        namespace="team-a",
        now=NOW,
        shows=visible.shows,
        reported=REPORTED,
        **more,
    )
    content: dict[str, Any] = json.loads(json.dumps(convert_usage(answer_usage(context), state, NOW, visible)))
    create_strict_validator().validate(content)
    msgspec.convert(content, AskUsage)
    return content


def create_strict_validator() -> Draft202012Validator:
    """Return a validator by the schema that also refuses keys without a record."""
    schema = generate_usage_schema()
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    return Draft202012Validator(schema)


def create_pod(name: str, gpus: int, where: str | None = None, **spec: Any) -> Object:
    """Return a pod of team-a, on a node if one is named, as an API server stores it."""
    container = {"name": "main", "image": "x", "resources": {"requests": {GPU: str(gpus), "cpu": "1"}}}
    placed = {} if where is None else {"nodeName": where}
    meta = {"name": name, "namespace": "team-a"}
    return {"kind": "Pod", "metadata": meta, "spec": {"priority": 0, "containers": [container], **placed, **spec}}


def create_cluster(*objects: Object, gpus: int = 8, nodes: str = "ab") -> list[Object]:
    """Return the namespace, nodes with a letter as the name of each, and these objects."""
    amounts = {"cpu": "64", "memory": "64Gi", "nvidia.com_gpu": str(gpus)}
    return [
        *(node(name, **amounts) | {"kind": "Node"} for name in nodes),
        {"kind": "Namespace", "metadata": {"name": "team-a"}},
        *objects,
    ]


def test_the_lines_are_those_of_the_command() -> None:
    items = show_usage(CLUSTER)["items"]
    found = {
        (item["cap"], item["resource"]): (item["hard"], item["soft"], item["used"], item["free"]) for item in items
    }
    assert found == {("shared-gpus", GPU): (16, 8, 6, 10), ("own-pods", "pods"): (5, None, 1, 4)}


def test_the_holders_have_names_and_others_are_sums() -> None:
    shared = next(each for each in show_usage(CLUSTER, OWN)["holders"] if each["cap"] == "shared-gpus")
    (own,) = shared["holders"]
    assert (own["kind"], own["name"], own["amounts"]) == ("pod", "own", {GPU: 1})
    assert (shared["others"], shared["more"], shared["byNamespace"]) == ({GPU: 5}, 0, None)


def test_who_may_list_all_pods_sees_what_each_namespace_uses() -> None:
    shared = next(each for each in show_usage(CLUSTER)["holders"] if each["cap"] == "shared-gpus")
    assert shared["byNamespace"] == [{"namespace": other("team-b"), "amounts": {GPU: 5}}]


def test_a_pod_names_its_workload() -> None:
    pod = create_pod("run-x7", 2, "a")
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "run", "uid": "u", "controller": True}]
    usage = show_usage(create_cluster(pod))
    assert usage["holders"][1]["holders"][0]["workload"] == "Job run"
    assert usage["startable"][0]["workloads"] == ["Job run"]


@pytest.mark.parametrize(
    ("objects", "gpus", "copies", "limited_by"),
    [
        pytest.param([create_pod("p", 1, "a")], 8, 4, ("cap", "own-pods"), id="a cap of pods"),
        pytest.param([create_pod("p", 4, "a")], 16, 3, ("cap", "shared-gpus"), id="a cap of devices"),
        pytest.param([create_pod("p", 3, "a")], 4, 1, ("nodes", None), id="nodes"),
        pytest.param(
            [create_pod("p", 1, "a", tolerations=[{"operator": "Exists"}], nodeSelector={"disk": "ssd"})],
            *(8, 0, ("nodes", None)),
            id="a node selector",
        ),
        pytest.param(
            [
                create_pod("p", 1, "a"),
                {
                    "kind": "ResourceQuota",
                    "metadata": {"name": "small", "namespace": "team-a"},
                    "spec": {"hard": {"requests.nvidia.com/gpu": "3"}},
                    "status": {"hard": {"requests.nvidia.com/gpu": "3"}, "used": {"requests.nvidia.com/gpu": "1"}},
                },
            ],
            *(8, 2, ("quota", "small")),
            id="a quota",
        ),
    ],
)
def test_as_many_more_pods_may_start_as_the_tightest_limit_has_room_for(
    objects: list[Object], gpus: int, copies: int, limited_by: tuple[str, str | None]
) -> None:
    (shape,) = show_usage(create_cluster(*objects, gpus=gpus))["startable"]
    tightest = min(shape["limits"], key=lambda limit: limit["copies"])
    assert (shape["copies"], (tightest["by"], tightest["name"])) == (copies, limited_by)


def test_pods_that_differ_in_names_alone_are_one_shape() -> None:
    volumes = [{"name": "token-x", "projected": {}}], [{"name": "token-y", "projected": {}}]
    pods = [create_pod(f"p-{number}", 1, "a", volumes=each) for number, each in enumerate(volumes)]
    for number, pod in enumerate(pods):
        pod["metadata"]["labels"] = {"app": "x", "apps.kubernetes.io/pod-index": str(number)}
    startable = show_usage(create_cluster(*pods, create_pod("large", 2, "b")))["startable"]
    assert [(shape["pods"], shape["requests"][GPU]) for shape in startable] == [(2, 1), (1, 2)]


def test_where_further_pods_would_run_is_not_known_for_volumes_that_are_not_known() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    (shape,) = show_usage(create_cluster(create_pod("p", 1, "a", volumes=volumes)))["startable"]
    assert (shape["copies"], [limit["by"] for limit in shape["limits"]]) == (4, ["cap", "cap"])
    assert "volume" in shape["unknown"][0]


def test_pods_that_keep_apart_are_placed_one_by_one() -> None:
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    pod = create_pod("p", 1, "a", affinity=affinity)
    pod["metadata"]["labels"] = {"app": "x"}
    cluster = create_cluster(pod)
    for each in cluster[:2]:
        each["metadata"]["labels"] = {"kubernetes.io/hostname": each["metadata"]["name"]}
    (shape,) = show_usage(cluster)["startable"]
    assert shape["copies"] == 1
    assert show_usage(cluster) == show_usage(cluster)


def test_a_pod_that_waits_has_one_sentence() -> None:
    waiting = show_usage(
        create_cluster(create_pod("p", 5, "a"), *(create_pod(f"w-{number}", 6) for number in range(3)))
    )
    fits, waits = waiting["waiting"]
    assert (fits["pods"], fits["verdict"]) == (1, "fits now")
    assert "kube-scheduler" in fits["sentence"]
    assert (waits["pods"], waits["names"], waits["verdict"]) == (2, ["w-1", "w-2"], "not now")
    assert "2 Insufficient nvidia.com/gpu" in waits["sentence"]


@pytest.mark.parametrize(
    ("spec", "verdict", "sentence"),
    [
        pytest.param({"schedulingGates": [{"name": "g"}]}, "not now", "gate", id="a gate"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, "never on these nodes", "didn't match", id="no such node"),
        pytest.param({"schedulerName": "other"}, "unknown", "not modelled: scheduler other", id="another scheduler"),
        pytest.param({"priority": 10}, "not now", "found a potential placement", id="preemption"),
        pytest.param({"priority": None, "priorityClassName": "absent"}, None, "absent", id="no such class"),
    ],
)
def test_the_sentence_is_that_of_the_scheduler(spec: Object, verdict: str | None, sentence: str) -> None:
    busy = [create_pod(f"p-{name}", 5, name) for name in "ab"]
    (waiting,) = show_usage(create_cluster(*busy, create_pod("w", 6, **spec)))["waiting"]
    assert waiting["verdict"] == verdict
    assert sentence in waiting["sentence"]


def test_what_is_guaranteed_to_others_is_not_free_here_and_may_not_start() -> None:
    guarantee = "guarantee: [{namespaces: [team-b], amounts: {nvidia.com/gpu: 12}}]"
    policies = CAPS.partition("---")[0].replace("shared: true,", f"shared: true, {guarantee},")
    cluster = create_cluster(create_pod("p", 1, "a"), {"kind": "Namespace", "metadata": {"name": "team-b"}})
    usage = show_usage(cluster, policies=policies)
    (shape,), (item,) = usage["startable"], usage["items"]
    assert [(limit["name"], limit["copies"]) for limit in shape["limits"] if limit["by"] == "cap"] == [
        ("shared-gpus", 16 - 1 - 12)
    ]
    assert (item["hard"], item["used"], item["free"]) == (16, 1, 3)
    assert msgspec.convert(usage, AskUsage).items[0].to_line().free == 3
    strip = draw_cap(item)
    assert strip is not None
    assert strip.text == "nvidia.com/gpu: 1 used, 12 guaranteed to other namespaces, 3 free of 16, warns above 8"


def create_members(name: str, pods: int, gpus: int, quorum: int) -> list[Object]:
    """Return a PodGroup of team-a, and pods of it that wait."""
    group = {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team-a", "uid": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": quorum}}},
        "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]},
    }
    spec: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}}
    return [group, *(create_pod(f"{name}-{number}", gpus, **spec) for number in range(pods))]


def test_the_waiting_pods_of_a_group_are_tried_together() -> None:
    """Show what each gets: one group fits, and of the other one all wait, though one of its pods would fit."""
    cluster = create_cluster(*create_members("fits", 2, 2, 2), *create_members("large", 3, 3, 3), gpus=8, nodes="a")
    waiting = show_usage(cluster)["waiting"]
    assert [(each["names"], each["verdict"]) for each in waiting] == [
        (["fits-0", "fits-1"], "fits now"),
        (["large-0"], "not now"),
        (["large-1"], "not now"),
        (["large-2"], "not now"),
    ]
    assert waiting[1]["sentence"].startswith(
        "pod group is unschedulable, minCount (3) cannot be satisfied: 1 scheduled"
    )
    assert waiting[2]["sentence"].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert waiting[3]["sentence"].startswith("minCount (3) cannot be satisfied: 1 scheduled, 1 remaining")


def test_the_pods_of_a_large_group_are_one_line() -> None:
    """Count no pod of it as left out: the group is tried once."""
    (waiting,) = show_usage(create_cluster(*create_members("gang", 60, 1, 60), gpus=10, nodes="abcdef"))["waiting"]
    assert (waiting["pods"], len(waiting["names"]), waiting["verdict"]) == (60, 10, "fits now")


def test_a_group_for_which_the_time_is_too_short_is_not_predicted_and_takes_nothing() -> None:
    """End the time within the first group; predict the pod behind it as if the group had no nodes."""
    cluster = create_cluster(*create_members("gang", 3, 2, 3), create_pod("alone", 8), gpus=8, nodes="a")
    answers = iter([True, True, False])
    waiting = show_usage(cluster, start_part=lambda: lambda: next(answers, True))["waiting"]
    assert [(each["names"], each["verdict"]) for each in waiting] == [
        (["gang-0", "gang-1", "gang-2"], None),
        (["alone"], "fits now"),
    ]
    assert waiting[0]["sentence"].startswith("not predicted")


def test_more_waiting_pods_than_are_predicted_are_counted() -> None:
    pods = [create_pod(f"w-{number}", 9, nodeSelector={"n": str(number)}) for number in range(60)]
    waiting = show_usage(create_cluster(*pods))["waiting"]
    assert sum(each["pods"] for each in waiting) == 60
    assert (waiting[-1]["pods"], waiting[-1]["verdict"]) == (10, None)


def test_what_takes_too_long_is_left_out_and_named() -> None:
    steps = iter([True, True, False] * 2)
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    running = create_pod("p", 1, "a", affinity=affinity)
    running["metadata"]["labels"] = {"app": "x"}
    pods = [create_pod(f"w-{number}", 0, nodeSelector={"n": str(number)}) for number in range(3)]
    cluster, policies = create_cluster(running, *pods, nodes="abcde"), CAPS.partition("---")[0]
    for each in cluster[:5]:
        each["metadata"]["labels"] = {"kubernetes.io/hostname": each["metadata"]["name"]}
    usage = show_usage(cluster, policies=policies, start_part=lambda: lambda: next(steps))
    (shape,) = usage["startable"]
    assert (shape["limits"][-1]["copies"], shape["limits"][-1]["atLeast"]) == (2, True)
    assert [each["verdict"] for each in usage["waiting"]] == ["never on these nodes", "never on these nodes", None]
    assert (usage["waiting"][-1]["pods"], "no time for all" in usage["waiting"][-1]["sentence"]) == (1, True)
    assert show_usage(cluster, policies=policies)["startable"][0]["limits"][-1]["copies"] == 4


def test_who_may_not_list_the_pods_sees_numbers_alone() -> None:
    usage = show_usage(CLUSTER, NO_NAMES)
    hidden = ("holders", "startable", "waiting", "rejected", "refusals")
    assert {usage[key] for key in hidden} == {None}
    assert usage["items"] == show_usage(CLUSTER)["items"]


def test_pods_that_are_not_stored_have_the_message_of_the_denial() -> None:
    usage = show_usage(CLUSTER)
    assert [(each["object"]["name"], each["pods"], each["message"]) for each in usage["rejected"]] == [
        ("web", 2, MESSAGE)
    ]
    assert [(each["name"], each["times"], each["last"]) for each in usage["refusals"]] == [
        ("train", 3, "2026-01-01T10:00:00Z")
    ]
    assert usage["unknown"] == ["jobs may not be listed by this server"]


def test_who_may_not_list_events_sees_none() -> None:
    usage = show_usage(CLUSTER, VisibleNames(events=False))
    assert (usage["refusals"], len(usage["rejected"])) == (None, 1)


def test_a_line_that_is_read_is_as_the_one_that_was_written() -> None:
    raise_ = "overrides: [{namespaces: [team-a], hard: {pods: 9}, until: 2099-01-01}]"
    raised = CAPS.replace("hard: {pods: 5}", f"hard: {{pods: 5}}, {raise_}")
    items = show_usage(CLUSTER, policies=raised)["items"]
    assert {item["hardUntil"] for item in items} > {None}
    for item in items:
        assert LINES.to_dict(msgspec.convert(item, UsageItemRecord).to_line()) == item


def create_large_cluster() -> list[Object]:
    """Return a cluster with names of others in all that usage reads."""
    waits = create_stored_pod(other("waits"), other("team-b"), "", {GPU: "9"})
    own = create_pod("waits", 4) | {"metadata": {"name": "waits", "namespace": "team-a", "labels": {"app": "own"}}}
    return [*CLUSTER, waits, own]


@pytest.mark.parametrize("visible", [OWN, NO_NAMES])
def test_no_name_of_another_namespace_or_of_a_node_is_in_a_usage(visible: VisibleNames) -> None:
    text = json.dumps(show_usage(create_large_cluster(), visible))
    assert MARK not in text
    assert NODE_MARK not in text


def test_the_marks_are_in_the_usage_for_someone_with_all_rights() -> None:
    text = json.dumps(show_usage(create_large_cluster()))
    assert MARK in text
    assert NODE_MARK in text


@settings(max_examples=examples(30))
@given(CASES)
def test_a_usage_is_that_of_the_command_and_hides_what_is_others(case: DrawnCase) -> None:
    """Draw some of the clusters of `tests/agreement`, which draws hundreds."""
    with TemporaryDirectory() as folder:
        compare_usages(case, Path(folder))
