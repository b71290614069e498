"""PodGroups of Kubernetes 1.37 under a cap with `admit: whole`: the first pod of a group reserves for all of them."""

from typing import Any

import pytest

from tallygate.state.ledger.expire import GANG_BOUND_SECONDS
from tests.accounting.claims import exactly
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import CAP, SHARED, response
from tests.gate.replica_fixture import BOUND, ReplicaFixture, create_active_replica
from tests.gate.test_whole_workloads import WHOLE, create_job, create_owner, review
from tests.state.informers.claim_templates import put_templates, template
from tests.state.informers.claims import create_claim
from tests.state.informers.pods import pod as stored_pod

VERSION = "scheduling.k8s.io/v1beta1"
_RECONCILIATIONS = 3  # the bound, a write after it, a live read after that
_DEVICES = {"name": "devices", "resourceClaimTemplateName": "two"}


def create_group(name: str = "gang", min_count: int = 3, uid: str = "", **fields: Any) -> dict[str, Any]:
    """Return a PodGroup; `fields` are those of its spec, but for `status` and `deletionTimestamp`."""
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": "6"}
    if deleted := fields.pop("deletionTimestamp", ""):
        metadata["deletionTimestamp"] = deleted
    status = fields.pop("status", {})
    spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}} | fields
    return {"apiVersion": VERSION, "kind": "PodGroup", "metadata": metadata, "spec": spec, "status": status}


def _create_replica(*groups: dict[str, Any], text: str = WHOLE) -> ReplicaFixture:
    replica = create_active_replica(text)
    for group in groups or (create_group(),):
        replica.stored.store("podgroups", group)
    return replica


def _create_pod(uid: str, gpus: int, group: str, *owners: dict[str, Any], **spec: Any) -> dict[str, Any]:
    named = {"schedulingGroup": {"podGroupName": group}} if group else {}
    metadata = {"ownerReferences": list(owners)} if owners else {}
    created = stored_pod(uid, 0, str(gpus), spec=named | spec, metadata=metadata)
    if not gpus:
        created["spec"]["containers"] = [{"name": "c"}]
    return created


def _request(
    replica: ReplicaFixture, uid: str, gpus: int = 1, group: str = "gang", *owners: dict[str, Any], **request: Any
) -> tuple[int, str]:
    """Review the creation of a pod of a group."""
    spec = request.pop("spec", {})
    found = response(replica.admit(_create_pod(uid, gpus, group, *owners, **spec), name=f"pod-{uid}", **request))
    return (200, "") if found["allowed"] else (found["status"]["code"], found["status"]["message"])


def _store(replica: ReplicaFixture, uid: str, gpus: int = 1, group: str = "gang", **fields: Any) -> None:
    """Store a pod of a group and deliver its watch event."""
    replica.store_pod(uid, gpus)
    stored = replica.stored_pods[uid]
    stored["spec"] |= {"schedulingGroup": {"podGroupName": group}}
    stored["metadata"] |= fields.pop("metadata", {})
    stored["status"] |= fields
    if not gpus:
        stored["spec"]["containers"] = [{"name": "c"}]
    replica.observe(uid)


def _let_pass(replica: ReplicaFixture, seconds: float) -> None:
    replica.reconcile()
    replica.reconcile(seconds)
    for _ in range(_RECONCILIATIONS):
        replica.reconcile()


def test_the_first_pod_of_a_group_reserves_for_all_of_them_and_the_others_take_over() -> None:
    replica = _create_replica()
    assert _request(replica, "p0") == (200, "")
    assert replica.count_gpus() == (0, 3)
    ledger = replica.read_ledger()
    assert ledger.reservations["uid-gang"].workload_kind == f"{VERSION}/PodGroup"
    assert ledger.reservations["p0"].workload == "uid-gang"
    assert _request(replica, "other", 2, "")[0] == 403
    assert [_request(replica, f"p{index}")[0] for index in (1, 2)] == [200, 200]
    assert replica.count_gpus() == (0, 3)
    assert _request(replica, "p3")[0] == 200, "above minCount, with room of its own"
    assert replica.count_gpus() == (0, 4)


def test_a_group_without_room_for_all_its_pods_is_denied_at_the_first_with_the_arithmetic() -> None:
    replica = _create_replica(create_group("first"), create_group("second", 2))
    assert _request(replica, "p0", group="first")[0] == 200
    code, message = _request(replica, "q0", group="second")
    assert code == 403
    assert (
        "cap gpus of this namespace admits the PodGroup second as a whole or not at all: 2 pods like this one, for its "
        "minCount, request 2 nvidia.com/gpu, used 0, reserved 3, hard 4, free 1; top consumers: PodGroup first (2, "
        "reserved), Pod pod-p0 (1, reserved). Wait until pods end, or lower its minCount"
    ) in message
    assert "(TG215, cap gpus)" in message
    assert set(replica.read_ledger().reservations) == {"uid-first", "p0"}


