"""The messages of a cap: rejections, and warnings above its soft limit."""

import pytest

from tallygate.accounting.amounts import Amounts
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, read_facts, response


def test_a_rejection_shows_the_arithmetic() -> None:
    fixture = GateFixture()
    fixture.create(3)
    decision = fixture.create(2)
    status = response(decision)["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'Pod "p2": cap gpus of this namespace exceeded: requested 2 nvidia.com/gpu, used 0, reserved 3, hard 4, free 1'
        "; top consumers: Pod p (3, reserved). Request 1 or less, or wait until pods end (TG201, cap gpus)"
    )
    assert (decision.record.verdict, decision.record.codes, decision.record.rules) == ("deny", ("TG201",), ("gpus",))
    assert fixture.read_reserved() == {GPU: 3}


def test_a_rejection_shows_cpu_and_memory_as_users_write_them() -> None:
    fixture = GateFixture(CAP.replace("nvidia.com/gpu: 4", 'requests.cpu: "1", memory: 1Gi'))
    resources = {"requests": {"cpu": "1500m", "memory": "1536Mi"}}
    body = {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "resources": resources}]}}
    message = response(fixture.admit(body))["status"]["message"]
    facts = read_facts(message)
    assert "requested=1500m cpu used=0 reserved=0 hard=1 free=1" in facts
    assert "requested=1536Mi memory used=0 reserved=0 hard=1Gi free=1Gi" in facts


ADVICE = [
    (4, 4, 1, "Wait until pods end"),
    (4, 1, 4, "Request 3 or less, or wait until pods end"),
    (4, 1, 5, "Request 3 or less"),
    (4, 4, 5, "Request 4 or less, and wait until pods end"),
    (0, 0, 1, "The cap allows none in this namespace"),
]
"""The hard limit, what is charged, what is requested, and the advice."""


@pytest.mark.parametrize(("hard", "reserved", "requested", "advice"), ADVICE)
def test_a_rejection_advises_to_wait_only_if_waiting_helps(
    hard: int, reserved: int, requested: int, advice: str
) -> None:
    fixture = GateFixture(CAP.replace("4}", f"{hard}}}"))
    fixture.create(reserved)
    assert response(fixture.create(requested))["status"]["message"].endswith(f". {advice} (TG201, cap gpus)")


def test_a_shared_cap_of_zero_names_its_namespaces() -> None:
    fixture = GateFixture(CAP.replace("4}", "0}").replace("hard:", "shared: true\n  hard:"))
    assert "free 0. The cap allows none in these namespaces" in response(fixture.create(1))["status"]["message"]


def test_a_rejected_change_shows_its_growth_and_the_amount_that_would_pass() -> None:
    fixture = GateFixture()
    fixture.create(1)
    decision = fixture.admit(pod("u", 9), oldObject=pod("u", 2), subResource="resize")
    message = response(decision)["status"]["message"]
    assert "requested 7 nvidia.com/gpu on top of 2, " in message
    assert read_facts(message) == f"p2 gpus requested=7 {GPU} 2 used=0 reserved=1 hard=4 free=3 1 5 TG201 gpus"
    assert response(fixture.admit(pod("u", 5), oldObject=pod("u", 2), subResource="resize"))["allowed"] is True


def test_used_and_reserved_amounts_are_both_charged() -> None:
    fixture = GateFixture()
    fixture.create(1)
    fixture.change_ledger(used=Amounts({GPU: 2}))
    message = response(fixture.create(2))["status"]["message"]
    assert "used=2 reserved=1 hard=4 free=1 1 1 TG201" in read_facts(message)


def test_a_rejection_lists_every_exceeded_cap() -> None:
    fixture = GateFixture(CAP + "---" + CAP.replace("gpus", "all").replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 2"))
    assert len(response(fixture.create(5))["status"]["details"]["causes"]) == 2


def test_a_charge_above_the_soft_limit_warns() -> None:
    fixture = GateFixture(CAP + "  soft: {nvidia.com/gpu: 2}\n")
    assert "warnings" not in response(fixture.create(2))
    assert [read_facts(warning) for warning in response(fixture.create(1))["warnings"]] == [
        "p2 gpus charged=3 nvidia.com/gpu soft=2 hard=4 TG202 gpus"
    ]


def test_a_soft_limit_needs_no_hard_limit() -> None:
    (warning,) = response(GateFixture(CAP + "  soft: {pods: 0}\n").create(1))["warnings"]
    assert "charged=1 soft=0 hard=none" in read_facts(warning)
