"""The record of messages in a Lease: its requests, its bounds, and the meaning of responses."""

import json
from typing import Any

import pytest

from tallygate.errors import TallygateError
from tallygate.state.kubernetes.notification_record_store import (
    CAPS_ANNOTATION,
    NOTIFIED_NAME,
    REPLICAS_ANNOTATION,
    NotificationRecords,
    NotificationRecordStore,
)
from tests.state.kubernetes.scripted_api_server import Responder, ScriptedApiServer, respond, respond_json, server

PATH = "/apis/coordination.k8s.io/v1/namespaces/gates/leases"
READ = f"{PATH}?fieldSelector=metadata.name%3D{NOTIFIED_NAME}"
NOW = 1_764_599_100.25
DAY = 86400
CAPS = b'{"receivers":["ops"]}'


def _respond_lease(**annotations: str) -> Responder:
    names = {"caps": CAPS_ANNOTATION, "replicas": REPLICAS_ANNOTATION}
    written = {names[name]: text for name, text in annotations.items()}
    lease = {"metadata": {"name": NOTIFIED_NAME, "annotations": written, "resourceVersion": "7"}}
    return respond_json(200, items=[lease])


def _create_store(scripted: ScriptedApiServer) -> NotificationRecordStore:
    return NotificationRecordStore(scripted.client_config, "gates", lambda: NOW)


def _read_written(scripted: ScriptedApiServer, number: int = 1) -> dict[str, Any]:
    """Return the metadata of a write."""
    metadata: dict[str, Any] = json.loads(scripted.requests[number].body)["metadata"]
    return metadata


def test_the_first_record_is_created_and_a_later_one_replaces_it_at_its_version() -> None:
    replicas = f'{{"gate-2":{{"at":{int(NOW)},"record":{{"sent":{{}}}}}}}}'
    later = _respond_lease(caps="old", replicas=replicas)
    with server(respond_json(200, items=[]), respond_json(201), later, respond_json(200)) as scripted:
        store = _create_store(scripted)
        assert store.write("gate-1", b"", CAPS)
        assert store.write("gate-1", b'{"receivers":[]}', None)
    requests = [(each.method, each.path) for each in scripted.requests]
    assert requests == [("GET", READ), ("POST", PATH), ("GET", READ), ("PUT", f"{PATH}/{NOTIFIED_NAME}")]
    first, second = _read_written(scripted), _read_written(scripted, 3)
    assert first == {
        "name": NOTIFIED_NAME,
        "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "notifications"},
        "annotations": {CAPS_ANNOTATION: CAPS.decode(), REPLICAS_ANNOTATION: "{}"},
    }
    assert json.loads(scripted.requests[1].body)["spec"] == {"renewTime": "2025-12-01T14:25:00.250000Z"}
    assert (second["resourceVersion"], second["annotations"][CAPS_ANNOTATION]) == ("7", "old")
    assert json.loads(second["annotations"][REPLICAS_ANNOTATION]) == {
        "gate-1": {"at": int(NOW), "record": {"receivers": []}},
        "gate-2": {"at": int(NOW), "record": {"sent": {}}},
    }


def test_records_are_read_as_they_were_written() -> None:
    replicas = f'{{"gate-1":{{"at":{int(NOW)},"record":{{"sent":{{}}}}}}}}'
    with server(_respond_lease(caps=CAPS.decode(), replicas=replicas), respond_json(200, items=[])) as scripted:
        store = _create_store(scripted)
        assert store.read() == NotificationRecords(CAPS, {"gate-1": b'{"sent":{}}'})
        assert store.read() == NotificationRecords()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"a":1}',
        '{"a":{"at":"x","record":{}}}',
        "{" * 3000,
        f'{{"a":{{"at":{"9" * 400},"record":{{}}}}}}',
        '{"a":{"at":-1,"record":{}}}',
    ],
)
def test_what_is_no_record_of_replicas_is_none_and_is_replaced(text: str) -> None:
    with server(_respond_lease(replicas=text), _respond_lease(replicas=text), respond_json(200)) as scripted:
        store = _create_store(scripted)
        assert store.read() == NotificationRecords()
        assert store.write("gate-1", b"{}", None)
    written = json.loads(_read_written(scripted, 2)["annotations"][REPLICAS_ANNOTATION])
    assert written == {"gate-1": {"at": int(NOW), "record": {}}}


def test_records_of_replicas_that_are_old_or_too_many_are_dropped() -> None:
    known = {f"gate-{number:02}": {"at": int(NOW) - number, "record": {}} for number in range(30)}
    known["old"] = {"at": int(NOW) - 8 * DAY, "record": {}}
    with server(_respond_lease(replicas=json.dumps(known)), respond_json(200)) as scripted:
        _create_store(scripted).write("own", b"", None)
    written = json.loads(_read_written(scripted)["annotations"][REPLICAS_ANNOTATION])
    assert sorted(written) == [f"gate-{number:02}" for number in range(20)]


def test_all_annotations_together_fit_into_an_object() -> None:
    known = {f"gate-{number:02}": {"at": int(NOW) - number, "record": {"x": "y" * 20_000}} for number in range(20)}
    caps = b'"' + b"c" * 180_000 + b'"'
    with server(_respond_lease(replicas=json.dumps(known)), respond_json(200)) as scripted:
        _create_store(scripted).write("own", b"{}", caps)
    annotations = _read_written(scripted)["annotations"]
    assert sum(map(len, annotations.values())) < 245_000
    assert "own" in json.loads(annotations[REPLICAS_ANNOTATION])


@pytest.mark.parametrize("status", [404, 409])
def test_a_write_that_another_one_came_before_is_no_error(status: int) -> None:
    with server(_respond_lease(), respond(status, b"{}")) as scripted:
        assert not _create_store(scripted).write("gate-1", b"{}", None)


@pytest.mark.parametrize(
    "responses", [[respond(403, b"{}")], [respond(200, b"[")], [_respond_lease(), respond(500, b"{}")]]
)
def test_a_failure_of_the_api_server_is_an_error(responses: list[Responder]) -> None:
    with server(*responses) as scripted, pytest.raises(TallygateError):
        _create_store(scripted).write("gate-1", b"{}", CAPS)