def test_a_group_that_never_fits_is_denied_in_other_words() -> None:
    code, message = _request(_create_replica(create_group(min_count=5)), "p0")
    assert (code, "It needs 5 at a time, which the cap never allows: lower its minCount" in message) == (403, True)


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(create_group(schedulingPolicy={"basic": {}}), id="with the basic policy"),
        pytest.param(create_group("another"), id="that does not exist"),
        pytest.param(create_group(deletionTimestamp="2026-12-01T00:00:00Z"), id="that is being deleted"),
    ],
)
def test_the_pods_are_decided_one_by_one_of_a_group(group: dict[str, Any]) -> None:
    replica = _create_replica(group)
    assert [_request(replica, f"p{index}")[0] for index in range(5)] == [200] * 4 + [403]
    assert set(replica.read_ledger().reservations) == {f"p{index}" for index in range(4)}


def test_a_group_is_known_by_its_uid() -> None:
    """Reject a pod that would take over from the former group of a name."""
    replica = _create_replica(create_group(min_count=2))
    assert _request(replica, "p0")[0] == 200
    replica.stored.store("podgroups", create_group(min_count=2, uid="another"))
    assert _request(replica, "q0") == (200, "")
    assert set(replica.read_ledger().reservations) == {"uid-gang", "p0", "another", "q0"}
    replica.stored.store("podgroups", create_group(min_count=2, uid="a third"))
    assert _request(replica, "r0")[0] == 403


def test_the_replacement_of_a_pod_needs_room_of_its_own_alone() -> None:
    replica = _create_replica()
    for index in range(3):
        assert _request(replica, f"p{index}")[0] == 200
        _store(replica, f"p{index}")
    replica.reconcile()
    assert (replica.count_gpus(), set(replica.read_ledger().reservations)) == ((3, 0), set())
    assert _request(replica, "p3")[0] == 200
    assert replica.count_gpus() == (3, 1)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"phase": "Failed"}, id="have ended"),
        pytest.param({"metadata": {"deletionTimestamp": "2026-12-01T00:00:00Z"}}, id="are being deleted"),
    ],
)
def test_a_group_reserves_again_if_all_its_pods(fields: dict[str, Any]) -> None:
    replica = _create_replica(create_group(min_count=2))
    for index in range(2):
        _store(replica, f"p{index}", **fields)
    replica.reconcile()
    assert _request(replica, "p2")[0] == 200
    assert replica.count_gpus()[1] == 2


def test_stored_pods_that_count_nothing_are_not_among_those_to_come() -> None:
    """Reserve for the workers of a group alone, whose leader requests nothing."""
    replica = _create_replica(create_group(min_count=5))
    assert _request(replica, "w0")[0] == 403
    _store(replica, "leader", 0)
    assert _request(replica, "w0") == (200, "")
    assert replica.count_gpus() == (0, 4)


def test_a_larger_pod_of_a_group_needs_room_for_the_difference() -> None:
    replica = _create_replica()
    assert _request(replica, "p0")[0] == 200
    assert _request(replica, "p1", 4)[0] == 403
    assert _request(replica, "p1", 3)[0] == 200
    assert replica.count_gpus() == (0, 4)
    assert _request(replica, "p2")[0] == 403


def test_pods_of_a_job_take_over_from_the_job_and_their_group_is_not_read() -> None:
    replica = _create_replica()
    assert review(replica, create_job()) == (200, "")
    reads = replica.stored.reads
    assert [_request(replica, f"p{index}", 1, "gang", create_owner())[0] for index in range(4)] == [200] * 4
    assert replica.stored.reads == reads + 1, "the Job, once"
    assert "uid-gang" not in replica.read_ledger().reservations


def test_pods_of_a_set_that_does_not_start_together_are_those_of_their_group() -> None:
    replica = _create_replica(create_group(min_count=4))
    owner = create_owner("set", "ReplicaSet", "apps/v1")
    assert _request(replica, "p0", 1, "gang", owner) == (200, "")
    assert replica.count_gpus() == (0, 4)


def test_no_group_is_read_without_such_a_cap_or_for_a_pod_without_one() -> None:
    replica = _create_replica()
    assert _request(replica, "p0", group="")[0] == 200
    assert replica.stored.reads == 0
    other = _create_replica(text=CAP)
    assert _request(other, "p0")[0] == 200
    assert other.stored.reads == 0


def test_a_group_that_cannot_be_read_is_an_answer_that_requests_a_retry() -> None:
    replica = _create_replica()
    replica.stored.unreadable.add("podgroups")
    code, message = _request(replica, "p0")
    assert (code, "PodGroup team-a/gang, the controller, cannot be read" in message) == (429, True)


