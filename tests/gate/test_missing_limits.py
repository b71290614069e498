"""Caps that count limits, and containers that set none."""

from typing import Any

from tests.gate.scene import CAP, Scene, response


def test_a_cap_on_limits_refuses_a_pod_that_sets_none() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi"))
    containers = [{"name": "a", "resources": {"limits": {"memory": "1Mi"}}}, {"name": "b"}]
    answer = scene.admit({"metadata": {"uid": "u"}, "spec": {"containers": containers}})
    assert response(answer)["status"]["message"] == (
        'Pod "p": spec.containers: cap gpus counts limits.memory, which is missing on b: set it (TG203, cap gpus)'
    )


def bare(*names: str, limit: str = "", **more: Any) -> dict[str, Any]:
    """A pod with a limit of one unit on one resource in the first container, and none on the others."""
    first = {"name": "a", "resources": {"limits": {limit: "1"} if limit else {}}}
    containers = [first, *({"name": name} for name in names)]
    return {"metadata": {"uid": "u"} | more, "spec": {"containers": containers}}


def test_limits_that_a_stored_pod_lacks_do_not_stop_its_change() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi"))
    assert response(scene.admit(bare("b", labels={"x": "y"}), oldObject=bare("b")))["allowed"]


def test_a_limit_that_a_change_takes_away_is_missed_whatever_else_is_missing() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi, limits.cpu: 4"))
    answer = scene.admit(bare("b"), oldObject=bare("b", limit="cpu"), subResource="resize")
    assert response(answer)["status"]["message"] == (
        'Pod "p": spec.containers: cap gpus counts limits.cpu, which is missing on a: set it (TG203, cap gpus)'
    )


def test_who_may_break_the_glass_need_set_no_limit() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi") + "  exceed: {users: [jane]}\n")
    assert response(scene.admit(bare()))["allowed"]
