"""Answers of an API server to reviews, what a call raised, and threads that ask at once."""

import json
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

import pytest

from tallygate.server.asking.ask_error import AskError
from tests.state.kubernetes.scripted_api_server import (
    Handler,
    Responder,
    hang_up,
    respond,
    respond_json,
    send_half,
)

T = TypeVar("T")


def respond_review(status: object, code: int = 201) -> Responder:
    """Return a responder that sends a review with this status."""
    return respond(code, json.dumps({"status": status}).encode())


BROKEN: dict[str, Responder] = {
    "no JSON": respond(201, b"<html>"),
    "JSON in a JSON string": respond(201, b'"{}"'),
    "nothing": respond(201, b""),
    "half": send_half,
    "a closed connection": hang_up,
    "no status": respond_json(201),
    "a status of another type": respond(201, b'{"kind":"Status","status":"Failure"}'),
    "a deep answer": respond(201, b"[" * 100_000),
    "a long answer": respond(201, b'{"status":{},"x":"' + b"x" * 300_000 + b'"}'),
    "401": respond_json(401, message="your own credentials"),
    "404": respond_json(404, message="no such group"),
    "500": respond_json(500, message="etcd"),
    "a redirect": respond(302, b""),
}
"""Answers that say nothing about who asks, nor what he may."""


def catch_ask_error(call: Callable[[], object]) -> AskError:
    """Return the error that a call raises."""
    with pytest.raises(AskError) as caught:
        call()
    return caught.value


def list_texts(error: AskError) -> str:
    """Return all that a log could write of an error: its texts, and the traceback with its causes."""
    return "\n".join((error.message, error.detail, repr(error), *traceback.format_exception(error)))


def respond_after(arrived: Event, go: Event, responder: Responder) -> Responder:
    """Return a responder that tells when the request arrived, and sends its response when it may."""

    def send(handler: Handler) -> None:
        arrived.set()
        assert go.wait(30)
        responder(handler)

    return send


def run_at_once(count: int, call: Callable[[], T], meanwhile: Callable[[], None]) -> list[T]:
    """Return the results of a call in `count` threads; `meanwhile` runs beside them."""
    with ThreadPoolExecutor(count) as threads:
        futures = [threads.submit(call) for _ in range(count)]
        meanwhile()
        return [future.result(30) for future in futures]
