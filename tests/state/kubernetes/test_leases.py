"""Leases as the API server stores them, and the meaning of its responses. e2e uses a real server."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest

from tallygate.state.kubernetes.lease_store import KubernetesLeaseStore
from tallygate.state.ports import Lease, RetryLaterError, StoreUnavailableError
from tests.state.kubernetes.scripted_api_server import (
    Responder,
    ScriptedApiServer,
    hang_up,
    respond,
    respond_json,
    server,
)

PATH = "/apis/coordination.k8s.io/v1/namespaces/here/leases"
NOW = datetime(2026, 11, 21, 12, 0, 0, 999, tzinfo=UTC)
LEASE = Lease("tallygate-leader", "one", 15.0, "7", frozenset({"b", "a"}), 2, "2026-11-21T11:00:00.000000Z")


def store(scripted: ScriptedApiServer) -> KubernetesLeaseStore:
    """Return a store on the server."""
    return KubernetesLeaseStore(scripted.client_config, "here", lambda: NOW)


def create_object(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a lease as the API server stores it."""
    return {"metadata": {"name": "l", "resourceVersion": "7", "managedFields": [{}], **metadata}, "spec": spec}


def test_a_lease_is_renewed_at_its_version() -> None:
    with server(respond_json(200)) as scripted:
        assert store(scripted).write(LEASE)
    (request,) = scripted.requests
    assert (request.method, request.path) == ("PUT", f"{PATH}/tallygate-leader")
    sent = json.loads(request.body)
    assert (sent["apiVersion"], sent["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert sent["metadata"]["resourceVersion"] == "7"
    assert sent["metadata"]["annotations"] == {"tallygate.dev/caps": "a b"}
    assert sent["metadata"]["labels"]["app.kubernetes.io/name"] == "tallygate"
    assert sent["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T11:00:00.000000Z",
        "renewTime": "2026-11-21T12:00:00.000999Z",
        "leaseTransitions": 2,
    }


def test_a_missing_lease_is_created_and_a_released_one_has_no_holder() -> None:
    with server(respond_json(201), respond_json(200)) as scripted:
        leases = store(scripted)
        assert leases.write(Lease("l", "one", 15.0))
        assert leases.write(Lease("l", "", 1.0, "8"))
    created, released = (json.loads(each.body)["spec"] for each in scripted.requests)
    assert scripted.requests[0].method == "POST"
    assert created["acquireTime"] == created["renewTime"]
    assert "holderIdentity" not in released


def test_a_lease_that_others_have_written_or_deleted_is_not_written() -> None:
    with server(respond_json(409), respond_json(404), respond_json(409)) as scripted:
        leases = store(scripted)
        assert not leases.write(LEASE)
        assert not leases.write(LEASE)
        assert not leases.write(Lease("l", "one", 15.0))


def test_leases_are_read_as_they_were_written_and_missing_fields_are_empty() -> None:
    spec = {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": LEASE.acquire_time,
        "renewTime": "2026-11-21T12:00:00.000999Z",
        "leaseTransitions": 2,
    }
    whole = create_object(spec, name=LEASE.name, annotations={"tallygate.dev/caps": "b a", "other": "x"})
    with server(respond_json(200, items=[whole, create_object({})])) as scripted:
        assert store(scripted).list_leases() == [LEASE, Lease("l", "", 0.0, "7")]
    request = unquote(scripted.requests[0].path)
    labels = "app.kubernetes.io/name=tallygate,app.kubernetes.io/component=gate"
    assert request == f"{PATH}?labelSelector={labels}"


def test_a_lease_is_removed_only_at_its_version() -> None:
    with server(respond_json(200), respond_json(409), respond_json(404)) as scripted:
        leases = store(scripted)
        for _ in range(3):
            leases.remove(LEASE)
    assert scripted.requests[0].method == "DELETE"
    assert json.loads(scripted.requests[0].body) == {"preconditions": {"resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("responder", "kind", "message"),
    [
        (
            respond_json(403, message="no"),
            StoreUnavailableError,
            "must be allowed to list, create, update and delete leases",
        ),
        (respond_json(429), RetryLaterError, "says 429"),
        (respond_json(500), StoreUnavailableError, "says 500"),
        (respond(404, b"\xff" * 5000), StoreUnavailableError, "says 404"),
        (respond(200, b"["), StoreUnavailableError, "not a list of leases"),
        (respond_json(200, items=[{}]), StoreUnavailableError, "not a list of leases"),
        (hang_up, StoreUnavailableError, "broke"),
    ],
)
def test_an_unreadable_list_of_leases_raises_the_reason(
    responder: Responder, kind: type[Exception], message: str
) -> None:
    with server(responder) as scripted, pytest.raises(kind, match=message) as caught:
        store(scripted).list_leases()
    assert len(str(caught.value)) < 1000


def test_a_failed_write_or_removal_of_a_lease_raises_the_reason() -> None:
    with server(respond_json(404), respond_json(403)) as scripted:
        leases = store(scripted)
        with pytest.raises(StoreUnavailableError, match="says 404"):
            leases.write(Lease("l", "one", 15.0))
        with pytest.raises(StoreUnavailableError, match="must be allowed"):
            leases.remove(LEASE)
