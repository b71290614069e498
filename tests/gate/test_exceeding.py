"""Who may break the glass, and what is seen of it."""

from tests.gate.scene import CAP, GPU, Scene, pod, response


def test_who_may_break_the_glass_goes_over_and_leaves_a_trace() -> None:
    scene = Scene(CAP + "  exceed: {groups: [firefighters]}\n")
    answer = scene.create(9, userInfo={"username": "jo", "groups": ["firefighters"]})
    assert response(answer) == {"uid": "r", "allowed": True, "auditAnnotations": {"exceeded-caps": "gpus"}}
    assert answer.record.exceeded == ("gpus",)
    assert scene.promised() == {GPU: 9}
    assert not response(scene.create(1))["allowed"]


def test_who_may_break_the_glass_leaves_no_trace_where_others_did() -> None:
    scene = Scene(CAP + "  exceed: {groups: [firefighters]}\n")
    breaker = {"username": "jo", "groups": ["firefighters"]}
    scene.create(9, userInfo=breaker)
    answer = scene.admit(pod("u", 2), oldObject=pod("u", 2), userInfo=breaker)
    assert response(answer) == {"uid": "r", "allowed": True}
    assert answer.record.exceeded == ()
