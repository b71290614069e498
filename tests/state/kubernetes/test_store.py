"""The requests to the API server and the meaning of its responses. e2e/test_store.py uses a real server."""

import json
from datetime import UTC, datetime
from threading import Event

import pytest
import urllib3

from tallygate.state.kubernetes.cap_ledger import StoredVersion, encode_ledger, get_object_name
from tallygate.state.kubernetes.ledger_store import KubernetesLedgerStore
from tallygate.state.ports import (
    LedgerFullError,
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    StoreUnreachableError,
    UnknownOutcomeError,
    VersionedLedger,
)
from tests.state.kubernetes.scripted_api_server import (
    Responder,
    ScriptedApiServer,
    hang_up,
    respond,
    respond_and_close,
    respond_json,
    send_half,
    server,
    stall,
)
from tests.state.transitions import free_ledger

KEY = LedgerKey("gpus-0123456789", "team-a")
NAME = get_object_name(KEY)
PATH = f"/apis/tallygate.dev/v1alpha1/namespaces/here/capledgers/{NAME}"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
VERSION = StoredVersion("uid-1", "7", "0", "")
STORED = respond_json(200, metadata={"name": NAME, "uid": "uid-1", "resourceVersion": "8"})
SOON = 10.0


def store(scripted: ScriptedApiServer) -> KubernetesLedgerStore:
    """Return a store on the server."""
    return KubernetesLedgerStore(scripted.client_config, "here", lambda: NOW)


def respond_status(status: int, message: str = "no", **details: str) -> Responder:
    """Return a responder that sends a Status."""
    return respond_json(status, kind="Status", message=message, details=details)


def put(scripted: ScriptedApiServer, timeout: float = SOON) -> str | None:
    """Update the stored ledger."""
    return store(scripted).write(KEY, free_ledger(4), VERSION.to_text(), timeout)


def post(scripted: ScriptedApiServer) -> str | None:
    """Create the ledger."""
    return store(scripted).write(KEY, free_ledger(4), None, SOON)


def test_a_ledger_is_read_with_its_version() -> None:
    with server(respond(200, encode_ledger(KEY, free_ledger(4), "here", VERSION, NOW).body)) as scripted:
        assert store(scripted).read(KEY, SOON) == VersionedLedger(free_ledger(4), VERSION.to_text())
    (request,) = scripted.requests
    assert (request.method, request.path) == ("GET", PATH)
    assert request.headers["Authorization"] == "Bearer t"


def test_a_missing_ledger_is_none() -> None:
    with server(respond_status(404, name=NAME)) as scripted:
        assert store(scripted).read(KEY, SOON) is None


def test_a_write_replaces_only_the_state_it_was_made_from() -> None:
    with server(STORED) as scripted:
        assert put(scripted) == StoredVersion("uid-1", "8", "0", "").to_text()
    (request,) = scripted.requests
    assert (request.method, request.path) == ("PUT", f"{PATH}?fieldValidation=Strict")
    sent = json.loads(request.body)["metadata"]
    assert (sent["resourceVersion"], sent["uid"]) == ("7", "uid-1")
    assert "finalizers" not in sent  # so that it takes no gate to uninstall the gate


def test_a_ledger_is_created_by_a_request_that_fails_if_it_exists() -> None:
    with server(respond_json(201, metadata={"uid": "uid-1", "resourceVersion": "8"}), respond_status(409)) as scripted:
        assert post(scripted) == StoredVersion("uid-1", "8", "0", "").to_text()
        assert post(scripted) is None
    assert {request.method for request in scripted.requests} == {"POST"}
    assert "uid" not in json.loads(scripted.requests[0].body)["metadata"]


@pytest.mark.parametrize("status", [404, 409])
def test_an_outdated_version_is_a_conflict(status: int) -> None:
    with server(respond_status(status, name=NAME)) as scripted:
        assert put(scripted) is None


def remove(scripted: ScriptedApiServer) -> bool:
    """Remove the stored ledger."""
    return store(scripted).remove(KEY, VersionedLedger(free_ledger(4), VERSION.to_text()), SOON)


def test_a_ledger_is_removed_at_exactly_the_version_that_was_read() -> None:
    with server(respond_json(200)) as scripted:
        assert remove(scripted)
    (delete,) = scripted.requests
    assert (delete.method, delete.path) == ("DELETE", PATH)
    assert json.loads(delete.body) == {"preconditions": {"uid": "uid-1", "resourceVersion": "7"}}


def test_a_ledger_that_was_written_since_is_not_removed() -> None:
    with server(respond_status(409)) as scripted:
        assert not remove(scripted)


def test_a_ledger_that_is_already_deleted_counts_as_removed() -> None:
    with server(respond_status(404, name=NAME)) as scripted:
        assert remove(scripted)


@pytest.mark.parametrize("responders", [(send_half,), (respond_status(500),)])
def test_a_removal_without_a_response_has_an_unknown_outcome(responders: tuple[Responder, ...]) -> None:
    with server(*responders) as scripted, pytest.raises(UnknownOutcomeError):
        remove(scripted)


def test_a_forbidden_removal_names_the_missing_permission() -> None:
    with (
        server(respond_status(403)) as scripted,
        pytest.raises(StoreUnavailableError, match="and delete capledgers"),
    ):
        remove(scripted)


