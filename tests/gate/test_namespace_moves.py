"""Namespaces that come under a cap by their labels."""

from typing import Any

import pytest

from tests.gate.scene import CAP, Scene, response
from tests.gate.world import World
from webhook.admission.request import Phase, ReviewError

BY_LABEL = CAP.replace('include: ["team-*"]', "selector: {matchLabels: {gpu: 'yes'}}")
SHARED = BY_LABEL.replace("hard:", "shared: true\n  hard:")


def world(text: str, **pods: int) -> World:
    """Namespaces a, under the cap, and b, which is not, each with so many GPUs."""
    made = World(text, namespaces=())
    made.labelled("a", gpu="yes")
    made.labelled("b")
    for namespace, gpus in pods.items():
        made.store(f"u-{namespace}", gpus, namespace)
        made.see(f"u-{namespace}")
    made.open()
    return made


def told(scene: Scene, new: dict[str, str], old: dict[str, str] | None = None, **request: Any) -> list[str]:
    """What whoever labels b hears; it is done whatever that is."""
    objects = [{"kind": "Namespace", "metadata": {"name": "b", "labels": labels}} for labels in (new, old or {})]
    named = {"kind": {"group": "", "kind": "Namespace"}, "name": "b", "namespace": "b", "oldObject": objects[1]}
    said = response(scene.admit(objects[0], **named | request))
    assert said["allowed"]
    warnings: list[str] = said.get("warnings", [])
    return warnings


def test_pods_that_overfill_a_shared_cap_are_told_with_the_sum() -> None:
    (warning,) = told(world(SHARED, a=3, b=2), {"gpu": "yes"})
    assert warning == (
        'Namespace "b": metadata.labels: its pods use 2 nvidia.com/gpu, and cap gpus shared by its namespaces is '
        "exceeded with them: charged 5, hard 4. They stay, and no further pod is accepted until enough pods end "
        "(TG207, cap gpus)"
    )


def test_promises_count_too() -> None:
    made = world(SHARED, b=2)
    assert made.code("u1", 3, "a") == 200
    assert len(told(made, {"gpu": "yes"})) == 1


def test_the_pods_of_a_namespace_that_returns_to_a_cap_of_its_own_are_not_added_to_what_its_ledger_says() -> None:
    made = world(BY_LABEL, b=3)
    made.labelled("b", gpu="yes")
    made.open()
    assert made.sums("b") == (3, 0)
    made.labelled("b")
    assert told(made, {"gpu": "yes"}) == []


def test_a_cap_of_its_own_is_overfilled_by_its_own_pods_alone() -> None:
    assert told(world(BY_LABEL, a=4, b=4), {"gpu": "yes"}) == []
    (warning,) = told(world(BY_LABEL, a=4, b=5), {"gpu": "yes"})
    assert "cap gpus of this namespace is exceeded with them: charged 5, hard 4" in warning


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ({"gpu": "yes", "more": "1"}, {"gpu": "yes"}),  # it was under the cap before
        ({}, {"gpu": "yes"}),  # it leaves
        ({"other": "1"}, {}),  # it has nothing to do with the cap
    ],
)
def test_only_who_comes_under_a_cap_is_told(new: dict[str, str], old: dict[str, str]) -> None:
    assert told(world(SHARED, a=3, b=2), new, old) == []


def test_a_namespace_whose_pods_fit_hears_nothing() -> None:
    assert told(world(SHARED, a=2, b=2), {"gpu": "yes"}) == []
    assert told(world(SHARED, a=9), {"gpu": "yes"}) == []


def test_where_no_pods_are_watched_nothing_is_said() -> None:
    assert told(Scene(SHARED), {"gpu": "yes"}) == []


def test_it_is_said_once_though_there_are_two_phases() -> None:
    assert told(world(SHARED, a=3, b=2), {"gpu": "yes"}, phase=Phase.MUTATING) == []


def test_what_is_no_namespace_is_no_review() -> None:
    with pytest.raises(ReviewError, match="the object is not a Namespace"):
        told(world(SHARED, a=3, b=2), {"gpu": 1})  # type: ignore[dict-item]
