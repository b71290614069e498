"""Responses as bytes: complete and in pieces, valid and invalid."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.webhook.server.relay.exchange import ExchangeResult, HttpResponse, exchange

SOON = 10.0
REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@contextmanager
def connect_to_sender(*pieces: bytes, closes: bool = True) -> Iterator[socket.socket]:
    """Yield a connection on which these pieces arrive, one after the other."""
    ours, theirs = socket.socketpair()

    def send() -> None:
        with suppress(OSError):  # the reader closes when it has read enough
            theirs.recv(1000)
            for piece in pieces:
                theirs.sendall(piece)
            if closes:
                theirs.shutdown(socket.SHUT_WR)

    thread = Thread(target=send)
    thread.start()
    try:
        with ours, theirs:
            yield ours
            thread.join(SOON)
    finally:
        thread.join(SOON)


def run_exchange(*pieces: bytes, closes: bool = True, timeout: float = SOON) -> ExchangeResult:
    """Return the result of an exchange whose response has these bytes."""
    with connect_to_sender(*pieces, closes=closes) as connection:
        return exchange(connection, REQUEST, time.monotonic() + timeout)


@pytest.mark.parametrize(
    ("received", "answer", "stays_open"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", HttpResponse(200, b"hi"), True),
        (b"HTTP/1.1 200\r\ncontent-length:  2 \r\n\r\nhi", HttpResponse(200, b"hi"), True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", HttpResponse(200, b"hi"), False),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n",
            HttpResponse(409, b""),
            True,
        ),
        (
            b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n",
            HttpResponse(503, b"", "1"),
            True,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", HttpResponse(204, b""), True),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n5\r\n, you\r\n0\r\nT: x\r\n\r\n",
            HttpResponse(200, b"hello, you"),
            True,
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", HttpResponse(200, b"until the end"), False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more", HttpResponse(200, b"hi"), False),
    ],
)
def test_a_response_is_read_in_any_pieces(*, received: bytes, answer: HttpResponse, stays_open: bool) -> None:
    assert run_exchange(received) == (answer, stays_open)
    if stays_open:
        assert run_exchange(*(bytes([each]) for each in received)) == (answer, stays_open)


@pytest.mark.parametrize(
    "received",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nContent-Length: 8388609\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70_000,
    ],
)
def test_an_invalid_response_is_a_value_error(received: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        run_exchange(received)


@pytest.mark.parametrize("received", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"])
def test_an_incomplete_response_is_a_broken_connection(received: bytes) -> None:
    with pytest.raises(OSError, match="closed in the middle"):
        run_exchange(received)


def test_a_late_response_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        run_exchange(b"HTTP/1.1 200 OK\r\n", closes=False, timeout=0.05)
    with pytest.raises(TimeoutError):
        run_exchange(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", timeout=-1.0)


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_response_or_one_of_these_errors(received: bytes) -> None:
    with suppress(OSError, ValueError):
        assert run_exchange(b"HTTP/1.1 200 OK\r\n" + received).response.status
