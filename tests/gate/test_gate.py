"""The gate: rules and caps together, as the API server calls them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tallygate.admission.request import Phase, ReviewError
from tallygate.server.web.pages.page_address import create_page_finder
from tests.gate.gate_fixture import CAP, GPU, SHARED, GateFixture, pod, response

WHOLE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole, annotations: {tallygate.dev/why: ask the platform team}}
spec: {resources: [extended]}
---
"""


def test_a_pod_within_its_cap_is_allowed_and_reserved() -> None:
    fixture = GateFixture()
    assert response(fixture.create(3)) == {"uid": "r", "allowed": True}
    assert fixture.read_reserved() == {GPU: 3}


def test_a_rule_denies_before_a_cap_reserves() -> None:
    fixture = GateFixture(WHOLE + CAP)
    decision = fixture.admit(pod("u", "1500m"))
    assert response(decision)["status"]["code"] == 422
    assert response(decision)["status"]["message"].endswith("(TG101, rule whole: ask the platform team)")
    assert (decision.record.verdict, decision.record.codes) == ("deny", ("TG101",))
    assert fixture.read_reserved() == {}


def test_a_denial_leads_to_the_page_of_its_namespace() -> None:
    """Expect the address in the message and among the causes: kubectl prints one of both."""
    fixture = GateFixture(WHOLE + CAP, find_page=create_page_finder("https://gate.example.com"))
    for denied in (fixture.admit(pod("u", "1500m")), fixture.admit(pod("u", 100))):
        page = "https://gate.example.com/page/namespace?namespace=team-a"
        status = response(denied)["status"]
        assert status["message"].endswith(f")\nsee {page}")
        assert status["details"]["causes"][-1]["field"] == "see"
        assert status["details"]["causes"][-1]["message"] == page
        assert page not in denied.record.message
    assert response(fixture.create(3)) == {"uid": "r", "allowed": True}
    assert create_page_finder("") is None


def test_an_update_of_a_stored_pod_exempts_no_later_create_of_an_equal_pod() -> None:
    fixture = GateFixture(WHOLE)
    stored = pod("u", "1500m")
    relabelled = stored | {"metadata": stored["metadata"] | {"labels": {"x": "y"}}}
    assert response(fixture.admit(relabelled, oldObject=stored))["allowed"]
    assert response(fixture.admit(pod("v", "1500m")))["status"]["code"] == 422


def test_a_rule_by_label_is_evaluated_though_no_cap_needs_labels() -> None:
    rule = WHOLE.replace("[extended]", "[extended], match: {namespaces: {selector: {matchLabels: {gpu: 'yes'}}}}")
    fixture = GateFixture(rule + CAP, labels={"team-a": {"gpu": "yes"}, "team-b": {}})
    assert not response(fixture.admit(pod("u", "1500m")))["allowed"]
    assert response(fixture.admit(pod("u", "1500m"), namespace="team-b"))["allowed"]


def test_the_mutating_phase_charges_nothing() -> None:
    fixture = GateFixture()
    fixture.create(3, phase=Phase.MUTATING)
    assert fixture.read_reserved() == {}


def test_a_dry_run_is_decided_and_changes_nothing() -> None:
    fixture = GateFixture()
    assert response(fixture.create(3, dryRun=True))["allowed"]
    assert not response(fixture.create(5, dryRun=True))["allowed"]
    assert fixture.read_reserved() == {}


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE"},
        {"subResource": "status", "oldObject": pod("u", 0)},
        {"subResource": "ephemeralcontainers"},
    ],
)
def test_an_operation_that_stores_no_resource_request_charges_nothing(request_: dict[str, Any]) -> None:
    fixture = GateFixture()
    assert response(fixture.admit(pod("u", 9), **request_))["allowed"]
    assert fixture.read_reserved() == {}


def test_a_pod_that_has_ended_reserves_nothing_when_it_changes() -> None:
    fixture = GateFixture()
    ended = pod("u", 2) | {"status": {"phase": "Succeeded"}}
    assert response(fixture.admit(pod("u", 2)))["allowed"]
    before = fixture.find_ledger()
    assert response(fixture.admit(ended, oldObject=ended))["allowed"]
    assert fixture.find_ledger() is before


def test_one_namespace_can_fill_a_shared_cap_without_a_reconciler() -> None:
    fixture = GateFixture(SHARED)
    assert [response(fixture.create(1))["allowed"] for _ in range(5)] == [True] * 4 + [False]


def test_a_workload_is_evaluated_by_rules_and_not_charged() -> None:
    fixture = GateFixture(WHOLE + CAP)
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "9"}}}]}}
    decision = fixture.admit({"kind": "ReplicationController", "spec": {"replicas": 3, "template": template}})
    assert response(decision)["allowed"]


def test_a_pod_without_a_uid_cannot_be_charged() -> None:
    with pytest.raises(ReviewError, match=r"object\.metadata\.uid is empty"):
        GateFixture().admit({"metadata": {}, "spec": {}})
    with pytest.raises(ReviewError, match=r"object\.metadata\.uid is empty"):
        GateFixture().admit({"spec": {}})


def test_a_pod_with_an_invalid_quantity_is_a_review_error() -> None:
    with pytest.raises(ReviewError, match="the pod has an invalid quantity"):
        GateFixture().admit(pod("u", "many"))


def test_new_policies_apply_to_the_next_request() -> None:
    fixture = GateFixture()
    assert response(fixture.create(4))["allowed"]
    fixture.policies = GateFixture(CAP.replace("4}", "6}")).policies
    assert response(fixture.create(2))["allowed"]
    fixture.policies = GateFixture(CAP.replace("4}", "5}")).policies
    assert not response(fixture.create(1))["allowed"]


def test_a_resource_that_a_policy_adds_is_counted_in_the_same_ledger() -> None:
    fixture = GateFixture()
    fixture.create(1)
    fixture.policies = GateFixture(CAP.replace("gpu: 4", "gpu: 4, pods: 1")).policies
    assert response(fixture.create(1))["allowed"]
    assert fixture.read_reserved() == {GPU: 2, "pods": 1}
    assert not response(fixture.create(1))["allowed"]


def test_a_hundred_concurrent_creations_are_allowed_exactly_up_to_the_cap() -> None:
    fixture = GateFixture(CAP.replace("4}", "50}"))
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: response(fixture.create(1)), range(100)))
    assert sum(decision["allowed"] for decision in answers) == 50
    assert fixture.read_reserved() == {GPU: 50}


def test_a_record_has_the_user_the_operation_and_the_reason_and_nothing_else_of_the_object() -> None:
    created = pod("u", "1500m", hostname="of-the-object")
    created["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": "of-a-container"}]
    record = GateFixture(WHOLE).admit(created).record
    assert (record.uid, record.user, record.operation, record.kind, record.namespace, record.name) == (
        "r",
        "jane",
        "CREATE",
        "Pod",
        "team-a",
        "p",
    )
    assert record.message == (
        "spec.containers[0].resources.requests[nvidia.com/gpu]: 1500m is not a whole number; nvidia.com/gpu is counted "
        "in whole units: request 1 or 2 (TG101, rule whole)"
    )
    assert [each for each in ("of-the-object", "of-a-container", "TOKEN") if each in str(record)] == []
