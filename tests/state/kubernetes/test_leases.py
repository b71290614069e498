"""Leases as the API server stores them, and what each of its answers means. The real one is asked in e2e."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest

from tests.state.kubernetes.server import Play, Scripted, hang_up, says, sends, server
from webhook.state.kubernetes.lease_store import KubernetesLeaseStore
from webhook.state.ports import Lease, RetryLaterError, StoreUnavailableError

PATH = "/apis/coordination.k8s.io/v1/namespaces/here/leases"
NOW = datetime(2026, 11, 21, 12, 0, 0, 999, tzinfo=UTC)
HELD = Lease("tallygate-leader", "one", 15.0, "7", frozenset({"b", "a"}), 2, "2026-11-21T11:00:00.000000Z")


def store(scripted: Scripted) -> KubernetesLeaseStore:
    """The store on this server."""
    return KubernetesLeaseStore(scripted.client_config, "here", lambda: NOW)


def stored(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """One as the API server has it."""
    return {"metadata": {"name": "l", "resourceVersion": "7", "managedFields": [{}], **metadata}, "spec": spec}


def test_a_lease_that_is_held_is_renewed_at_its_version() -> None:
    with server(says(200)) as scripted:
        assert store(scripted).write(HELD)
    (asked,) = scripted.asked
    assert (asked.method, asked.path) == ("PUT", f"{PATH}/tallygate-leader")
    sent = json.loads(asked.body)
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


def test_a_lease_that_is_not_there_is_made_and_one_that_is_let_go_has_no_holder() -> None:
    with server(says(201), says(200)) as scripted:
        kept = store(scripted)
        assert kept.write(Lease("l", "one", 15.0))
        assert kept.write(Lease("l", "", 1.0, "8"))
    made, left = (json.loads(each.body)["spec"] for each in scripted.asked)
    assert scripted.asked[0].method == "POST"
    assert made["acquireTime"] == made["renewTime"]
    assert "holderIdentity" not in left


def test_a_lease_that_others_have_written_or_taken_away_is_not() -> None:
    with server(says(409), says(404), says(409)) as scripted:
        kept = store(scripted)
        assert not kept.write(HELD)
        assert not kept.write(HELD)
        assert not kept.write(Lease("l", "one", 15.0))


def test_leases_are_read_as_they_were_written_and_what_is_missing_is_nothing() -> None:
    spec = {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": HELD.acquire_time,
        "renewTime": "2026-11-21T12:00:00.000999Z",
        "leaseTransitions": 2,
    }
    whole = stored(spec, name=HELD.name, annotations={"tallygate.dev/caps": "b a", "other": "x"})
    with server(says(200, items=[whole, stored({})])) as scripted:
        assert store(scripted).list_leases() == [HELD, Lease("l", "", 0.0, "7")]
    asked = unquote(scripted.asked[0].path)
    labels = "app.kubernetes.io/name=tallygate,app.kubernetes.io/component=gate"
    assert asked == f"{PATH}?labelSelector={labels}"


def test_a_lease_is_removed_only_as_it_was_seen() -> None:
    with server(says(200), says(409), says(404)) as scripted:
        kept = store(scripted)
        for _ in range(3):
            kept.remove(HELD)
    assert scripted.asked[0].method == "DELETE"
    assert json.loads(scripted.asked[0].body) == {"preconditions": {"resourceVersion": "7"}}


@pytest.mark.parametrize(
    ("play", "kind", "said"),
    [
        (says(403, message="no"), StoreUnavailableError, "must be allowed to list, create, update and delete leases"),
        (says(429), RetryLaterError, "says 429"),
        (says(500), StoreUnavailableError, "says 500"),
        (sends(404, b"\xff" * 5000), StoreUnavailableError, "says 404"),
        (sends(200, b"["), StoreUnavailableError, "no list of leases"),
        (says(200, items=[{}]), StoreUnavailableError, "no list of leases"),
        (hang_up, StoreUnavailableError, "broke"),
    ],
)
def test_what_cannot_be_read_says_why(play: Play, kind: type[Exception], said: str) -> None:
    with server(play) as scripted, pytest.raises(kind, match=said) as caught:
        store(scripted).list_leases()
    assert len(str(caught.value)) < 1000


def test_what_cannot_be_written_or_removed_says_why() -> None:
    with server(says(404), says(403)) as scripted:
        kept = store(scripted)
        with pytest.raises(StoreUnavailableError, match="says 404"):
            kept.write(Lease("l", "one", 15.0))
        with pytest.raises(StoreUnavailableError, match="must be allowed"):
            kept.remove(HELD)
