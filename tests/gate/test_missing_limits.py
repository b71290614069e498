"""Caps that count limits, and containers that set none."""

from typing import Any

from tests.gate.gate_fixture import CAP, GateFixture, response


def test_a_cap_on_limits_rejects_a_pod_without_limits() -> None:
    fixture = GateFixture(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi"))
    containers = [{"name": "a", "resources": {"limits": {"memory": "1Mi"}}}, {"name": "b"}]
    decision = fixture.admit({"metadata": {"uid": "u"}, "spec": {"containers": containers}})
    assert response(decision)["status"]["message"] == (
        'Pod "p": spec.containers: cap gpus counts limits.memory, which is missing or 0 on b: set it (TG203, cap gpus)'
    )


def create_pod(*names: str, limit: str = "", **more: Any) -> dict[str, Any]:
    """Return a pod with a limit of one unit in the first container, and no limits in the others."""
    first = {"name": "a", "resources": {"limits": {limit: "1"} if limit else {}}}
    containers = [first, *({"name": name} for name in names)]
    return {"metadata": {"uid": "u"} | more, "spec": {"containers": containers}}


def test_limits_that_a_stored_pod_lacks_do_not_stop_its_change() -> None:
    fixture = GateFixture(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi"))
    assert response(fixture.admit(create_pod("b", labels={"x": "y"}), oldObject=create_pod("b")))["allowed"]


def test_a_limit_that_a_change_removes_is_reported_whatever_else_is_missing() -> None:
    fixture = GateFixture(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi, limits.cpu: 4"))
    decision = fixture.admit(create_pod("b"), oldObject=create_pod("b", limit="cpu"), subResource="resize")
    assert response(decision)["status"]["message"] == (
        'Pod "p": spec.containers: cap gpus counts limits.cpu, which is missing or 0 on a: set it (TG203, cap gpus)'
    )


def test_a_user_who_may_exceed_the_cap_needs_no_limit() -> None:
    fixture = GateFixture(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi") + "  exceed: {users: [jane]}\n")
    assert response(fixture.admit(create_pod()))["allowed"]
