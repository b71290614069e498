"""To whom credentials go, and what a gate can send: other certificates, redirects, broken and huge answers."""

import json
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.ask.gates import (
    POD,
    create_answer,
    create_object,
    issue_certificates,
    limit,
    name_gate,
    run_ask,
    send_json,
    send_status,
    write_user,
)
from tests.kube.raw_server import HEAD, Part, RawServer, chunk, full_response, raw_server, reset
from tests.server.client_certificates import issue_client_certificate

GOOD = send_json(create_answer(create_object()))


def ask_once(folder: Path, parts: Sequence[Part], **user: Any) -> tuple[int, str, list[bytes]]:
    """Ask a gate that sends these parts; return the exit code, stderr and the requests of the gate."""
    with raw_server(parts, context=issue_certificates(folder / "tls")) as server:
        result = run_ask(write_user(folder, **user), *name_gate(server, folder / "tls"))
    return result.exit_code, result.stderr, server.requests


def test_the_request_has_the_token_and_the_objects(tmp_path: Path) -> None:
    code, stderr, (request,) = ask_once(tmp_path, GOOD)
    assert code == 0, stderr
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/ask?namespace=team-a HTTP/1.1"
    assert "Authorization: Bearer t0ken" in lines
    assert json.loads(body)["metadata"] == {"name": "third", "namespace": "team-a"}


def test_a_token_of_a_program_is_sent(tmp_path: Path) -> None:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    status = {"status": {"token": "from-program"}}
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(credential | status))})"],
        "interactiveMode": "Never",
    }
    code, stderr, (request,) = ask_once(tmp_path, GOOD, exec=program)
    assert code == 0, stderr
    assert b"\r\nAuthorization: Bearer from-program\r\n" in request


def test_a_token_of_a_file_is_sent(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    _, _, (request,) = ask_once(tmp_path, GOOD, tokenFile=str(tmp_path / "token"))
    assert b"\r\nAuthorization: Bearer from-file\r\n" in request


def test_a_client_certificate_alone_is_presented(tmp_path: Path) -> None:
    context = issue_certificates(tmp_path / "tls")
    certificate = issue_client_certificate(tmp_path / "tls", "ann")
    context.load_verify_locations(tmp_path / "tls" / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    found: list[Any] = []
    parts: Sequence[Part] = [lambda connection: found.append(connection.getpeercert()), *GOOD]  # type: ignore[attr-defined]  # an SSLSocket
    user = {"client-certificate": str(certificate), "client-key": str(certificate)}
    with raw_server(parts, context=context) as server:
        result = run_ask(write_user(tmp_path, **user), *name_gate(server, tmp_path / "tls"))
    assert result.exit_code == 0, result.stderr
    assert (("commonName", "ann"),) in found[0]["subject"]
    assert b"Authorization" not in server.requests[0]


@pytest.mark.parametrize("user", [{"username": "ann"}, {"token": "t0ken", "as": "bob"}])
def test_a_user_without_credentials_and_an_impersonated_one_are_refused(user: dict[str, str], tmp_path: Path) -> None:
    code, stderr, requests = ask_once(tmp_path, GOOD, **user)
    assert (code, requests) == (2, [])
    assert ("neither a token nor a client certificate" in stderr) or ("has no --as" in stderr)


def test_an_impersonated_user_is_refused_before_the_address_is_read(tmp_path: Path) -> None:
    """Read no ConfigMap: it may be forbidden to the other user."""
    user = {"token": "t0ken", "as": "bob"}
    result = run_ask(write_user(tmp_path, **user))
    assert result.exit_code == 2
    assert "has no --as" in result.stderr


def ask_with(server: RawServer, folder: Path, *arguments: str) -> tuple[int, str]:
    result = run_ask(write_user(folder), *arguments)
    assert server.requests == []
    return result.exit_code, result.stderr


def test_nothing_is_sent_to_a_gate_with_another_authority(tmp_path: Path) -> None:
    issue_certificates(tmp_path / "other")
    with raw_server(GOOD, context=issue_certificates(tmp_path / "tls")) as server:
        code, stderr = ask_with(server, tmp_path, *name_gate(server, tmp_path / "other"))
    assert code == 2
    assert "is not valid" in stderr
    assert "nothing was sent" in stderr


def test_nothing_is_sent_to_a_gate_that_no_authority_of_the_system_signed(tmp_path: Path) -> None:
    with raw_server(GOOD, context=issue_certificates(tmp_path / "tls")) as server:
        code, stderr = ask_with(server, tmp_path, "--url", f"https://localhost:{server.port}")
    assert code == 2
    assert "name another by --ca" in stderr


def test_nothing_is_sent_to_a_gate_of_another_name(tmp_path: Path) -> None:
    with raw_server(GOOD, context=issue_certificates(tmp_path / "tls", "ask.example.com")) as server:
        code, stderr = ask_with(server, tmp_path, *name_gate(server, tmp_path / "tls"))
    assert code == 2
    assert "Hostname mismatch" in stderr


def test_nothing_is_sent_to_a_server_without_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue_certificates(tmp_path / "tls")
    limit(monkeypatch, TOTAL_SECONDS=0.5)
    with raw_server([full_response(b"{}")]) as server:
        result = run_ask(write_user(tmp_path), *name_gate(server, tmp_path / "tls"))
    assert result.exit_code == 2
    assert all(b"t0ken" not in request for request in server.requests)


@pytest.mark.parametrize(
    "url",
    [
        "http://ask.example.com",
        "ask.example.com",
        "https://",
        "https://ann:secret@ask.example.com",
        "https://ask.example.com/?a=b",
        "https://ask.example.com:99999",
        "https://ask example.com",
        "https://ask.example.com/\r\nX: y",
        "file:///etc/passwd",
    ],
)
def test_a_url_to_which_no_credentials_may_go_is_refused(url: str, tmp_path: Path) -> None:
    result = run_ask(write_user(tmp_path), "--url", url)
    assert result.exit_code == 2
    assert "--url" in result.stderr


def test_an_authority_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none")
    result = run_ask(write_user(tmp_path), "--url", "https://localhost:1", "--ca", str(tmp_path / "ca.crt"))
    assert result.exit_code == 2
    assert "no certificates in PEM" in result.stderr


def test_an_authority_without_an_address_is_refused(tmp_path: Path) -> None:
    result = run_ask(write_user(tmp_path), "--ca", "ca.crt")
    assert (result.exit_code, "belongs to --url" in result.stderr) == (2, True)


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_redirects_are_not_followed(code: int, tmp_path: Path) -> None:
    with raw_server(GOOD, GOOD, context=issue_certificates(tmp_path / "elsewhere")) as elsewhere:
        location = f"Location: https://localhost:{elsewhere.port}/v1/ask\r\n"
        exit_code, stderr, requests = ask_once(tmp_path, [full_response(b"", f"{code} Moved", location)])
    assert (exit_code, len(requests), elsewhere.requests) == (2, 1, [])
    assert "redirects to another address, which is not followed" in stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (401, "no token: the header `Authorization` is missing"),
        (403, "who may create an object may ask about it; ann may not create pods in namespace team-a"),
        (413, "the objects have 20000 pods, and one ask is about at most 10000"),
        (429, "too many asks of this user: at most 5 a second, and 10 at once. Ask again in 1 s"),
        (503, "the pods of the cluster are not known yet. Ask again in 1 s"),
    ],
)
def test_refusals_of_the_gate_are_shown_in_its_words(code: int, message: str, tmp_path: Path) -> None:
    exit_code, stderr, _ = ask_once(tmp_path, send_status(code, message, "Retry-After: 1\r\n"))
    assert exit_code == 2
    assert f"says {code}: {message}\n" in stderr