def test_a_ledger_cannot_be_created_without_its_namespace() -> None:
    with (
        server(respond_status(404, 'namespaces "here" not found', name="here")) as scripted,
        pytest.raises(StoreUnavailableError, match="there must be a namespace here"),
    ):
        post(scripted)


def test_requests_share_a_connection() -> None:
    with server(STORED, STORED, STORED) as scripted:
        ledgers = store(scripted)
        for _ in range(3):
            ledgers.write(KEY, free_ledger(4), VERSION.to_text(), SOON)
    assert len(scripted.connections) == 1


def test_a_configured_proxy_gets_the_requests() -> None:
    with server(STORED) as scripted:
        scripted.pool = urllib3.ProxyManager(scripted.server)
        scripted.server = "http://api.invalid/prefix"
        assert put(scripted)
    (request,) = scripted.requests
    assert (request.path, request.headers["Host"]) == (
        f"http://api.invalid/prefix{PATH}?fieldValidation=Strict",
        "api.invalid",
    )


def test_a_connection_that_the_server_has_closed_is_not_used_for_a_write() -> None:
    closed = Event()
    with server(respond_and_close(STORED, closed), STORED) as scripted:
        ledgers = store(scripted)
        assert ledgers.write(KEY, free_ledger(4), VERSION.to_text(), SOON)
        assert closed.wait(SOON)
        assert ledgers.write(KEY, free_ledger(4), VERSION.to_text(), SOON)
    assert len(scripted.connections) == 2


@pytest.mark.parametrize(
    "responder",
    [send_half, hang_up, respond(200, b"<html>"), respond_status(500), respond_status(503), respond_status(504)],
)
def test_a_write_that_may_be_stored_has_an_unknown_outcome(responder: Responder) -> None:
    with server(responder) as scripted, pytest.raises(UnknownOutcomeError):
        put(scripted)


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_a_rejected_write_is_not_stored(status: int) -> None:
    with server(respond_status(status)) as scripted, pytest.raises(StoreUnavailableError) as caught:
        put(scripted)
    assert caught.type is StoreUnavailableError


def test_a_write_that_times_out_has_an_unknown_outcome() -> None:
    with server(stall) as scripted, pytest.raises(UnknownOutcomeError, match="does not answer"):
        put(scripted, 0.05)


def test_an_unreachable_server_has_stored_nothing() -> None:
    with server() as scripted:
        pass
    with pytest.raises(StoreUnreachableError, match="cannot be reached") as caught:
        put(scripted)
    assert caught.type is StoreUnreachableError


def test_nothing_is_requested_without_a_token() -> None:
    with server() as scripted:
        scripted.anonymous = True
        with pytest.raises(StoreUnavailableError, match="the token cannot be renewed") as caught:
            put(scripted)
    assert caught.type is StoreUnavailableError


def test_a_busy_server_is_a_retry() -> None:
    with server(respond_status(429, "later"), respond_status(429, "later")) as scripted:
        with pytest.raises(RetryLaterError, match="later"):
            put(scripted)
        with pytest.raises(RetryLaterError, match="later"):
            store(scripted).read(KEY, SOON)


def test_a_ledger_that_is_too_large_for_the_server_is_full() -> None:
    with (
        server(respond_status(413, "limit is 3145728")) as scripted,
        pytest.raises(LedgerFullError, match="limit is 3145728"),
    ):
        put(scripted)


@pytest.mark.parametrize(
    ("responder", "message"),
    [
        (
            respond_status(403, "who are you"),
            "403: who are you; the gate must be allowed to get, create, update and delete capledgers",
        ),
        (respond_status(401), "the gate must be allowed to get"),
        (respond(404, b"404 page not found"), "there must be a namespace here and this version's Custom"),
        (respond_status(404, name="here"), "there must be a namespace here"),
        (respond_status(503, "x" * 5000), "503: xxx"),
        (respond(500, b"\xff"), "500: Internal Server Error"),
        (respond(500, b"[" * 100_000), "500: Internal Server Error"),
        (respond(200, b"{}"), "cannot be read, and is left as it is"),
        (respond(200, b" " * (8 * 1024 * 1024 + 1)), "more than 8388608 bytes"),
    ],
)
def test_a_read_without_a_ledger_raises_the_reason(responder: Responder, message: str) -> None:
    responders = [responder, responder] if "bytes" in message else [responder]
    with server(*responders) as scripted, pytest.raises(StoreUnavailableError, match=message) as caught:
        store(scripted).read(KEY, SOON)
    assert len(str(caught.value)) < 1000


def test_a_read_on_a_closed_connection_is_retried() -> None:
    with server(hang_up, respond_status(404, name=NAME)) as scripted:
        assert store(scripted).read(KEY, SOON) is None


def test_a_read_is_not_retried_after_its_timeout() -> None:
    with server(stall) as scripted, pytest.raises(StoreUnavailableError, match="does not answer"):
        store(scripted).read(KEY, 0.05)


def test_a_response_with_another_ledger_is_rejected() -> None:
    other = encode_ledger(LedgerKey("other", "team-a"), free_ledger(4), "here", VERSION, NOW).body
    with server(respond(200, other)) as scripted, pytest.raises(StoreUnavailableError, match="a user created it"):
        store(scripted).read(KEY, SOON)
