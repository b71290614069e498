"""The claims of a PodGroup: one is made from a template for all its pods, and is allocated once."""

from typing import Any

import msgspec
import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.ingest import ingest
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tallygate.accounting.scheduling.pod_group_cycle import find_group_problem
from tallygate.accounting.scheduling.scoring import DEFAULT_SCORING
from tallygate.answers.group_predictions import GroupPredictions
from tallygate.answers.pods_to_place import PodsToPlace
from tallygate.answers.prediction_details import PredictionDetails
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import claim, claim_template, device_class, device_slice, request
from tests.accounting.scheduling.product_scheduler import create_full_cluster

Json = dict[str, Any]

_ENTRY = {"name": "gpus", "resourceClaimTemplateName": "two"}
_OWNER = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "name": "g",
    "uid": "uid-g",
    "controller": True,
}
_BY_GROUP = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}]
_MADE = [{"name": "gpus", "resourceClaimName": "g-gpus-x"}]
_NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
_SHORT = "minCount (3) cannot be satisfied"


def _create_cluster(*objects: Json, quorum: int = 2, entries: tuple[Json, ...] = (_ENTRY,), **fields: Any) -> Cluster:
    """Return a cluster with four devices on each of two nodes, and a template of claims for two."""
    nodes = [node("a", cpu=fields.pop("cpu", "4")), node("b", cpu="0")]
    slices = [device_slice(each, [f"{each}{number}" for number in range(4)]) for each in ("a", "b")]
    template = claim_template("two", request(count=2))
    cluster = create_full_cluster(nodes, [], [device_class(), *slices, template, *objects])
    group = {
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": quorum}}, "resourceClaims": list(entries)},
        **fields,
    }
    ingest(cluster, "PodGroup", msgspec.json.encode(group))
    cluster.pod_groups.are_known = cluster.pod_groups.has_gate = cluster.pod_groups.has_claim_gate = True
    return cluster


def _create_pods(name: str = "w", count: int = 1, *references: Json, statuses: list[Json] | None = None) -> PodsToPlace:
    listed = list(references or (_ENTRY,))
    written = pod(name, requests={"cpu": "1"}, priority=0, schedulingGroup={"podGroupName": "g"}, resourceClaims=listed)
    if statuses is None:
        written["metadata"].pop("uid")
    else:
        written["status"] = {"resourceClaimStatuses": statuses}
    return PodsToPlace(PodsToPlace.from_pod(decode_pod(written), "default", name).subject, decode_pod(written), count)


def _predict(cluster: Cluster, *asked: PodsToPlace) -> list[PredictionDetails]:
    groups, before = GroupPredictions(asked), dict(cluster.devices.claims) if cluster.devices else {}
    with open_placement_session(cluster) as session:
        found = [groups.predict(each, cluster, session, DEFAULT_SCORING, with_node_lines=False) for each in asked]
    assert cluster.devices is not None
    assert dict(cluster.devices.claims) == before
    return [details for details in found if details is not None]


def _list_devices(details: PredictionDetails) -> list[set[str]]:
    return [
        {
            each.device
            for claimed in copy.claims
            if claimed.status and claimed.status.allocation and claimed.status.allocation.devices
            for each in claimed.status.allocation.devices.results or ()
        }
        for copy in details.claims_by_copy
    ]


def test_copies_share_the_claim_that_will_be_made_for_their_group() -> None:
    """Place three copies of two devices each on four: they have the same two."""
    (details,) = _predict(_create_cluster(), _create_pods(count=3))
    assert details.prediction.placed_count == 3
    assert _list_devices(details) == [{"a0", "a1"}] * 3
    (alone,) = _predict(_create_cluster(entries=()), _create_pods(count=3))
    assert alone.prediction.placed_count == 2


def test_pods_of_several_objects_share_it_too() -> None:
    found = _predict(_create_cluster(), _create_pods("a"), _create_pods("b", 2))
    assert [details.prediction.placed_count for details in found] == [1, 2]
    assert _list_devices(found[0])[0] == _list_devices(found[1])[1] == {"a0", "a1"}


@pytest.mark.parametrize(
    "reference",
    [
        pytest.param({"name": "other", "resourceClaimTemplateName": "two"}, id="another name"),
        pytest.param({"name": "gpus", "resourceClaimTemplateName": "one"}, id="another template"),
    ],
)
def test_a_claim_that_differs_from_that_of_the_group_is_the_own_one_of_each_pod(reference: Json) -> None:
    (details,) = _predict(_create_cluster(claim_template("one")), _create_pods("w", 2, reference))
    first, second = _list_devices(details)
    assert first.isdisjoint(second)


def test_a_stored_claim_of_the_group_is_used_as_it_is() -> None:
    """Read its name in the status of the group for new pods, and in their own for stored ones."""
    allocated = claim("g-gpus-x", allocated=["a/a2", "a/a3"], metadata={"ownerReferences": [_OWNER]})
    allocated["status"]["reservedFor"] = _BY_GROUP
    cluster = _create_cluster(allocated, status={"resourceClaimStatuses": _MADE})
    stored, new = _predict(cluster, _create_pods("old", statuses=_MADE), _create_pods(count=2))
    assert _list_devices(stored) + _list_devices(new) == [{"a2", "a3"}] * 3


