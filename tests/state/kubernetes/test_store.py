"""What each answer of the API server means, and what is sent to it. The real one is asked in e2e/test_store.py."""

import json
from datetime import UTC, datetime
from threading import Event

import pytest
import urllib3

from tests.state.attempts import room
from tests.state.kubernetes.server import Play, Scripted, cut, hang_up, parting, says, sends, server, stall
from webhook.state.kubernetes.cap_ledger import StoredVersion, encode_ledger, get_object_name
from webhook.state.kubernetes.ledger_store import KubernetesLedgerStore
from webhook.state.ports import (
    LedgerFullError,
    LedgerKey,
    RetryLaterError,
    StoreUnavailableError,
    UnknownOutcomeError,
    VersionedLedger,
)

KEY = LedgerKey("gpus-0123456789", "team-a")
NAME = get_object_name(KEY)
PATH = f"/apis/tallygate.dev/v1alpha1/namespaces/here/capledgers/{NAME}"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PLACE = StoredVersion("uid-1", "7", "0", "")
STORED = says(200, metadata={"name": NAME, "uid": "uid-1", "resourceVersion": "8"})
SOON = 10.0


def store(scripted: Scripted) -> KubernetesLedgerStore:
    """The store on this server."""
    return KubernetesLedgerStore(scripted.client_config, "here", lambda: NOW)


def refusal(status: int, message: str = "no", **details: str) -> Play:
    """A Status."""
    return says(status, kind="Status", message=message, details=details)


def put(scripted: Scripted, patience: float = SOON) -> str | None:
    """Write to what is there."""
    return store(scripted).write(KEY, room(4), PLACE.to_text(), patience)


def post(scripted: Scripted) -> str | None:
    """Make it."""
    return store(scripted).write(KEY, room(4), None, SOON)


def test_a_ledger_is_read_with_its_version() -> None:
    with server(sends(200, encode_ledger(KEY, room(4), "here", PLACE, NOW).body)) as scripted:
        assert store(scripted).read(KEY, SOON) == VersionedLedger(room(4), PLACE.to_text())
    (asked,) = scripted.asked
    assert (asked.method, asked.path) == ("GET", PATH)
    assert asked.headers["Authorization"] == "Bearer t"


def test_a_ledger_that_is_not_there_is_none() -> None:
    with server(refusal(404, name=NAME)) as scripted:
        assert store(scripted).read(KEY, SOON) is None


def test_a_write_replaces_only_the_state_it_was_made_from() -> None:
    with server(STORED) as scripted:
        assert put(scripted) == StoredVersion("uid-1", "8", "0", "").to_text()
    (asked,) = scripted.asked
    assert (asked.method, asked.path) == ("PUT", f"{PATH}?fieldValidation=Strict")
    sent = json.loads(asked.body)["metadata"]
    assert (sent["resourceVersion"], sent["uid"], sent["finalizers"]) == ("7", "uid-1", ["tallygate.dev/ledger"])


def test_a_ledger_is_made_by_a_request_that_fails_where_there_is_one() -> None:
    with server(says(201, metadata={"uid": "uid-1", "resourceVersion": "8"}), refusal(409)) as scripted:
        assert post(scripted) == StoredVersion("uid-1", "8", "0", "").to_text()
        assert post(scripted) is None
    assert {asked.method for asked in scripted.asked} == {"POST"}
    assert "uid" not in json.loads(scripted.asked[0].body)["metadata"]


@pytest.mark.parametrize("status", [404, 409])
def test_a_state_that_is_no_more_is_a_conflict(status: int) -> None:
    with server(refusal(status, name=NAME)) as scripted:
        assert put(scripted) is None


def removed(scripted: Scripted) -> bool:
    """Take away what is there."""
    return store(scripted).remove(KEY, VersionedLedger(room(4), PLACE.to_text()), SOON)


def test_a_ledger_is_taken_away_at_just_the_state_that_was_found() -> None:
    with server(STORED, says(200)) as scripted:
        assert removed(scripted)
    put_, delete = scripted.asked
    assert (put_.method, put_.path) == ("PUT", f"{PATH}?fieldValidation=Strict")
    sent = json.loads(put_.body)["metadata"]
    assert (sent["resourceVersion"], sent["uid"], sent.get("finalizers")) == ("7", "uid-1", None)
    assert (delete.method, delete.path) == ("DELETE", PATH)
    assert json.loads(delete.body) == {"preconditions": {"uid": "uid-1", "resourceVersion": "8"}}


@pytest.mark.parametrize("plays", [(refusal(409),), (STORED, refusal(409))])
def test_a_ledger_that_somebody_has_written_since_is_not_taken_away(plays: tuple[Play, ...]) -> None:
    with server(*plays) as scripted:
        assert not removed(scripted)


@pytest.mark.parametrize("plays", [(refusal(404, name=NAME),), (STORED, refusal(404, name=NAME))])
def test_a_ledger_that_has_gone_before_has_gone(plays: tuple[Play, ...]) -> None:
    with server(*plays) as scripted:
        assert removed(scripted)


@pytest.mark.parametrize("plays", [(cut,), (STORED, cut), (STORED, refusal(500))])
def test_a_removal_that_is_not_answered_may_have_been_done(plays: tuple[Play, ...]) -> None:
    with server(*plays) as scripted, pytest.raises(UnknownOutcomeError):
        removed(scripted)