def test_a_refusal_cannot_change_a_terminal(tmp_path: Path) -> None:
    _, stderr, _ = ask_once(tmp_path, send_status(403, "\x1b[2J\x07" + "a" * 100_000))
    assert "\x1b" not in stderr
    assert len(stderr) < 3000


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [reset],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"],
        [HEAD, chunk(b"{")],
        [b"\x00" * 70_000],
        [full_response(b"not json")],
        [full_response(b"[" * 200_000)],
        [full_response(b"{}")],
        send_json(create_answer(apiVersion="tallygate.dev/v9")),
        send_json(create_answer(create_object(findings=[{"line": "x"}]))),
        [full_response(b"<html>", "404 Not Found")],
    ],
)
def test_broken_answers_are_errors(parts: Sequence[Part], tmp_path: Path) -> None:
    exit_code, stderr, _ = ask_once(tmp_path, parts)
    assert exit_code == 2
    assert stderr.startswith("tallygate: https://localhost:")
    assert len(stderr.splitlines()) == 1


def test_a_huge_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, MAX_ANSWER_BYTES=1024 * 1024)
    exit_code, stderr, _ = ask_once(tmp_path, [HEAD, *[chunk(b" " * 65536)] * 20])
    assert (exit_code, "an answer of more than 1 MiB" in stderr) == (2, True)


def test_a_gate_that_sends_nothing_is_an_error_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, TOTAL_SECONDS=0.5)
    with raw_server([], context=issue_certificates(tmp_path / "tls")) as server:
        server.responses[0] = [HEAD, server.stall]
        result = run_ask(write_user(tmp_path), *name_gate(server, tmp_path / "tls"))
    assert (result.exit_code, "does not answer in time" in result.stderr) == (2, True)


def test_a_gate_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    issue_certificates(tmp_path / "tls")
    with raw_server() as server:
        options = name_gate(server, tmp_path / "tls")
    result = run_ask(write_user(tmp_path), *options)
    assert (result.exit_code, "cannot be asked" in result.stderr) == (2, True)


def test_more_objects_than_an_ask_may_have_are_not_sent(tmp_path: Path) -> None:
    text = POD + "".join(f"---\n{POD}  # {'x' * 10}\n" for _ in range(12_000))
    with raw_server(GOOD, context=issue_certificates(tmp_path / "tls")) as server:
        result = run_ask(write_user(tmp_path), *name_gate(server, tmp_path / "tls"), stdin=text)
    assert (result.exit_code, server.requests) == (2, [])
    assert "one ask is about at most" in result.stderr


def test_an_answer_goes_through_a_proxy_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue_certificates(tmp_path / "tls")
    with raw_server([full_response(b"", "502 Bad Gateway")]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://ann:s%40crt@127.0.0.1:{proxy.port}")
        result = run_ask(
            write_user(tmp_path), "--url", "https://ask.example.com:8443", "--ca", str(tmp_path / "tls/ca.crt")
        )
    (request,) = proxy.requests
    assert request.startswith(b"CONNECT ask.example.com:8443 HTTP/1.")
    assert b"Proxy-Authorization: Basic YW5uOnNAY3J0\r\n" in request
    assert b"t0ken" not in request
    assert (result.exit_code, "cannot be asked" in result.stderr) == (2, True)
