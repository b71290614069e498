"""Events as the API server stores them, and what each of its answers means. The real one is asked in e2e."""

import json

import pytest

from tests.state.kubernetes.server import hang_up, says, server
from webhook.server.events.event_correlator import Event
from webhook.server.events.event_message import EventMessage, Owner
from webhook.server.events.event_recorder import EventError, KubernetesEventWriter

_SAID = EventMessage("team-a", Owner("apps/v1", "ReplicaSet", "web-1", "u-web"), "Refused", "TG201", "no room")
_EVENT = Event("web-1.abc", _SAID, 3, 1000.0, 1060.5)


def test_an_event_is_put_as_core_v1_has_it() -> None:
    with server(says(201)) as scripted:
        assert KubernetesEventWriter(scripted.client_config, "gate-0").write(_EVENT)
    (asked,) = scripted.asked
    assert (asked.method, asked.path) == ("PUT", "/api/v1/namespaces/team-a/events/web-1.abc")
    sent = json.loads(asked.body)
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
    assert (sent["type"], sent["reason"], sent["message"]) == ("Warning", "Refused", "no room")
    assert (sent["source"], sent["reportingInstance"]) == ({"component": "tallygate"}, "gate-0")


def test_a_namespace_that_is_gone_or_going_is_no_failure() -> None:
    cause = {"reason": "NamespaceTerminating", "message": "it is being terminated"}
    with server(says(404), says(403, details={"causes": [cause]})) as scripted:
        events = KubernetesEventWriter(scripted.client_config, "gate-0")
        assert not events.write(_EVENT)
        assert not events.write(_EVENT)


def test_a_gate_without_the_right_says_which_it_needs() -> None:
    with (
        server(says(403, message="events is forbidden")) as scripted,
        pytest.raises(EventError, match=r"says 403: .*is forbidden.*; the gate must be allowed to create and update"),
    ):
        KubernetesEventWriter(scripted.client_config, "gate-0").write(_EVENT)


def test_an_answer_that_never_comes_is_a_failure_that_is_told() -> None:
    with server(hang_up) as scripted, pytest.raises(EventError, match="the connection to the API server broke"):
        KubernetesEventWriter(scripted.client_config, "gate-0").write(_EVENT)
