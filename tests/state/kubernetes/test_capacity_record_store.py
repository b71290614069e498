"""The record of capacities in a Lease: its requests, and the meaning of responses."""

import json

import pytest

from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.state.kubernetes.capacity_record_store import CAPACITIES_ANNOTATION, CAPACITIES_NAME, CapacityRecordStore
from tallygate.state.ports import CapacityRecord, RecordedCapacity, RecordedStep, StoreUnavailableError
from tests.state.kubernetes.scripted_api_server import Responder, respond, respond_json, server

PATH = "/apis/coordination.k8s.io/v1/namespaces/gates/leases"
READ = f"{PATH}?fieldSelector=metadata.name%3Dtallygate-capacities"
GPU = "nvidia.com/gpu"
RECORD = CapacityRecord(
    1764599100.25,
    {"gpus": RecordedCapacity("ab12", {GPU: (RecordedStep(64, 1764599000.5), RecordedStep(48, None))})},
)
TEXT = (
    '{"at":1764599100.25,"caps":{"gpus":{"selection":"ab12","steps":{"nvidia.com/gpu":[[64,1764599000.5],[48,null]]}}}}'
)


def _respond_lease(text: str | None) -> Responder:
    annotations = {} if text is None else {CAPACITIES_ANNOTATION: text}
    lease = {"metadata": {"name": CAPACITIES_NAME, "annotations": annotations, "resourceVersion": "7"}}
    return respond_json(200, items=[lease])


def test_the_first_record_is_created_and_a_later_one_replaces_it_at_its_version() -> None:
    with server(respond_json(200, items=[]), respond_json(201), _respond_lease(TEXT), respond_json(200)) as scripted:
        store = CapacityRecordStore(scripted.client_config, "gates")
        store.write(RECORD)
        store.write(RECORD)
    requests = [(each.method, each.path) for each in scripted.requests]
    assert requests == [("GET", READ), ("POST", PATH), ("GET", READ), ("PUT", f"{PATH}/{CAPACITIES_NAME}")]
    first, second = (json.loads(scripted.requests[number].body) for number in (1, 3))
    assert first["metadata"] == {
        "name": CAPACITIES_NAME,
        "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "capacities"},
        "annotations": {CAPACITIES_ANNOTATION: TEXT},
    }
    assert first["spec"] == {"renewTime": "2025-12-01T14:25:00.250000Z"}
    assert second["metadata"]["resourceVersion"] == "7"


def test_a_record_is_read_as_it_was_written() -> None:
    with server(_respond_lease(TEXT), respond_json(200, items=[])) as scripted:
        store = CapacityRecordStore(scripted.client_config, "gates")
        assert store.read() == RECORD
        assert store.read() is None


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", '{"at":"x","caps":{}}', '{"at":1,"caps":{"a":{"steps":{}}}}'])
def test_what_is_no_record_is_none(text: str | None) -> None:
    with server(_respond_lease(text)) as scripted:
        assert CapacityRecordStore(scripted.client_config, "gates").read() is None


def test_a_record_that_is_too_large_keeps_the_largest_capacity_and_that_of_now() -> None:
    steps = tuple(RecordedStep(10_000 - number, 1764599000.123 + number) for number in range(60))
    caps = {f"cap-{number}": RecordedCapacity("ab12", {GPU: (*steps, RecordedStep(1, None))}) for number in range(500)}
    with server(respond_json(200, items=[]), respond_json(201)) as scripted:
        CapacityRecordStore(scripted.client_config, "gates").write(CapacityRecord(1764599100.25, caps))
    text = json.loads(scripted.requests[1].body)["metadata"]["annotations"][CAPACITIES_ANNOTATION]
    assert len(text) < 200_000
    assert json.loads(text)["caps"]["cap-7"]["steps"][GPU] == [[10_000, 1764599000.123], [1, None]]


def test_a_refusal_a_conflict_and_an_answer_of_something_else_are_errors() -> None:
    refusal = respond_json(403, kind="Status", message="no", code=403)
    conflict = respond_json(409, kind="Status", message="conflict", code=409)
    with server(refusal, _respond_lease(TEXT), conflict, respond(200, b"<html>")) as scripted:
        store = CapacityRecordStore(scripted.client_config, "gates")
        with pytest.raises(ApiError):
            store.read()
        with pytest.raises(StoreUnavailableError, match="was changed meanwhile"):
            store.write(RECORD)
        with pytest.raises(TallygateError, match="not a list of leases"):
            store.read()
