"""Claims of PodGroups in records: who owns them, and for which PodGroups they are reserved."""

from typing import Any

from tallygate.accounting.scheduling.plugins.resource_claims import is_owned_by_group, is_pod_group, list_consumers
from tallygate.objects.devices import ResourceClaim
from tallygate.state.informers.claim_records import ClaimRecord
from tests.state.informers.claims import claim_page, create_claim

GROUP = "scheduling.k8s.io"


def read_claim(reserved_for: list[dict[str, Any]], *owners: dict[str, Any]) -> tuple[ClaimRecord, ResourceClaim]:
    """Return the record of a stored claim, and the claim that the record gives."""
    stored = create_claim("c", 1, ownerReferences=[{"controller": True, **each} for each in owners])
    (record,) = claim_page(2, {**stored, "status": {"reservedFor": reserved_for}}).items
    assert isinstance(record, ClaimRecord)
    return record, record.to_claim()


def test_a_claim_keeps_the_pod_group_that_owns_it_and_those_that_use_it() -> None:
    """Tell a pod from a PodGroup of the same name."""
    consumers = [
        {"resource": "pods", "name": "gang", "uid": "p"},
        {"apiGroup": GROUP, "resource": "podgroups", "name": "gang", "uid": "g"},
    ]
    owner = {"apiVersion": f"{GROUP}/v1beta1", "kind": "PodGroup", "name": "gang", "uid": "g"}
    record, claim = read_claim(consumers, owner)
    assert record.groups == ((1, "g"),)
    assert is_owned_by_group(claim, "gang")
    assert not is_owned_by_group(claim, "other")
    assert [(is_pod_group(each), each.name) for each in list_consumers(claim)] == [(False, "gang"), (True, "gang")]
    assert list_consumers(claim)[1].uid == "g"


def test_a_claim_of_a_kind_of_the_same_name_in_another_api_group_belongs_to_no_group() -> None:
    record, claim = read_claim([], {"apiVersion": "example.com/v1", "kind": "PodGroup", "name": "gang", "uid": "g"})
    assert record.owner_group == ""
    assert not is_owned_by_group(claim, "gang")


def test_a_claim_keeps_the_pod_for_which_a_template_made_it() -> None:
    _, claim = read_claim([], {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"})
    assert [(owner.kind, owner.uid) for owner in (claim.metadata and claim.metadata.owner_references) or ()] == [
        ("Pod", "u")
    ]
