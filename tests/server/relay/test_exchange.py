"""Answers as bytes, whole and in pieces, right and wrong."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server.relay.exchange import ExchangeResult, HttpResponse, exchange

SOON = 10.0
REQUEST = b"GET / HTTP/1.1\r\n\r\n"


@contextmanager
def answered(*pieces: bytes, closes: bool = True) -> Iterator[socket.socket]:
    """A connection on which this comes, piece by piece."""
    ours, theirs = socket.socketpair()

    def say() -> None:
        with suppress(OSError):  # who has read enough goes
            theirs.recv(1000)
            for piece in pieces:
                theirs.sendall(piece)
            if closes:
                theirs.shutdown(socket.SHUT_WR)

    thread = Thread(target=say)
    thread.start()
    try:
        with ours, theirs:
            yield ours
            thread.join(SOON)
    finally:
        thread.join(SOON)


def read(*pieces: bytes, closes: bool = True, within: float = SOON) -> ExchangeResult:
    """What is made of these bytes."""
    with answered(*pieces, closes=closes) as connection:
        return exchange(connection, REQUEST, time.monotonic() + within)


@pytest.mark.parametrize(
    ("said", "answer", "stays_open"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", HttpResponse(200, b"hi"), True),
        (b"HTTP/1.1 200\r\ncontent-length:  2 \r\n\r\nhi", HttpResponse(200, b"hi"), True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", HttpResponse(200, b"hi"), False),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n",
            HttpResponse(409, b""),
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
def test_an_answer_is_read_in_whatever_pieces_it_comes(*, said: bytes, answer: HttpResponse, stays_open: bool) -> None:
    assert read(said) == (answer, stays_open)
    if stays_open:
        assert read(*(bytes([each]) for each in said)) == (answer, stays_open)


@pytest.mark.parametrize(
    "said",
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
def test_what_is_no_answer_is_a_value_error(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(said)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"])
def test_an_answer_that_breaks_off_is_a_broken_connection(said: bytes) -> None:
    with pytest.raises(OSError, match="closed in the middle"):
        read(said)


def test_an_answer_that_does_not_come_in_time_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        read(b"HTTP/1.1 200 OK\r\n", closes=False, within=0.05)
    with pytest.raises(TimeoutError):
        read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", within=-1.0)


@given(st.binary(max_size=200))
def test_whatever_bytes_come_it_ends_in_one_of_these(said: bytes) -> None:
    with suppress(OSError, ValueError):
        assert read(b"HTTP/1.1 200 OK\r\n" + said).response.status
