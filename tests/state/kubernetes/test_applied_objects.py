"""Objects that are written by server-side apply: the requests, and the meaning of responses. e2e uses a real server."""

import json
from typing import Any

import pytest

from tallygate.kube.api_errors import ApiError
from tallygate.state.kubernetes.applied_objects import USAGE_OBJECTS, KubernetesObjectStore, create_object_store
from tests.state.kubernetes.scripted_api_server import Responder, ScriptedApiServer, respond, respond_json, server

PATH = "/apis/tallygate.dev/v1alpha1/namespaces/team-a/capusages/gpus"
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "name": "tallygate-publish-usage",
    "uid": "u1",
}
CONTENT = {
    "apiVersion": "tallygate.dev/v1alpha1",
    "kind": "CapUsage",
    "metadata": {"name": "gpus", "namespace": "team-a"},
    "status": {"state": "active"},
}
META = {"name": "gpus", "namespace": "team-a", "uid": "u7", "resourceVersion": "12"}


def store(scripted: ScriptedApiServer) -> KubernetesObjectStore:
    """Return a store on the server."""
    return create_object_store(scripted.client_config, USAGE_OBJECTS)


def respond_failure(code: int, **details: Any) -> Responder:
    """Return a responder that sends a Status with these details."""
    return respond_json(code, kind="Status", message="no", code=code, details=details)


def test_an_object_is_applied_with_its_owner_and_returned_as_it_is_stored() -> None:
    answer = {"metadata": META | {"ownerReferences": [ROLE], "managedFields": [{}]}, "status": {"a": 1}}
    with server(respond(201, json.dumps(answer).encode())) as scripted:
        stored = store(scripted).apply(CONTENT, ROLE)
    (request,) = scripted.requests
    assert (request.method, request.path) == ("PATCH", f"{PATH}?fieldManager=tallygate-usage&force=true")
    assert request.headers["Content-Type"] == "application/apply-patch+yaml"
    assert json.loads(request.body)["metadata"]["ownerReferences"] == [ROLE]
    assert stored == {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "CapUsage",
        "metadata": META | {"labels": None, "ownerReferences": [ROLE]},
        "status": {"a": 1},
    }


@pytest.mark.parametrize(
    "answer",
    [respond_failure(404, kind="namespaces"), respond_failure(403, causes=[{"reason": "NamespaceTerminating"}])],
    ids=["missing", "terminating"],
)
def test_an_object_of_a_namespace_that_ends_is_not_stored(answer: Responder) -> None:
    with server(answer) as scripted:
        assert store(scripted).apply(CONTENT, None) is None


@pytest.mark.parametrize(
    "answer",
    [respond(404, b"404 page not found"), respond_failure(403), respond_failure(422), respond(200, b"{")],
    ids=["no such kind", "forbidden", "invalid", "unreadable"],
)
def test_any_other_answer_is_an_error(answer: Responder) -> None:
    with server(answer) as scripted, pytest.raises(ApiError):
        store(scripted).apply(CONTENT, None)


def test_the_objects_of_all_namespaces_are_listed_by_their_label() -> None:
    page = {"metadata": {"resourceVersion": "20"}, "items": [{"metadata": META, "status": {"a": 1}, "other": 1}]}
    with server(respond_json(200, **page)) as scripted:
        (listed,) = store(scripted).list_objects()
    (request,) = scripted.requests
    assert request.path.startswith("/apis/tallygate.dev/v1alpha1/capusages?")
    assert "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dtallygate" in request.path
    assert (listed["kind"], listed["metadata"]["uid"], listed["status"]) == ("CapUsage", "u7", {"a": 1})
    assert "spec" not in listed


def test_an_object_is_deleted_only_as_it_was_listed() -> None:
    with server(respond_json(200), respond_failure(409), respond_failure(404), respond_failure(403)) as scripted:
        objects = store(scripted)
        for _ in range(3):
            objects.delete({"kind": "CapUsage", "metadata": META})
        with pytest.raises(ApiError):
            objects.delete({"kind": "CapUsage", "metadata": META})
    deleted = scripted.requests[0]
    assert (deleted.method, deleted.path) == ("DELETE", PATH)
    assert json.loads(deleted.body) == {"preconditions": {"uid": "u7", "resourceVersion": "12"}}


def test_the_owner_is_the_role_and_unknown_without_the_right_to_read_it() -> None:
    with server(respond_json(200, metadata={"uid": "u1"}), respond_failure(403), respond_failure(500)) as scripted:
        objects = store(scripted)
        assert objects.read_owner() == ROLE
        assert objects.read_owner() is None
        with pytest.raises(ApiError):
            objects.read_owner()
    assert scripted.requests[0].path == "/apis/rbac.authorization.k8s.io/v1/clusterroles/tallygate-publish-usage"
