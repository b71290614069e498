"""Requests with a timeout of their own, as bytes on a real connection."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import OBJECT_LIMITS, ApiClient
from tallygate.kube.config import load_kubeconfig
from tallygate.kube.transport import Response
from tallygate_certs.authority import create_ca
from tallygate_certs.cert_files import write_ca_certificates
from tests.certs.api_server import CertificateApiServer, run_api_server
from tests.kube.kubeconfig import load_config
from tests.kube.raw_server import END, HEAD, Part, chunk, full_response, raw_server

SOON = 10.0
PATH = "/api/v1/things/a"


def failure(folder: Path, parts: Sequence[Part], timeout: float = SOON, max_bytes: int = 100) -> ApiError:
    """Return the error of a write that gets these bytes."""
    with raw_server(parts) as server:
        client = ApiClient(load_config(server, folder), OBJECT_LIMITS._replace(max_bytes=max_bytes))
        with pytest.raises(ApiError) as caught:
            client.replace(PATH, b"{}", timeout=timeout)
    return caught.value


def test_a_request_is_sent_in_one_piece_and_its_response_has_the_headers_that_count(tmp_path: Path) -> None:
    late = "Retry-After: 7\r\nDate: Sun, 22 Nov 2026 12:00:00 GMT\r\n"
    with raw_server([full_response(b"{}", "429 Too Many Requests", late)]) as server:
        response = ApiClient(load_config(server, tmp_path)).replace(PATH, b"[1]", {"a": "b c"}, timeout=SOON)
    assert response == Response(429, b"{}", 7.0, "Sun, 22 Nov 2026 12:00:00 GMT")
    assert response.server_time == 1795348800.0
    (request,) = server.requests
    assert request.startswith(b"PUT /api/v1/things/a?a=b+c HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nAuthorization: Bearer t0ken\r\n" in request
    assert request.endswith(b"\r\nContent-Length: 3\r\n\r\n[1]")


def test_a_chunked_response_is_read(tmp_path: Path) -> None:
    with raw_server([HEAD, chunk(b"[1,"), chunk(b"2]"), END]) as server:
        assert ApiClient(load_config(server, tmp_path)).get(PATH, timeout=SOON) == Response(200, b"[1,2]")


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"HTTP/1.1 OK\r\n\r\n"],
        [b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\n" + b"a" * 70_000],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi"],
        [HEAD, chunk(b"hello")[:5]],
        [HEAD, b"zz\r\n"],
    ],
)
def test_a_write_with_a_broken_response_may_be_applied(tmp_path: Path, parts: Sequence[Part]) -> None:
    error = failure(tmp_path, parts)
    assert (error.reason, error.may_be_applied) == (ApiErrorReason.RESET, True)


@pytest.mark.parametrize("parts", [[full_response(b"x" * 101)], [HEAD, *[chunk(b"x" * 20)] * 6, END]])
def test_a_response_beyond_the_limit_is_not_read(tmp_path: Path, parts: Sequence[Part]) -> None:
    error = failure(tmp_path, parts)
    assert (error.reason, str(error)) == (ApiErrorReason.TOO_LARGE, "an answer of more than 100 bytes")


def test_a_response_that_drips_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    def drip(connection: object) -> None:
        del connection
        Event().wait(0.02)

    drops: list[Part] = [chunk(b"x"), drip]
    parts = [HEAD, *drops * 50, END]
    started_at = time.monotonic()
    error = failure(tmp_path, parts, timeout=0.1)
    assert error.reason is ApiErrorReason.TIMEOUT
    assert time.monotonic() - started_at < 0.9


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with raw_server([full_response(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:1/\r\n")]) as server:
        assert ApiClient(load_config(server, tmp_path)).get(PATH, timeout=SOON).status == 307


@pytest.mark.parametrize("path", ["/a b", "/a\r\nHost: b", "/ä"])
def test_a_path_that_is_no_path_is_not_sent(tmp_path: Path, path: str) -> None:
    with raw_server() as server, pytest.raises(ApiError, match="cannot be sent") as caught:
        ApiClient(load_config(server, tmp_path)).get(path, timeout=SOON)
    assert not caught.value.may_be_applied
    assert server.requests == []


def test_a_server_that_cannot_be_reached_has_applied_nothing(tmp_path: Path) -> None:
    with raw_server() as server:
        config = load_config(server, tmp_path)
    for timeout in (None, SOON):
        with pytest.raises(ApiError, match="cannot be reached") as caught:
            ApiClient(config).replace(PATH, b"{}", timeout=timeout)
        assert (caught.value.reason, caught.value.may_be_applied) == (ApiErrorReason.UNREACHABLE, False)


def test_a_closed_client_sends_nothing(tmp_path: Path) -> None:
    with raw_server() as server:
        client = ApiClient(load_config(server, tmp_path))
        client.close()
        with pytest.raises(ApiError, match="closed"):
            client.get(PATH, timeout=SOON)
    assert server.requests == []


def test_a_server_of_another_ca_gets_no_request(tmp_path: Path) -> None:
    api = CertificateApiServer({PATH: {"kind": "Thing"}})
    with run_api_server(api, tmp_path) as path:
        assert ApiClient(load_kubeconfig(path)).get(PATH, timeout=SOON).status == 200
        write_ca_certificates(tmp_path, [create_ca(datetime.now(UTC)).certificate])
        for timeout in (None, SOON):
            with pytest.raises(ApiError, match="certificate verify failed") as caught:
                ApiClient(load_kubeconfig(path)).get(PATH, timeout=timeout)
            assert (caught.value.reason, caught.value.may_be_applied) == (ApiErrorReason.UNREACHABLE, False)
    assert len(api.requests) == 1
