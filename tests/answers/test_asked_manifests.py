"""The answer about objects: it equals the recorded predictions, and leaves the state as it was."""

import json
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.answers.asked_manifests import MAX_COPIES, TooManyCopiesError, answer_manifests
from tallygate.cli.app import root
from tallygate.cli.framework import EXIT_USAGE_ERROR
from tallygate.cluster.cluster_state import ClusterState
from tests.accounting.scheduling.clusters import node
from tests.accounting.scheduling.devices import claim, claim_template, device_class, device_slice
from tests.answers.asked_clusters import (
    Ask,
    answer,
    build_state,
    create_context,
    list_recorded_asks,
    read_manifests,
    read_policies,
)
from tests.cli.check_case import change_directory
from tests.cli.predict import CASES

RECORDED = [*list_recorded_asks()]


def describe(state: ClusterState) -> dict[str, Any]:
    """Return all of a state that an answer may change."""
    cluster, devices = state.require_columns(), state.require_columns().devices
    nodes = cluster.nodes
    return {
        "pods": sorted(pod.uid for pod in cluster.list_pods()),
        "used": {nodes.get_name(index): dict(nodes.get_used(index)) for index in nodes.get_indices().tolist()},
        "claims": {} if devices is None else {key: claim.status for key, claim in devices.claims.items()},
        "templates": {} if devices is None else dict(devices.templates),
        "groups": {name: copy(value) for name, value in vars(cluster.pod_groups).items()},
        "stored templates": {
            (record.namespace, record.name): record.content
            for namespace in state.claim_templates.list_namespaces()
            for record in state.claim_templates.list_records(namespace)
        },
    }


@pytest.mark.parametrize("ask", RECORDED, ids=lambda ask: ask.name)
def test_an_answer_is_the_prediction_of_the_command_and_leaves_the_state_as_it_was(ask: Ask) -> None:
    state = ask.build_state()
    before = describe(state)
    answered = ask.answer(state)
    assert describe(state) == before
    assert ask.answer(state) == answered
    if answered["notModelled"]:  # these act on the others in a prediction of files
        return
    with change_directory(CASES / ask.name.partition(" ")[0]):
        result = CliRunner().invoke(root, [*ask.words, "-o", "json"], prog_name="tallygate")
    if result.exit_code == EXIT_USAGE_ERROR:  # a file with such an object has no prediction at all
        return
    predicted = json.loads(result.stdout)["items"]
    found = [prediction for each in answered["objects"] for prediction in each["predictions"]]
    assert remove_counts(found) == remove_counts(predicted)


def remove_counts(value: Any) -> Any:
    """Return plain data without the numbers of hidden names, and without the nodes that an answer does not list."""
    if isinstance(value, list):
        return [*map(remove_counts, value)]
    if not isinstance(value, dict):
        return value
    extra = {"hiddenPods", "hiddenConsumers", "hiddenAllocated", "nodeCount"} | (
        {"nodes"} if "verdict" in value else set()
    )
    return {key: remove_counts(item) for key, item in value.items() if key not in extra}


CLUSTER = (
    node("a") | {"kind": "Node"},
    device_class(),
    device_slice("a", ["d0", "d1", "d2"]),
    claim("taken", allocated=["a/d0"]),
    claim_template("pair") | {"kind": "ResourceClaimTemplate"},
    {"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "a"}}},
)
ASKED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: own}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: first}
spec:
  containers: [{name: main, image: x}]
  resourceClaims: [{name: g, resourceClaimTemplateName: own}]
---
apiVersion: v1
kind: Pod
metadata: {name: second}
spec:
  containers: [{name: main, image: x}]
  resourceClaims: [{name: g, resourceClaimTemplateName: pair}]
---
apiVersion: v1
kind: Pod
metadata: {name: third}
spec:
  containers: [{name: main, image: x}]
  resourceClaims: [{name: g, resourceClaimName: shared}]
"""
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: devices}
spec: {namespaces: {include: [default]}, hard: {gpu.deviceclass.resource.k8s.io/devices: 3}}
"""


