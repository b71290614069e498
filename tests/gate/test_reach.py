"""Which namespaces a cap holds, and how many ledgers it has for them."""

import pytest

from tests.gate.scene import BY_LABEL, CAP, Scene, response
from webhook.gate.gate import UndecidedError


def test_a_namespace_outside_the_cap_is_free() -> None:
    scene = Scene()
    assert response(scene.create(100, namespace="infra"))["allowed"]


def test_each_namespace_has_its_own_ledger() -> None:
    scene = Scene()
    assert response(scene.create(4, namespace="team-a"))["allowed"]
    assert response(scene.create(4, namespace="team-b"))["allowed"]


def test_a_shared_cap_has_one_ledger_for_all_its_namespaces() -> None:
    scene = Scene(CAP.replace("hard:", "shared: true\n  hard:"))
    assert response(scene.create(3, namespace="team-a"))["allowed"]
    refusal = response(scene.create(3, namespace="team-b"))
    assert (
        "cap gpus shared by its namespaces exceeded: requested 3 nvidia.com/gpu, used 0, reserved 3"
        in refusal["status"]["message"]
    )


def test_a_cap_by_label_holds_the_namespaces_that_carry_it() -> None:
    scene = Scene(BY_LABEL, labels={"team-a": {"gpu": "yes"}, "team-b": {}})
    assert not response(scene.create(5))["allowed"]
    assert response(scene.create(5, namespace="team-b"))["allowed"]


def test_a_cap_that_hangs_on_labels_nobody_knows_is_undecided() -> None:
    with pytest.raises(UndecidedError, match="the labels of namespace team-a are unknown here"):
        Scene(BY_LABEL).create(1)
