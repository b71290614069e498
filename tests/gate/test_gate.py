"""The gate: rules and caps together, as the API server would meet them."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.gate.scene import CAP, GPU, SHARED, Scene, pod, response
from webhook.admission.request import Phase, ReviewError

WHOLE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole, annotations: {tallygate.dev/why: ask the platform team}}
spec: {resources: [extended]}
---
"""


def test_a_pod_within_its_cap_is_allowed_and_promised_room() -> None:
    scene = Scene()
    assert response(scene.create(3)) == {"uid": "r", "allowed": True}
    assert scene.promised() == {GPU: 3}


def test_a_rule_speaks_before_a_cap_and_nothing_is_promised() -> None:
    scene = Scene(WHOLE + CAP)
    answer = scene.admit(pod("u", "1500m"))
    assert response(answer)["status"]["code"] == 422
    assert response(answer)["status"]["message"].endswith("(TG101, rule whole: ask the platform team)")
    assert (answer.record.verdict, answer.record.codes) == ("deny", ("TG101",))
    assert scene.promised() == {}


def test_an_update_of_a_stored_pod_lets_no_later_create_of_its_shape_pass_the_rules() -> None:
    scene = Scene(WHOLE)
    stored = pod("u", "1500m")
    relabelled = stored | {"metadata": stored["metadata"] | {"labels": {"x": "y"}}}
    assert response(scene.admit(relabelled, oldObject=stored))["allowed"]
    assert response(scene.admit(pod("v", "1500m")))["status"]["code"] == 422


def test_a_rule_by_label_is_judged_though_no_cap_asks_for_labels() -> None:
    rule = WHOLE.replace("[extended]", "[extended], match: {namespaces: {selector: {matchLabels: {gpu: 'yes'}}}}")
    scene = Scene(rule + CAP, labels={"team-a": {"gpu": "yes"}, "team-b": {}})
    assert not response(scene.admit(pod("u", "1500m")))["allowed"]
    assert response(scene.admit(pod("u", "1500m"), namespace="team-b"))["allowed"]


def test_the_mutating_phase_charges_nothing() -> None:
    scene = Scene()
    scene.create(3, phase=Phase.MUTATING)
    assert scene.promised() == {}


def test_a_dry_run_is_decided_and_changes_nothing() -> None:
    scene = Scene()
    assert response(scene.create(3, dryRun=True))["allowed"]
    assert not response(scene.create(5, dryRun=True))["allowed"]
    assert scene.promised() == {}


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE"},
        {"subResource": "status", "oldObject": pod("u", 0)},
        {"subResource": "ephemeralcontainers"},
    ],
)
def test_what_stores_no_request_charges_nothing(request_: dict[str, Any]) -> None:
    scene = Scene()
    assert response(scene.admit(pod("u", 9), **request_))["allowed"]
    assert scene.promised() == {}


def test_a_pod_that_has_ended_reserves_nothing_when_it_changes() -> None:
    scene = Scene()
    ended = pod("u", 2) | {"status": {"phase": "Succeeded"}}
    assert response(scene.admit(pod("u", 2)))["allowed"]
    before = scene.ledger()
    assert response(scene.admit(ended, oldObject=ended))["allowed"]
    assert scene.ledger() is before


def test_one_namespace_may_fill_a_shared_cap_where_nobody_settles_reservations() -> None:
    scene = Scene(SHARED)
    assert [response(scene.create(1))["allowed"] for _ in range(5)] == [True] * 4 + [False]


def test_a_workload_is_judged_by_rules_and_charged_by_nobody() -> None:
    scene = Scene(WHOLE + CAP)
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "9"}}}]}}
    answer = scene.admit({"kind": "ReplicationController", "spec": {"replicas": 3, "template": template}})
    assert response(answer)["allowed"]


def test_a_pod_without_a_uid_cannot_be_charged() -> None:
    with pytest.raises(ReviewError, match=r"object\.metadata\.uid is empty"):
        Scene().admit({"metadata": {}, "spec": {}})
    with pytest.raises(ReviewError, match=r"object\.metadata\.uid is empty"):
        Scene().admit({"spec": {}})


def test_a_pod_that_no_api_server_would_send_is_no_review() -> None:
    with pytest.raises(ReviewError, match="the pod has an invalid quantity"):
        Scene().admit(pod("u", "many"))


def test_new_policies_hold_for_the_next_request() -> None:
    scene = Scene()
    assert response(scene.create(4))["allowed"]
    scene.policies = Scene(CAP.replace("4}", "6}")).policies
    assert response(scene.create(2))["allowed"]
    scene.policies = Scene(CAP.replace("4}", "5}")).policies
    assert not response(scene.create(1))["allowed"]


def test_with_a_name_that_a_policy_adds_the_same_ledger_goes_on() -> None:
    scene = Scene()
    scene.create(1)
    scene.policies = Scene(CAP.replace("gpu: 4", "gpu: 4, pods: 1")).policies
    assert response(scene.create(1))["allowed"]
    assert scene.promised() == {GPU: 2, "pods": 1}
    assert not response(scene.create(1))["allowed"]


def test_of_a_hundred_creations_at_once_exactly_as_many_pass_as_there_is_room() -> None:
    scene = Scene(CAP.replace("4}", "50}"))
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: response(scene.create(1)), range(100)))
    assert sum(answer["allowed"] for answer in answers) == 50
    assert scene.promised() == {GPU: 50}


def test_a_record_tells_who_asked_for_what_and_never_the_object() -> None:
    record = Scene(WHOLE).admit(pod("u", "1500m")).record
    assert (record.uid, record.user, record.operation, record.kind, record.namespace, record.name) == (
        "r",
        "jane",
        "CREATE",
        "Pod",
        "team-a",
        "p",
    )
    assert "1500m" not in json.dumps([str(record)])
