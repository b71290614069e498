"""Events as objects of the cluster (core/v1).

Written by PUT, which makes one that is not there and counts one up that is: events are the kind for which that is
allowed without a resourceVersion (AllowCreateOnUpdate and AllowUnconditionalUpdate in
kubernetes/pkg/registry/core/event/strategy.go, v1.36). In events.k8s.io/v1 the sentence of a series could not change
with the arithmetic in it (ValidateEventUpdate in pkg/apis/core/validation/events.go).
"""

import time
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.errors import TallygateError
from webhook.server.events.series import Event
from webhook.state.exchange import Answer
from webhook.state.kubernetes.calls import Access, Caller, Request

REPORTER = "tallygate"

_JSON = "application/json"
_PATIENCE = 5.0
_MOST_TOLD = 500  # characters of a server's answer
_ENDS = b'"NamespaceTerminating"'  # a cause; k8s.io/api/core/v1, NamespaceTerminatingCause
_ENCODER = msgspec.json.Encoder()


class EventError(TallygateError):
    """An event was not written."""


class KubernetesEvents:
    """Events in a cluster; `instance` is the name of this replica, for people to read."""

    def __init__(self, access: Access, instance: str) -> None:
        self._caller = Caller(access)
        self._instance = instance

    def write(self, event: Event) -> bool:
        """Have it in the cluster as it is now; False when its namespace is no more, or about to be.

        Raises:
            EventError: it is not; the text says why.
        """
        path = f"/api/v1/namespaces/{quote(event.said.namespace, safe='')}/events/{quote(event.name, safe='')}"
        body = _ENCODER.encode(self._written(event))
        try:
            answer = self._caller.call(Request("PUT", path, _JSON, body), _PATIENCE)
        except TallygateError as error:
            raise EventError(str(error)) from error
        if answer.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return True
        if answer.status == HTTPStatus.NOT_FOUND or _ENDS in answer.body:
            return False
        raise _failure(answer)

    def _written(self, event: Event) -> dict[str, Any]:
        said = event.said
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": said.namespace},
            "involvedObject": {**msgspec.to_builtins(said.owner), "namespace": said.namespace},
            "type": "Warning",
            "reason": said.reason,
            "message": said.message,
            "count": event.count,
            "firstTimestamp": _shown(event.first),
            "lastTimestamp": _shown(event.last),
            "source": {"component": REPORTER},
            "reportingComponent": REPORTER,
            "reportingInstance": self._instance,
        }


def _failure(answer: Answer) -> EventError:
    said = f"the API server says {answer.status}: {answer.body[:_MOST_TOLD].decode(errors='replace')}"
    if answer.status == HTTPStatus.FORBIDDEN:
        return EventError(f"{said}; the gate must be allowed to create and update events")
    return EventError(said)


def _shown(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
