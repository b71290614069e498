"""The namespaces that a cap counts, and its ledgers for them."""

import pytest

from tallygate.gate.decisions import UndecidedError
from tests.gate.gate_fixture import BY_LABEL, CAP, GateFixture, response
from tests.gate.replica_fixture import ReplicaFixture


def test_a_namespace_outside_the_cap_is_free() -> None:
    fixture = GateFixture()
    assert response(fixture.create(100, namespace="infra"))["allowed"]


def test_each_namespace_has_its_own_ledger() -> None:
    fixture = GateFixture()
    assert response(fixture.create(4, namespace="team-a"))["allowed"]
    assert response(fixture.create(4, namespace="team-b"))["allowed"]


def test_a_shared_cap_has_one_ledger_for_all_its_namespaces() -> None:
    fixture = GateFixture(CAP.replace("hard:", "shared: true\n  hard:"))
    assert response(fixture.create(3, namespace="team-a"))["allowed"]
    refusal = response(fixture.create(3, namespace="team-b"))
    assert (
        "cap gpus shared by its namespaces exceeded: requested 3 nvidia.com/gpu, used 0, reserved 3"
        in refusal["status"]["message"]
    )


def test_a_cap_by_label_counts_the_namespaces_with_the_label() -> None:
    fixture = GateFixture(BY_LABEL, labels={"team-a": {"gpu": "yes"}, "team-b": {}})
    assert not response(fixture.create(5))["allowed"]
    assert response(fixture.create(5, namespace="team-b"))["allowed"]


def test_a_cap_by_unknown_labels_is_undecided() -> None:
    with pytest.raises(UndecidedError, match="the labels of namespace team-a are unknown here") as caught:
        GateFixture(BY_LABEL).create(1)
    assert not caught.value.is_transient


def test_labels_that_a_watch_has_not_delivered_yet_are_worth_another_attempt() -> None:
    with pytest.raises(UndecidedError, match="the labels of namespace team-b are unknown here") as caught:
        ReplicaFixture(BY_LABEL).create(1, namespace="team-b")
    assert caught.value.is_transient