def test_what_an_object_takes_is_not_free_for_those_after_it() -> None:
    answered = answer(ASKED, build_state(CLUSTER))
    verdicts = [prediction["verdict"] for each in answered["objects"] for prediction in each["predictions"]]
    assert verdicts == ["fits now", "not now", "not now"]
    assert [each["object"]["name"] for each in answered["objects"]] == [
        *("own", "pair", "shared", "first", "second", "third")
    ]


def test_templates_among_the_objects_are_those_that_caps_count() -> None:
    answered = answer(ASKED.replace("count: 2", "count: 4"), build_state(CLUSTER), policies=read_policies(CAP))
    codes = {each["object"]["name"]: [found["code"] for found in each["findings"]] for each in answered["objects"]}
    assert (codes["first"], codes["second"]) == (["TG209"], ["TG209"])


def fail_at(number: int) -> Callable[[], None]:
    """Return a check of the time that fails when it is called for the n-th time."""
    calls = iter(range(number))

    def check() -> None:
        if next(calls, None) is None:
            raise TimeoutError

    return check


def test_the_state_is_as_before_wherever_the_time_ends() -> None:
    state = build_state(CLUSTER)
    before, manifests = describe(state), read_manifests(ASKED)
    ends = 0
    for number in range(100):
        try:
            answer_manifests(manifests, create_context(state, read_policies(CAP), check_time=fail_at(number)))
        except TimeoutError:
            ends += 1
        else:
            break
        assert describe(state) == before, number
    assert ends == 16  # each of six objects is read and reviewed, three have pods, and one of these is placed


def test_an_invalid_object_has_findings_and_hides_no_other() -> None:
    text = (
        ASKED.replace("image: x", "images: x", 1) + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: none}\nspec: []\n"
    )
    answered = answer(text, build_state(CLUSTER))
    found = {each["object"]["name"]: each for each in answered["objects"]}
    assert [each["level"] for each in found["first"]["findings"]] == ["error"]
    assert [each["level"] for each in found["none"]["findings"]] == ["error"]
    assert not found["first"]["predictions"]
    assert [each["verdict"] for each in found["second"]["predictions"]] == ["fits now"]
    assert answered["summary"]["errors"] == 2


def test_objects_that_would_act_on_others_are_named() -> None:
    text = """
apiVersion: v1
kind: Namespace
metadata: {name: new}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: []}
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: large}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: team-a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: data}
"""
    answered = answer(text, build_state(CLUSTER))
    assert answered["notModelled"] == [
        *("Namespace new", "LimitRange limits", "NodeShape large", "PersistentVolumeClaim team-a/data")
    ]


def test_a_pod_of_a_group_is_not_modelled_by_name() -> None:
    """Name the group: the pods of one get their nodes together, or none does."""
    text = """
apiVersion: v1
kind: Pod
metadata: {name: member, namespace: team-a}
spec: {schedulingGroup: {podGroupName: gang}, containers: [{name: main, image: x}]}
"""
    (found,) = answer(text, build_state(CLUSTER))["objects"][0]["predictions"]
    assert found["verdict"] == "unknown"
    (reason,) = found["unknown"]
    assert reason.startswith("scheduling group gang: a group of pods gets its nodes and devices together, or none")


def test_more_pods_than_one_answer_has_are_an_error() -> None:
    text = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: many}}
spec:
  replicas: {MAX_COPIES}
  selector: {{matchLabels: {{a: b}}}}
  template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: main, image: x}}]}}}}
"""
    state = build_state(CLUSTER)
    assert answer(text, state)["objects"][0]["predictions"][0]["copies"] == MAX_COPIES
    with pytest.raises(TooManyCopiesError, match="10001 pods"):
        answer(f"{text}---\n{text.replace(str(MAX_COPIES), '1')}", state)


def test_an_answer_has_the_revision_that_its_parts_are_known_up_to() -> None:
    assert answer(ASKED, build_state(CLUSTER))["revision"] == "100"
