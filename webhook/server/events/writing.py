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

_CONTENT_TYPE = "application/json"
_TIMEOUT_SECONDS = 5.0
_MAX_ERROR_LENGTH = 500  # characters of a server's answer
_TERMINATING_CAUSE = b'"NamespaceTerminating"'  # a cause; k8s.io/api/core/v1, NamespaceTerminatingCause
_ENCODER = msgspec.json.Encoder()


class EventError(TallygateError):
    """An event was not written."""


class KubernetesEventWriter:
    """Events in a cluster; `instance` is the name of this replica, for people to read."""

    def __init__(self, client_config: Access, replica: str) -> None:
        self._caller = Caller(client_config)
        self._replica = replica

    def write(self, event: Event) -> bool:
        """Have it in the cluster as it is now; False when its namespace is no more, or about to be.

        Raises:
            EventError: it is not; the text says why.
        """
        path = f"/api/v1/namespaces/{quote(event.message.namespace, safe='')}/events/{quote(event.name, safe='')}"
        body = _ENCODER.encode(self._create_object(event))
        try:
            response = self._caller.call(Request("PUT", path, _CONTENT_TYPE, body), _TIMEOUT_SECONDS)
        except TallygateError as error:
            raise EventError(str(error)) from error
        if response.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return True
        if response.status == HTTPStatus.NOT_FOUND or _TERMINATING_CAUSE in response.body:
            return False
        raise _create_error(response)

    def _create_object(self, event: Event) -> dict[str, Any]:
        message = event.message
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": message.namespace},
            "involvedObject": {**msgspec.to_builtins(message.owner), "namespace": message.namespace},
            "type": "Warning",
            "reason": message.reason,
            "message": message.text,
            "count": event.count,
            "firstTimestamp": _format_time(event.first_at),
            "lastTimestamp": _format_time(event.last_at),
            "source": {"component": REPORTER},
            "reportingComponent": REPORTER,
            "reportingInstance": self._replica,
        }


def _create_error(response: Answer) -> EventError:
    text = f"the API server says {response.status}: {response.body[:_MAX_ERROR_LENGTH].decode(errors='replace')}"
    if response.status == HTTPStatus.FORBIDDEN:
        return EventError(f"{text}; the gate must be allowed to create and update events")
    return EventError(text)


def _format_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