def test_who_may_not_delete_ledgers_is_told_so() -> None:
    with server(STORED, refusal(403)) as scripted, pytest.raises(StoreUnavailableError, match="and delete capledgers"):
        removed(scripted)


def test_a_ledger_cannot_be_made_where_there_is_no_place_for_it() -> None:
    with (
        server(refusal(404, 'namespaces "here" not found', name="here")) as scripted,
        pytest.raises(StoreUnavailableError, match="there must be a namespace here"),
    ):
        post(scripted)


def test_requests_share_a_connection() -> None:
    with server(STORED, STORED, STORED) as scripted:
        kept = store(scripted)
        for _ in range(3):
            kept.write(KEY, room(4), PLACE.to_text(), SOON)
    assert len(scripted.connections) == 1


def test_a_proxy_is_asked_where_one_is_configured() -> None:
    with server(STORED) as scripted:
        scripted.pool = urllib3.ProxyManager(scripted.server)
        scripted.server = "http://api.invalid/prefix"
        assert put(scripted)
    (asked,) = scripted.asked
    assert (asked.path, asked.headers["Host"]) == (
        f"http://api.invalid/prefix{PATH}?fieldValidation=Strict",
        "api.invalid",
    )


def test_a_connection_that_the_server_has_closed_is_not_used_for_a_write() -> None:
    gone = Event()
    with server(parting(STORED, gone), STORED) as scripted:
        kept = store(scripted)
        assert kept.write(KEY, room(4), PLACE.to_text(), SOON)
        assert gone.wait(SOON)
        assert kept.write(KEY, room(4), PLACE.to_text(), SOON)
    assert len(scripted.connections) == 2


@pytest.mark.parametrize("play", [cut, hang_up, sends(200, b"<html>"), refusal(500), refusal(503), refusal(504)])
def test_a_write_that_may_have_been_done_is_told_from_one_that_was_not(play: Play) -> None:
    with server(play) as scripted, pytest.raises(UnknownOutcomeError):
        put(scripted)


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_a_write_that_was_refused_was_not_done(status: int) -> None:
    with server(refusal(status)) as scripted, pytest.raises(StoreUnavailableError) as caught:
        put(scripted)
    assert caught.type is StoreUnavailableError


def test_a_write_that_is_not_answered_may_have_been_done() -> None:
    with server(stall) as scripted, pytest.raises(UnknownOutcomeError, match="does not answer"):
        put(scripted, 0.05)


def test_a_server_that_cannot_be_reached_has_done_nothing() -> None:
    with server() as scripted:
        pass
    with pytest.raises(StoreUnavailableError, match="cannot be reached") as caught:
        put(scripted)
    assert caught.type is StoreUnavailableError


def test_without_a_token_nothing_is_asked() -> None:
    with server() as scripted:
        scripted.anonymous = True
        with pytest.raises(StoreUnavailableError, match="the token cannot be renewed"):
            put(scripted)


def test_a_server_that_has_too_much_to_do_is_to_be_asked_again() -> None:
    with server(refusal(429, "later"), refusal(429, "later")) as scripted:
        with pytest.raises(RetryLaterError, match="later"):
            put(scripted)
        with pytest.raises(RetryLaterError, match="later"):
            store(scripted).read(KEY, SOON)


def test_a_ledger_that_the_server_finds_too_large_is_full() -> None:
    with server(refusal(413, "limit is 3145728")) as scripted, pytest.raises(LedgerFullError, match="limit is 3145728"):
        put(scripted)


@pytest.mark.parametrize(
    ("play", "says_"),
    [
        (
            refusal(403, "who are you"),
            "403: who are you; the gate must be allowed to get, create, update and delete capledgers",
        ),
        (refusal(401), "the gate must be allowed to get"),
        (sends(404, b"404 page not found"), "there must be a namespace here and this version's Custom"),
        (refusal(404, name="here"), "there must be a namespace here"),
        (refusal(503, "x" * 5000), "503: xxx"),
        (sends(500, b"\xff"), "500: Internal Server Error"),
        (sends(500, b"[" * 100_000), "500: Internal Server Error"),
        (sends(200, b"{}"), "cannot be read, and is left as it is"),
        (sends(200, b" " * (8 * 1024 * 1024 + 1)), "more than 8388608 bytes"),
    ],
)
def test_a_read_that_says_nothing_of_the_ledger_says_why(play: Play, says_: str) -> None:
    plays = [play, play] if "bytes" in says_ else [play]
    with server(*plays) as scripted, pytest.raises(StoreUnavailableError, match=says_) as caught:
        store(scripted).read(KEY, SOON)
    assert len(str(caught.value)) < 1000


def test_a_read_on_a_connection_that_just_ended_is_asked_again() -> None:
    with server(hang_up, refusal(404, name=NAME)) as scripted:
        assert store(scripted).read(KEY, SOON) is None


def test_a_read_is_not_asked_again_when_the_time_is_over() -> None:
    with server(stall) as scripted, pytest.raises(StoreUnavailableError, match="does not answer"):
        store(scripted).read(KEY, 0.05)


def test_another_kind_of_answer_is_no_ledger() -> None:
    other = encode_ledger(LedgerKey("other", "team-a"), room(4), "here", PLACE, NOW).body
    with server(sends(200, other)) as scripted, pytest.raises(StoreUnavailableError, match="a user created it"):
        store(scripted).read(KEY, SOON)
