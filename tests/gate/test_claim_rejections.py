"""The messages of a cap about claims for devices: as a pod's event or condition has them."""

import pytest

from tallygate.accounting.amounts import Amounts
from tests.accounting.claims import CLASS, Object, claim_object, exactly, first_available, result
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import CAP, GPU, pod, read_facts, response
from tests.gate.test_cap_rejections import ADVICE
from tests.state.informers.claims import create_claim

_CONTROLLER = {"username": "system:serviceaccount:kube-system:resource-claim-controller"}


def read_denial(replica: ClaimReplica, claim: Object, stored: Object | None = None) -> str:
    """Return the message of a denied creation, or of a denied allocation of a stored claim."""
    allocation = {"oldObject": stored, "subResource": "status"} if stored else {}
    message: str = response(replica.review_claim(claim, userInfo=_CONTROLLER, **allocation))["status"]["message"]
    return message


def create_full_replica(hard: int, used: int) -> ClaimReplica:
    """Return a replica with a claim that uses these devices."""
    replica = create_claim_replica(CAP.replace("gpu: 4", f"gpu: {hard}"))
    if used:
        replica.observe_claim(create_claim("c1", replica.next_revision(), used))
    replica.reconcile()
    return replica


def test_the_rejection_of_a_claim_from_a_template_names_its_pod_and_has_the_arithmetic() -> None:
    made = create_claim("c2", 0, 2)
    made["metadata"] |= {"name": "", "generateName": "trainer-0-gpu-"}
    message = read_denial(create_full_replica(4, 3), made)
    assert message.startswith('ResourceClaim "trainer-0-gpu-…": ')
    assert f"gpus requested=2 {GPU} used=3 reserved=0 hard=4 free=1" in read_facts(message)


@pytest.mark.parametrize(("hard", "used", "requested", "advice"), ADVICE)
def test_a_rejection_advises_to_wait_only_if_waiting_helps(hard: int, used: int, requested: int, advice: str) -> None:
    message = read_denial(create_full_replica(hard, used), create_claim("c2", 0, requested))
    of_claims = advice.replace("pods end", "pods end or claims are deleted")
    assert message.endswith(f". {of_claims} (TG201, cap gpus)")


def test_a_rejected_pod_waits_for_claims_too() -> None:
    replica = create_full_replica(4, 4)
    message = response(replica.admit(pod("u1", 1)))["status"]["message"]
    assert " claims " in message


def create_two_or_three(revision: int, devices: int = 0) -> Object:
    """Return a claim for two or three devices, with this number of allocated ones."""
    results = [result(f"gpu/choice-{devices - 2}") for _ in range(devices)] if devices else None
    request = first_available((CLASS, 2), (CLASS, 3))
    return claim_object(request, results=results, name="claim-c1", uid="c1", resourceVersion=str(revision))


@pytest.mark.parametrize(
    ("hard", "others", "arithmetic"),
    [
        (4, 2, "2 hard=4 free=2 ResourceClaim claim-c2 2 TG201"),
        (4, 5, "5 hard=4 free=0 ResourceClaim claim-c2 5 TG201"),
        (2, 1, "1 hard=2 free=1 ResourceClaim claim-c2 1 2 TG201"),
        (0, 0, "0 hard=0 free=0 TG201"),
    ],
)
def test_the_rejection_of_an_allocation_compares_it_with_what_others_leave_free(
    hard: int, others: int, arithmetic: str
) -> None:
    replica = create_claim_replica(CAP.replace("gpu: 4", f"gpu: {hard}"))
    replica.observe_claim(create_two_or_three(201))
    if others:
        replica.observe_claim(create_claim("c2", 202, others))
    replica.reconcile()
    message = read_denial(replica, create_two_or_three(201, 3), create_two_or_three(201))
    assert read_facts(message) == f"ResourceClaim claim-c1 gpus allocated=3 {GPU} {arithmetic} gpus"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (CAP, "ResourceClaim claim-c4 (4), ResourceClaim claim-c3 (2), ResourceClaim claim-c2 (1)"),
        (CAP.replace("hard:", "shared: true\n  hard:"), "namespace team-a (7)"),
    ],
    ids=["of one namespace", "shared"],
)
def test_the_rejection_of_an_allocation_names_the_others_only(text: str, named: str) -> None:
    replica = create_claim_replica(text)
    replica.observe_claim(create_two_or_three(201))
    for number, devices in ((2, 1), (3, 2), (4, 4)):
        replica.observe_claim(create_claim(f"c{number}", replica.next_revision(), devices))
    replica.reconcile()
    message = read_denial(replica, create_two_or_three(201, 3), create_two_or_three(201))
    assert f" {named}. " in message
    assert f"allocated=3 {GPU} 7 hard=4 free=0" in read_facts(message)


def test_the_rejection_of_an_allocation_names_no_consumer_if_there_is_no_other() -> None:
    replica = create_claim_replica(CAP.replace("gpu: 4", "gpu: 2").replace("hard:", "shared: true\n  hard:"))
    replica.observe_claim(create_two_or_three(201))
    replica.reconcile()
    message = read_denial(replica, create_two_or_three(201, 3), create_two_or_three(201))
    assert read_facts(message).endswith("0 hard=2 free=2 2 TG201 gpus")


def test_a_hard_limit_that_only_the_ledger_has_yet_is_reported() -> None:
    fixture = create_claim_replica(CAP.replace("hard: {nvidia.com/gpu: 4}", "soft: {nvidia.com/gpu: 4}"))
    fixture.reconcile()
    ledger = fixture.read_ledger()
    fixture.change_ledger(hard=Amounts({GPU: 2}))
    message = read_denial(fixture, claim_object(exactly(3), uid="c1", name="claim-c1"))
    assert f"requested=3 {GPU} used=0 reserved=0 hard=2 free=2" in read_facts(message), ledger
