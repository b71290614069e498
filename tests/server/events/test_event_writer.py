"""Events as the API server stores them, and the meaning of each of its answers; e2e tests the real one."""

import json

import pytest

from tallygate.server.events.event_message import EventMessage, Owner
from tallygate.server.events.event_recorder import Event, EventError, KubernetesEventWriter
from tests.state.kubernetes.scripted_api_server import hang_up, respond_json, server

_MESSAGE = EventMessage("team-a", Owner("apps/v1", "ReplicaSet", "web-1", "u-web"), "Rejected", "TG201", "no room")
_EVENT = Event("web-1.abc", _MESSAGE, 3, 1000.0, 1060.5)


def test_an_event_is_written_as_core_v1_defines_it() -> None:
    with server(respond_json(201)) as scripted:
        assert KubernetesEventWriter(scripted.client_config, "gate-0").write(_EVENT)
    (request,) = scripted.requests
    assert (request.method, request.path) == ("PUT", "/api/v1/namespaces/team-a/events/web-1.abc")
    sent = json.loads(request.body)
    assert sent["involvedObject"] == {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-1",
        "uid": "u-web",
        "namespace": "team-a",
    }
    assert (sent["count"], sent["firstTimestamp"], sent["lastTimestamp"]) == (
        3,
        "1970-01-01T00:16:40Z",
        "1970-01-01T00:17:40Z",
    )
    assert (sent["type"], sent["reason"], sent["message"]) == ("Warning", "Rejected", "no room")
    assert (sent["source"], sent["reportingInstance"]) == ({"component": "tallygate"}, "gate-0")


def test_a_deleted_or_terminating_namespace_is_no_failure() -> None:
    cause = {"reason": "NamespaceTerminating", "message": "it is being terminated"}
    with server(respond_json(404), respond_json(403, details={"causes": [cause]})) as scripted:
        events = KubernetesEventWriter(scripted.client_config, "gate-0")
        assert not events.write(_EVENT)
        assert not events.write(_EVENT)


def test_a_missing_permission_is_named() -> None:
    with (
        server(respond_json(403, message="events is forbidden")) as scripted,
        pytest.raises(EventError, match=r"says 403: .*is forbidden.*; the gate must be allowed to create and update"),
    ):
        KubernetesEventWriter(scripted.client_config, "gate-0").write(_EVENT)


def test_a_broken_connection_is_an_error() -> None:
    with server(hang_up) as scripted, pytest.raises(EventError, match="the connection to the API server broke"):
        KubernetesEventWriter(scripted.client_config, "gate-0").write(_EVENT)
