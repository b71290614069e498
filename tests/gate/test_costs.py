"""What a pod costs: whole or by what a change adds, once, and only where the filter of a cap counts it."""

from typing import Any

import pytest

from tests.gate.scene import CAP, GPU, Scene, pod, response
from webhook.state.ledger.ledger import Operation


@pytest.mark.parametrize(("old", "kind"), [({}, Operation.CREATE), ({"oldObject": pod("u", 1)}, Operation.UPDATE)])
def test_a_promise_says_whether_its_pod_is_there_already(old: dict[str, Any], kind: Operation) -> None:
    scene = Scene()
    scene.admit(pod("u", 2), **old)
    ledger = scene.ledger()
    assert ledger is not None
    assert ledger.reservations["u"].operation is kind


def test_a_pod_that_has_ended_costs_nothing() -> None:
    scene = Scene()
    ended = pod("u", 9) | {"status": {"phase": "Succeeded"}}
    assert response(scene.admit(ended))["allowed"]
    assert scene.promised() == {}


def test_an_update_that_asks_for_no_more_is_free() -> None:
    scene = Scene()
    assert response(scene.admit(pod("u", 9), oldObject=pod("u", 9)))["allowed"]
    assert scene.promised() == {}


def test_a_resize_charges_what_it_adds() -> None:
    scene = Scene()
    assert not response(scene.admit(pod("u", 9), oldObject=pod("u", 4), subResource="resize"))["allowed"]
    assert response(scene.admit(pod("u", 5), oldObject=pod("u", 2), subResource="resize"))["allowed"]
    assert scene.promised() == {GPU: 3}


def test_a_label_that_brings_a_pod_under_a_cap_charges_all_of_it() -> None:
    scene = Scene(CAP + "  pods: {objectSelector: {matchLabels: {tier: batch}}}\n")
    before, after = pod("u", 5), pod("u", 5)
    after["metadata"]["labels"] = {"tier": "batch"}
    assert not response(scene.admit(after, oldObject=before))["allowed"]
    assert response(scene.admit(before, oldObject=after))["allowed"]


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"priorityClassName": "batch", "nodeSelector": {"gpu": "a100", "zone": "b"}}, True),
        ({"priorityClassName": "batch"}, False),
        ({"priorityClassName": "prod", "nodeSelector": {"gpu": "a100"}}, False),
        ({"nodeSelector": {"gpu": "a100"}}, False),
    ],
)
def test_a_filter_counts_only_pods_of_which_all_is_so(spec: dict[str, Any], counted: bool) -> None:  # noqa: FBT001  # a table
    scene = Scene(CAP + "  pods: {priorityClasses: [batch], nodeSelector: {gpu: a100}}\n")
    assert response(scene.admit(pod("u", 9, **spec)))["allowed"] is not counted


def test_a_retry_with_the_same_pod_is_charged_once() -> None:
    scene = Scene()
    for _ in range(3):
        assert response(scene.admit(pod("u", 3)))["allowed"]
    assert scene.promised() == {GPU: 3}


def test_a_full_cap_starves_no_neighbour_with_promises() -> None:
    scene = Scene(CAP + "---" + CAP.replace("gpus", "all").replace("nvidia.com/gpu: 4", "pods: 1"))
    scene.create(1)
    refusal = response(scene.create(1))
    assert "cap all" in refusal["status"]["message"]
    assert scene.promised("gpus") == {GPU: 1}