def test_stored_pods_wait_for_the_controller() -> None:
    (details,) = _predict(_create_cluster(quorum=1), _create_pods("old", statuses=[]))
    result = details.prediction.next_result
    assert result is not None
    assert result.hold_reason == 'pod "default/old": ResourceClaim not created yet'


def test_a_claim_of_another_owner_is_not_accepted() -> None:
    foreign = claim("g-gpus-x", metadata={"ownerReferences": [_OWNER | {"name": "h"}]})
    (details,) = _predict(_create_cluster(foreign, quorum=1), _create_pods("old", statuses=_MADE))
    assert details.prediction.next_result is not None
    assert details.prediction.next_result.hold_reason == (
        "ResourceClaim default/g-gpus-x was not created for Pod default/old (neither Pod nor PodGroup g is the owner)"
    )


def test_a_group_reserves_its_claim_once() -> None:
    """Let more pods use a claim than may reserve one: the group is one consumer."""
    named = {"name": "gpus", "resourceClaimName": "c"}
    full = claim("c", request(count=1), allocated=["a/a0"], pods=[f"p{number}" for number in range(255)])
    for entries, placed in (((named,), 3), ((), 0)):
        cluster = _create_cluster(full, quorum=3, entries=entries)
        (details,) = _predict(cluster, _create_pods("w", 3, named))
        assert details.prediction.placed_count == placed


@pytest.mark.parametrize(
    ("entries", "made", "status", "message"),
    [
        pytest.param((_ENTRY,), {}, {}, f"{_SHORT}: 2 scheduled, 0 remaining, {_NO_VICTIMS}", id="nothing"),
        pytest.param(
            (_ENTRY,),
            {"allocated": ["a/a0"]},
            {"reservedFor": _BY_GROUP},
            f"{_SHORT}: 2 scheduled, 0 remaining, ResourceClaim unreserved for PodGroup",
            id="a reservation of an earlier cycle",
        ),
        pytest.param(
            (_ENTRY, {"name": "more", "resourceClaimName": "missing"}),
            {},
            {},
            'error in "DynamicResources" PodGroupPostFilter plugins: could not find ResourceClaim "default/missing"',
            id="a missing claim",
        ),
    ],
)
def test_the_message_names_what_becomes_of_the_claims(
    entries: tuple[Json, ...], made: Json, status: Json, message: str
) -> None:
    stored = claim("g-gpus-x", request(), metadata={"ownerReferences": [_OWNER]}, **made)
    stored["status"] |= status
    cluster = _create_cluster(stored, quorum=3, cpu="2", entries=entries, status={"resourceClaimStatuses": _MADE})
    first, *_ = _predict(cluster, *(_create_pods(f"m{number}", statuses=_MADE) for number in range(3)))
    assert first.prediction.message.removeprefix("pod group is unschedulable, ") == message


def test_a_claim_that_two_pods_could_give_back_is_an_error() -> None:
    """Name a claim with devices that only a node without room reaches: kube-scheduler deallocates it for each pod."""
    named = {"name": "c", "resourceClaimName": "c"}
    cluster = _create_cluster(claim("c", request(), allocated=["b/b0"]), quorum=1, entries=())
    conflict = (
        'error in "DynamicResources" PodGroupPostFilter plugins: Operation cannot be fulfilled on '
        'resourceclaims.resource.k8s.io "c": the object has been modified; please apply your changes to the latest '
        "version and try again"
    )
    details = _predict(cluster, _create_pods("m0", 1, named), _create_pods("m1", 1, named))
    assert [each.prediction.message for each in details] == [conflict] * 2
    (alone,) = _predict(cluster, _create_pods("m0", 1, named))
    assert alone.prediction.message.startswith("0/2 nodes are available: 1 Insufficient cpu")


def test_the_gate_of_claims_is_not_guessed() -> None:
    cluster = _create_cluster()
    cluster.pod_groups.has_claim_gate = False
    incoming = IncomingPod.from_pod(_create_pods().pod)
    assert "DRAWorkloadResourceClaims" in find_group_problem(incoming, cluster)
    reserved = claim("c", allocated=["a/a0"])
    reserved["status"]["reservedFor"] = _BY_GROUP
    ingest(cluster, "ResourceClaim", msgspec.json.encode(reserved))
    assert not find_group_problem(incoming, cluster)


def test_the_manifest_of_a_stored_group_leaves_its_claims() -> None:
    cluster = _create_cluster(status={"resourceClaimStatuses": _MADE})
    written = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    ingest(cluster, "PodGroup", msgspec.json.encode(written))
    group = cluster.pod_groups.find(("default", "g"))
    assert group is not None
    assert group.spec is not None
    assert group.status is not None
    assert group.spec.resource_claims is None
    assert group.status.resource_claim_statuses
    assert cluster.pod_groups.get_uid(("default", "g")) == "uid-g"