def test_a_dry_run_reserves_nothing_for_a_group() -> None:
    replica = _create_replica(create_group(), create_group("large", 5))
    assert _request(replica, "p0", dryRun=True)[0] == 200
    assert _request(replica, "p0", group="large", dryRun=True)[0] == 403
    assert replica.count_gpus() == (0, 0)


def test_a_second_attempt_of_the_first_pod_reserves_no_second_time() -> None:
    replica = _create_replica(create_group(min_count=4))
    assert [_request(replica, "p0")[0] for _ in range(2)] == [200, 200]
    assert replica.count_gpus() == (0, 4)


@pytest.mark.parametrize(
    ("stored", "seconds", "expected"),
    [
        pytest.param(None, BOUND, 0, id="that is deleted ends with the bound"),
        pytest.param(create_group(uid="another"), BOUND, 0, id="that another one replaces ends with the bound"),
        pytest.param(create_group(), BOUND, 3, id="whose pods may come remains"),
        pytest.param(create_group(), GANG_BOUND_SECONDS, 0, id="whose pods do not come ends after two minutes"),
    ],
)
def test_the_reservation_of_a_group(stored: dict[str, Any] | None, seconds: float, expected: int) -> None:
    replica = _create_replica()
    assert _request(replica, "p0")[0] == 200
    if stored is None:
        replica.stored.objects.clear()
    else:
        replica.stored.store("podgroups", stored)
    _let_pass(replica, seconds)
    assert replica.count_gpus() == (0, expected)


def test_groups_of_one_name_in_two_namespaces_share_nothing() -> None:
    replica = ReplicaFixture(f"{SHARED}  admit: whole\n", ("team-a", "team-b"))
    replica.activate_ledgers()
    replica.stored.store("podgroups", create_group())
    replica.stored.store("podgroups", create_group(min_count=2, uid="uid-b"), "team-b")
    assert _request(replica, "p0")[0] == 200
    code, message = _request(replica, "q0", namespace="team-b")
    assert (code, "2 pods like this one" in message) == (403, True)


def _create_claim_replica(
    *claims: dict[str, Any], min_count: int = 2, status: dict[str, Any] | None = None
) -> ClaimReplica:
    replica = create_claim_replica(WHOLE)
    put_templates(replica.templates, template("two", exactly(2)), template("one", exactly(1)))
    group = create_group(min_count=min_count, resourceClaims=list(claims), status=status or {})
    replica.stored.store("podgroups", group)
    return replica


_OWN = {"resourceClaims": [{"name": "own", "resourceClaimTemplateName": "one"}]}
_ONE_SHARED = {"resourceClaims": [_DEVICES]}


def test_a_group_of_pods_with_claims_alone_reserves_for_the_claims_and_these_take_over() -> None:
    replica = _create_claim_replica(min_count=4)
    assert _request(replica, "p0", 0, spec=_OWN) == (200, "")
    assert (replica.count_gpus(), set(replica.read_ledger().reservations)) == ((0, 4), {"uid-gang"})
    assert replica.request_claim(create_claim("free", 300)) == 403
    pod = _create_pod("p0", 0, "gang", **_OWN)
    replica.stored.store("pods", pod)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod-p0", "uid": "p0", "controller": True}
    assert replica.request_claim(create_claim("c0", 301, ownerReferences=[owner])) == 200
    assert replica.count_gpus() == (0, 4)
    assert replica.read_ledger().reservations["c0"].workload == "uid-gang"


def test_a_claim_that_a_group_shares_counts_once_and_takes_over_when_it_is_made() -> None:
    replica = _create_claim_replica(_DEVICES)
    assert _request(replica, "p0", spec=_ONE_SHARED) == (200, "")
    assert replica.count_gpus() == (0, 4)
    owner = create_owner("gang", "PodGroup", VERSION)
    assert replica.request_claim(create_claim("shared", 300, 2, ownerReferences=[owner])) == 200
    assert replica.count_gpus() == (0, 4)
    assert _request(replica, "p1", spec=_ONE_SHARED) == (200, "")


def test_a_claim_that_was_made_before_the_pods_counts_by_itself() -> None:
    made = {"resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "gang-devices"}]}
    replica = _create_claim_replica(_DEVICES, status=made)
    owner = create_owner("gang", "PodGroup", VERSION)
    assert replica.request_claim(create_claim("shared", 300, 2, ownerReferences=[owner])) == 200
    assert _request(replica, "p0", spec=_ONE_SHARED) == (200, "")
    assert replica.count_gpus() == (0, 4)


def test_a_group_waits_for_a_template_that_is_not_seen() -> None:
    replica = _create_claim_replica({"name": "devices", "resourceClaimTemplateName": "unseen"})
    code, message = _request(replica, "p0")
    assert code == 429
    assert "cap gpus: ResourceClaimTemplate unseen does not exist, or was not seen yet" in message
