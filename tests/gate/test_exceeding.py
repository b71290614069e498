"""Users who may exceed a cap, and the audit annotation of it."""

from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, response


def test_a_user_who_may_exceed_the_cap_exceeds_it_and_leaves_an_audit_annotation() -> None:
    fixture = GateFixture(CAP + "  exceed: {groups: [firefighters]}\n")
    decision = fixture.create(9, userInfo={"username": "jo", "groups": ["firefighters"]})
    assert response(decision) == {"uid": "r", "allowed": True, "auditAnnotations": {"exceeded-caps": "gpus"}}
    assert decision.record.exceeded == ("gpus",)
    assert fixture.read_reserved() == {GPU: 9}
    assert not response(fixture.create(1))["allowed"]


def test_a_user_who_may_exceed_the_cap_leaves_no_annotation_for_the_excess_of_others() -> None:
    fixture = GateFixture(CAP + "  exceed: {groups: [firefighters]}\n")
    user = {"username": "jo", "groups": ["firefighters"]}
    fixture.create(9, userInfo=user)
    decision = fixture.admit(pod("u", 2), oldObject=pod("u", 2), userInfo=user)
    assert response(decision) == {"uid": "r", "allowed": True}
    assert decision.record.exceeded == ()
