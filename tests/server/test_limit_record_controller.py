"""The records of admitted annotations: written once they are stored, changed and removed, and read by audits."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from tallygate.admission.request import UPDATE, AdmissionRequest, UserInfo
from tallygate.gate.limit_admissions import LimitAdmissions
from tallygate.kube.client import ApiClient
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.server.controllers.limit_record_controller import LimitRecordController
from tallygate.server.telemetry.json_log import create_logger
from tallygate.state.informers.named_stores import NamespaceRecord
from tallygate.state.kubernetes.limit_record_store import read_limit_records
from tallygate.state.ports import StoreUnavailableError
from tests.state.kubernetes.scripted_api_server import Responder, ScriptedApiServer, respond, respond_json, server

PATH = "/apis/coordination.k8s.io/v1/namespaces/gates/leases"
LIST = f"{PATH}?labelSelector=app.kubernetes.io%2Fname%3Dtallygate%2Capp.kubernetes.io%2Fcomponent%3Dlimits"
NAME = "tallygate-limits.team-a"
TEXT = "nvidia.com/gpu=7"


def _create_lease(uid: str = "u1", **texts: str) -> dict[str, Any]:
    """Return the record of team-a as an API server stores it."""
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "team-a", "uid": uid}
    annotations = {f"{ANNOTATION_PREFIX}{cap}": text for cap, text in texts.items()}
    meta = {"name": NAME, "annotations": annotations, "ownerReferences": [owner], "resourceVersion": "7"}
    return {"metadata": meta, "spec": {"holderIdentity": "bob"}}


def _respond_leases(*leases: dict[str, Any]) -> Responder:
    return respond_json(200, items=list(leases))


def _create_controller(
    scripted: ScriptedApiServer, before: dict[str, str], after: dict[str, str]
) -> LimitRecordController:
    """Return the controller of a replica that admitted a change of team-a, which the watch shows."""

    def encode(texts: dict[str, str]) -> bytes:
        annotations = {f"{ANNOTATION_PREFIX}{cap}": text for cap, text in texts.items()}
        return json.dumps({"metadata": {"name": "team-a", "uid": "u1", "annotations": annotations}}).encode()

    admissions = LimitAdmissions(lambda: 0.0, nullcontext())
    admissions.add(AdmissionRequest("Namespace", UPDATE, encode(after), encode(before), user=UserInfo("ann")))
    namespace = NamespaceRecord("u1", "team-a", 1, {}, limit_texts=after)
    return LimitRecordController(
        scripted.client_config, "gates", admissions, lambda _: namespace, create_logger("error")
    )


def _list_requests(scripted: ScriptedApiServer) -> list[tuple[str, str]]:
    return [(each.method, each.path) for each in scripted.requests]


def test_the_first_admitted_annotation_of_a_namespace_is_recorded_for_its_uid() -> None:
    with server(_respond_leases(), respond_json(201)) as scripted:
        controller = _create_controller(scripted, {}, {"gpus": TEXT})
        assert controller.record_stored()
        assert not controller.record_stored()
    assert _list_requests(scripted) == [("GET", LIST), ("POST", PATH)]
    sent = json.loads(scripted.requests[1].body)
    assert (sent["apiVersion"], sent["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert sent["metadata"] == {
        "name": NAME,
        "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "limits"},
        "annotations": {"limits.tallygate.dev/gpus": TEXT},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "team-a", "uid": "u1"}],
    }
    assert sent["spec"] == {"holderIdentity": "ann"}


def test_a_further_annotation_is_added_to_the_record_at_its_version() -> None:
    with server(_respond_leases(_create_lease(tapes="tape=1")), respond_json(200)) as scripted:
        _create_controller(scripted, {}, {"gpus": TEXT}).record_stored()
    assert _list_requests(scripted)[1] == ("PUT", f"{PATH}/{NAME}")
    meta = json.loads(scripted.requests[1].body)["metadata"]
    assert meta["annotations"] == {"limits.tallygate.dev/gpus": TEXT, "limits.tallygate.dev/tapes": "tape=1"}
    assert meta["resourceVersion"] == "7"


def test_what_was_recorded_of_an_earlier_namespace_of_the_name_is_dropped() -> None:
    with server(_respond_leases(_create_lease("u0", tapes="tape=1")), respond_json(200)) as scripted:
        _create_controller(scripted, {}, {"gpus": TEXT}).record_stored()
    meta = json.loads(scripted.requests[1].body)["metadata"]
    assert meta["annotations"] == {"limits.tallygate.dev/gpus": TEXT}
    assert [each["uid"] for each in meta["ownerReferences"]] == ["u1"]


def test_a_record_without_texts_is_deleted_at_its_version() -> None:
    with server(_respond_leases(_create_lease(gpus=TEXT)), respond_json(200)) as scripted:
        _create_controller(scripted, {"gpus": TEXT}, {}).record_stored()
    assert _list_requests(scripted)[1] == ("DELETE", f"{PATH}/{NAME}")
    assert json.loads(scripted.requests[1].body) == {"preconditions": {"resourceVersion": "7"}}


def test_a_write_that_another_replica_was_faster_with_is_tried_again() -> None:
    conflict = respond_json(409, message="changed")
    with server(_respond_leases(), conflict, _respond_leases(_create_lease()), respond_json(200)) as scripted:
        controller = _create_controller(scripted, {}, {"gpus": TEXT})
        assert controller.record_stored()
        assert controller.record_stored()
        assert not controller.record_stored()
    assert [method for method, _ in _list_requests(scripted)] == ["GET", "POST", "GET", "PUT"]


def test_readers_get_the_texts_by_the_uid_of_the_namespace() -> None:
    stray = {"metadata": {"name": "stray", "annotations": {"limits.tallygate.dev/gpus": "1"}}}
    with server(_respond_leases(_create_lease(gpus=TEXT), stray)) as scripted:
        assert read_limit_records(ApiClient(scripted.client_config), "gates") == {"u1": {"gpus": TEXT}}


def test_what_is_no_list_is_an_error_and_no_empty_list() -> None:
    with server(respond(200, b"[]")) as scripted, pytest.raises(StoreUnavailableError, match="is not a list of leases"):
        read_limit_records(ApiClient(scripted.client_config), "gates")
