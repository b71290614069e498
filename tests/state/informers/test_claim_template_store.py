"""The store of ResourceClaimTemplates."""

import json
import threading
from typing import Any

import msgspec
import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.objects.devices import DeviceRequest, ResourceClaim, ResourceClaimTemplate, list_expressions
from tallygate.state.informers.namespaced_stores import ClaimTemplateStore
from tests.accounting.claims import CLASS, exactly
from tests.state.informers.claim_templates import create_store, template

_LONG = 30.0  # seconds; a test that waits for them has failed


def apply(store: ClaimTemplateStore, kind: str, content: dict[str, Any]) -> None:
    """Apply one line of a watch."""
    store.apply(store.codec.decode_event(json.dumps({"type": kind, "object": content}).encode()))


def read_count(claim: ResourceClaim | None) -> int | None:
    """Return the number of devices of the first request."""
    assert claim is not None
    assert claim.spec is not None
    assert claim.spec.devices is not None
    assert claim.spec.devices.requests is not None
    exact = claim.spec.devices.requests[0].exactly
    return exact.count if exact else None


def test_a_template_gives_the_labels_and_requests_of_its_claims_with_selectors_and_capacities() -> None:
    selectors, capacity = [{"cel": {"expression": "true"}}], {"requests": {"memory": "1Gi"}}
    stored = template("two", exactly(2, selectors=selectors, capacity=capacity))
    claim = create_store(stored).find_claim("team-a", "two")
    assert claim is not None
    assert claim.metadata is not None
    assert (claim.metadata.labels, claim.metadata.name, read_count(claim)) == ({"tier": "batch"}, None, 2)
    assert claim.spec is not None
    assert claim.spec.devices is not None
    (request,) = claim.spec.devices.requests or [DeviceRequest()]
    assert request.exactly is not None
    assert (request.exactly.device_class_name, list_expressions(request.exactly.selectors)) == (CLASS, ("true",))
    assert request.exactly.capacity is not None
    assert {name: bytes(each) for name, each in (request.exactly.capacity.requests or {}).items()} == {
        "memory": b'"1Gi"'
    }


def test_templates_are_known_by_namespace_and_name() -> None:
    store = create_store(template("two", exactly(2)), template("two", exactly(3), namespace="team-b"))
    counts = [read_count(store.find_claim(namespace, "two")) for namespace in ("team-a", "team-b")]
    assert (counts, store.find_claim("team-a", "three"), store.find_claim("c", "two")) == ([2, 3], None, None)


def test_templates_of_equal_claims_share_their_content() -> None:
    store = create_store(*(template(f"t{each}", exactly(2)) for each in range(3)))
    records = store.list_records("team-a")
    assert (len(records), len({id(record.content) for record in records})) == (3, 1)


def test_templates_follow_the_events() -> None:
    store = create_store()
    apply(store, "ADDED", template("two", exactly(2), revision=8))
    apply(store, "DELETED", template("two", exactly(2), revision=9))
    assert (store.find_claim("team-a", "two"), store.revision, len(store)) == (None, 9, 0)
    apply(store, "ADDED", template("two", exactly(3), revision=10))
    assert read_count(store.find_claim("team-a", "two")) == 3


def test_a_template_that_arrives_while_a_thread_waits_for_it_is_found() -> None:
    store, found = create_store(), list[ResourceClaim | None]()
    waiting = threading.Thread(target=lambda: found.append(store.find_claim("team-a", "two", _LONG)))
    waiting.start()
    apply(store, "ADDED", template("other", exactly(1), revision=8))
    apply(store, "ADDED", template("two", exactly(2), revision=9))
    waiting.join()
    assert [read_count(each) for each in found] == [2]


@pytest.mark.parametrize("lacking", ["uid", "namespace", "name", "resourceVersion"])
def test_a_template_without_a_required_field_is_rejected(lacking: str) -> None:
    broken = template("two")
    del broken["metadata"][lacking]
    with pytest.raises(ApiError, match="no event of resourceclaimtemplates"):
        apply(create_store(), "ADDED", broken)


def test_applied_templates_are_there_until_the_end_even_of_an_error() -> None:
    store = create_store(template("two", exactly(2)))
    applied = [msgspec.convert(template(name, exactly(4)), ResourceClaimTemplate) for name in ("two", "new", "new")]

    def find_counts() -> list[int | None]:
        return [read_count(claim) for name in ("two", "new") if (claim := store.find_claim("team-a", name))]

    def fail_with_templates() -> None:
        with store.apply_templates(applied):
            assert find_counts() == [4, 4]
            raise KeyError

    with pytest.raises(KeyError):
        fail_with_templates()
    assert find_counts() == [2]
    assert store.find_claim("team-a", "new") is None
