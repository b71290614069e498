"""The charge of a pod: whole or by its growth, once, and only if it matches the filter of the cap."""

from typing import Any

import pytest

from tallygate.state.ledger.ledger import Operation
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, response


@pytest.mark.parametrize(("old", "kind"), [({}, Operation.CREATE), ({"oldObject": pod("u", 1)}, Operation.UPDATE)])
def test_a_reservation_states_whether_its_pod_exists(old: dict[str, Any], kind: Operation) -> None:
    fixture = GateFixture()
    fixture.admit(pod("u", 2), **old)
    ledger = fixture.find_ledger()
    assert ledger is not None
    assert ledger.reservations["u"].operation is kind


def test_a_pod_that_has_ended_costs_nothing() -> None:
    fixture = GateFixture()
    ended = pod("u", 9) | {"status": {"phase": "Succeeded"}}
    assert response(fixture.admit(ended))["allowed"]
    assert fixture.read_reserved() == {}


def test_an_update_that_asks_for_no_more_is_free() -> None:
    fixture = GateFixture()
    assert response(fixture.admit(pod("u", 9), oldObject=pod("u", 9)))["allowed"]
    assert fixture.read_reserved() == {}


def test_a_resize_charges_what_it_adds() -> None:
    fixture = GateFixture()
    assert not response(fixture.admit(pod("u", 9), oldObject=pod("u", 4), subResource="resize"))["allowed"]
    assert response(fixture.admit(pod("u", 5), oldObject=pod("u", 2), subResource="resize"))["allowed"]
    assert fixture.read_reserved() == {GPU: 3}


def create_resized_pod(requested: int) -> dict[str, Any]:
    """Return a pod of 1 CPU whose resize to another amount is infeasible on its node."""
    whole = pod("u", 0)
    whole["spec"]["containers"][0]["resources"] = {"requests": {"cpu": f"{requested}"}}
    granted = {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    return whole | {"status": {"containerStatuses": [granted], "conditions": [pending]}}


def test_an_infeasible_resize_stays_charged_until_it_is_undone() -> None:
    fixture = GateFixture(CAP.replace("nvidia.com/gpu: 4", "cpu: 4"))
    before, after = create_resized_pod(3), create_resized_pod(5)
    assert response(fixture.admit(after, oldObject=before, subResource="resize"))["allowed"]
    assert fixture.read_reserved() == {"cpu": 2000}
    assert response(fixture.admit(create_resized_pod(1), oldObject=after, subResource="resize"))["allowed"]


def test_a_label_that_brings_a_pod_under_a_cap_charges_the_whole_pod() -> None:
    fixture = GateFixture(CAP + "  pods: {objectSelector: {matchLabels: {tier: batch}}}\n")
    before, after = pod("u", 5), pod("u", 5)
    after["metadata"]["labels"] = {"tier": "batch"}
    assert not response(fixture.admit(after, oldObject=before))["allowed"]
    assert response(fixture.admit(before, oldObject=after))["allowed"]


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"priorityClassName": "batch", "nodeSelector": {"gpu": "a100", "zone": "b"}}, True),
        ({"priorityClassName": "batch"}, False),
        ({"priorityClassName": "prod", "nodeSelector": {"gpu": "a100"}}, False),
        ({"nodeSelector": {"gpu": "a100"}}, False),
    ],
)
def test_a_filter_counts_only_pods_that_match_all_conditions(spec: dict[str, Any], counted: bool) -> None:  # noqa: FBT001  # a table
    fixture = GateFixture(CAP + "  pods: {priorityClasses: [batch], nodeSelector: {gpu: a100}}\n")
    assert response(fixture.admit(pod("u", 9, **spec)))["allowed"] is not counted


def test_a_retry_with_the_same_pod_is_charged_once() -> None:
    fixture = GateFixture()
    for _ in range(3):
        assert response(fixture.admit(pod("u", 3)))["allowed"]
    assert fixture.read_reserved() == {GPU: 3}


def test_a_full_cap_leaves_no_reservations_in_other_caps() -> None:
    fixture = GateFixture(CAP + "---" + CAP.replace("gpus", "all").replace("nvidia.com/gpu: 4", "pods: 1"))
    fixture.create(1)
    refusal = response(fixture.create(1))
    assert "cap all" in refusal["status"]["message"]
    assert fixture.read_reserved("gpus") == {GPU: 1}
