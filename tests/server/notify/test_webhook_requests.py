"""Requests to a receiver on loopback: what it gets, what fails, and that no error shows an address or a header."""

import select
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tallygate.server.notify import webhook_request
from tallygate.server.notify.notify_config import Receiver
from tallygate.server.notify.webhook_request import NotifyError, WebhookRequests, read_address
from tests.cli.ask.gates import issue_certificates
from tests.kube.raw_server import Part, full_response, raw_server, reset
from tests.server.notify.local_receiver import run_receiver

SECRET = "T0SECRET"  # noqa: S105  # of an address that does not exist
BODY = b'{"text":"x"}'


def _create_receiver(folder: Path, url: str, **fields: Any) -> Receiver:
    """Return a receiver whose address is in a file."""
    path = folder / "url"
    path.write_text(f"{url}\n")
    return Receiver(name="ops", url_file=str(path), **fields)


def _find_failure(folder: Path, url: str, total: float = 5.0, **fields: Any) -> NotifyError:
    """Return the error of a message, which has nothing of the secret."""
    with pytest.raises(NotifyError) as caught:
        WebhookRequests(_create_receiver(folder, url, **fields), total).send(BODY)
    assert SECRET not in str(caught.value)
    assert "localhost" not in str(caught.value)
    return caught.value


def _respond(folder: Path, *parts: Part, total: float = 5.0) -> NotifyError:
    with raw_server(parts) as server:
        return _find_failure(folder, f"http://localhost:{server.port}/{SECRET}", total)


def test_a_message_is_one_post_with_the_headers_of_a_file(tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer t0ken\r\n\nX-Team: a:b\n")
    with run_receiver() as receiver:
        requests = WebhookRequests(_create_receiver(tmp_path, receiver.url, headers_file=str(headers)))
        requests.send(BODY)
        requests.send(BODY)
    assert len(receiver.messages) == 2
    message = receiver.messages[0]
    assert (message.path, message.body) == ("/services/T0/x?y=1", {"text": "x"})
    assert message.headers["Content-Type"] == "application/json"
    assert (message.headers["Authorization"], message.headers["X-Team"]) == ("Bearer t0ken", "a:b")
    assert message.headers["Host"].startswith("localhost:")


def test_an_address_that_changes_in_its_file_counts_at_once(tmp_path: Path) -> None:
    with run_receiver() as first, run_receiver() as second:
        receiver = _create_receiver(tmp_path, first.url)
        requests = WebhookRequests(receiver)
        requests.send(BODY)
        Path(receiver.url_file).write_text(second.url)
        requests.send(BODY)
    assert (len(first.messages), len(second.messages)) == (1, 1)


def test_a_receiver_is_verified_by_a_ca_of_its_own(tmp_path: Path) -> None:
    context = issue_certificates(tmp_path / "tls")
    with run_receiver(context) as receiver:
        WebhookRequests(_create_receiver(tmp_path, receiver.url, ca_file=str(tmp_path / "tls" / "ca.crt"))).send(BODY)
        assert len(receiver.messages) == 1
        error = _find_failure(tmp_path, receiver.url)
    assert str(error) == "its certificate is not trusted: unable to get local issuer certificate"
    assert not error.is_final


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    context = issue_certificates(tmp_path / "tls", "other.example.com")
    with run_receiver(context) as receiver:
        error = _find_failure(tmp_path, receiver.url, ca_file=str(tmp_path / "tls" / "ca.crt"))
        by_address = receiver.url.replace("localhost", "127.0.0.1")
        again = _find_failure(tmp_path, by_address, ca_file=str(tmp_path / "tls" / "ca.crt"))
    assert {str(error), str(again)} == {"its certificate is for another host"}


def test_a_server_without_tls_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(full_response(b""))

        Thread(target=answer, daemon=True).start()
        error = _find_failure(tmp_path, f"https://localhost:{listener.getsockname()[1]}/{SECRET}")
    assert str(error).startswith("TLS fails: ")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(tmp_path: Path, status: int) -> None:
    with run_receiver() as target, run_receiver() as receiver:
        receiver.status, receiver.headers = status, {"Location": target.url}
        error = _find_failure(tmp_path, receiver.url)
        assert (target.messages, target.refused) == ([], [])
    assert str(error) == f"it redirects ({status}), which is not followed; write the final address"


@pytest.mark.parametrize(
    ("status", "is_final"),
    [(400, True), (401, False), (404, False), (413, True), (422, True), (429, False), (500, False)],
)
def test_a_refusal_has_its_status(tmp_path: Path, *, status: int, is_final: bool) -> None:
    with run_receiver() as receiver:
        receiver.status = status
        error = _find_failure(tmp_path, receiver.url)
    assert (str(error), error.is_final, error.retry_after) == (f"it answers {status}", is_final, 0.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30.0), ("0", 0.0), ("99999999999999", 3600.0), ("-3", 0.0), ("soon", 0.0), ("1.5", 0.0), ("", 0.0)]
    + [(f"Mon, 01 Jan {year} 00:00:00 {zone}", 0.0) for year, zone in (("9" * 20, "GMT"), ("2026", f"+{'9' * 20}"))],
)
def test_the_wait_that_a_receiver_asks_for_is_bounded(tmp_path: Path, text: str, seconds: float) -> None:
    assert _respond(tmp_path, full_response(b"", "429 Slow", f"Retry-After: {text}\r\n")).retry_after == seconds


def test_the_wait_may_be_a_date(tmp_path: Path) -> None:
    for delta, least, most in (
        (timedelta(minutes=5), 290, 300),
        (timedelta(hours=-1), 0, 0),
        (timedelta(1), 3600, 3600),
    ):
        date = format_datetime(datetime.now(UTC) + delta, usegmt=True)
        error = _respond(tmp_path, full_response(b"", "503 Busy", f"Retry-After: {date}\r\n"))
        assert least <= error.retry_after <= most


def test_a_huge_answer_is_not_read(tmp_path: Path) -> None:
    def send_forever(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x" * 65536)

    started_at = time.monotonic()
    with raw_server([b"HTTP/1.1 200 OK\r\n\r\n", send_forever]) as server:
        WebhookRequests(_create_receiver(tmp_path, f"http://localhost:{server.port}/")).send(BODY)
    assert time.monotonic() - started_at < 5


def test_a_huge_header_is_refused(tmp_path: Path) -> None:
    error = _respond(tmp_path, b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"x" * 100_000 + b"\r\n")
    assert str(error) == "its answer has too long a header"


def test_a_server_that_says_nothing_or_a_byte_at_a_time_takes_no_longer_than_the_limit(tmp_path: Path) -> None:
    def trickle(connection: socket.socket) -> None:
        while not select.select([connection], [], [], 0.02)[0] or connection.recv(65536):  # until the other side ends
            connection.sendall(b"X")

    def stall(connection: socket.socket) -> None:
        while connection.recv(65536):
            pass

    for part in (trickle, stall):
        started_at = time.monotonic()
        error = _respond(tmp_path, b"HTTP/1.1 200 OK\r\n", part, total=0.3)
        assert str(error) == "it does not answer in time"
        assert time.monotonic() - started_at < 2


def test_a_handshake_that_never_ends_takes_no_longer_than_the_limit(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        error = _find_failure(tmp_path, f"https://localhost:{listener.getsockname()[1]}/{SECRET}", 0.3)
    assert str(error) == "it does not answer in time"


class _ExpiringRequests(WebhookRequests):
    """Requests with an event that is set once the time of one has ended."""

    def __init__(self, receiver: Receiver, total: float) -> None:
        super().__init__(receiver, total)
        self.expired = Event()

    def _break(self) -> None:
        super()._break()
        self.expired.set()


def test_nothing_is_sent_on_a_connection_that_comes_after_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a name have addresses that do not answer before the one that does."""
    connect = socket.create_connection
    with raw_server([full_response(b"")]) as server:
        requests = _ExpiringRequests(_create_receiver(tmp_path, f"http://localhost:{server.port}/"), 0.05)

        def connect_late(*args: Any, **options: Any) -> socket.socket:
            assert requests.expired.wait(5)
            return connect(*args, **options)

        monkeypatch.setattr(socket, "create_connection", connect_late)
        with pytest.raises(NotifyError, match=r"^it does not answer in time$"):
            requests.send(BODY)
        assert server.requests == []


def test_a_connection_that_is_broken_off_stays_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect no `SSLSocket.shutdown`, which ends the encryption first: a write would then be in the clear."""
    monkeypatch.setattr(ssl.SSLSocket, "shutdown", lambda *_: pytest.fail("the encryption ends"))
    context = issue_certificates(tmp_path / "tls")
    with raw_server([lambda connection: server.stall(connection)], context=context) as server:  # noqa: PLW0108  # made by this line
        url, ca_file = f"https://localhost:{server.port}/{SECRET}", str(tmp_path / "tls" / "ca.crt")
        error = _find_failure(tmp_path, url, 0.3, ca_file=ca_file)
    assert str(error) == "it does not answer in time"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([b""], "it closes the connection without an answer"),
        ([b"SSH-2.0-OpenSSH\r\n\r\n"], "its answer is not HTTP"),
        ([b"HTTP/1.1 1000 x\r\n\r\n"], "its answer is not HTTP"),
        ([b"HTTP/2.0 200 OK\r\n\r\n"], "its answer is not HTTP"),
        ([b"HTTP/1.1 101 Switching Protocols\r\n\r\n"], "it answers 101"),
        ([reset], "it cannot be reached: Connection reset by peer"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", full_response(b"", "404 No")], "it answers 404"),
        (
            [
                b"HTTP/1.1 102 x\r\nA: b\r\n\r\nHTTP/1.1 103 x\r\nConnection: close\r\n\r\n",
                full_response(b"", "404 No"),
            ],
            "it answers 404",
        ),
    ],
)
def test_what_is_no_answer_is_a_failure(tmp_path: Path, parts: list[Part], message: str) -> None:
    assert str(_respond(tmp_path, *parts)) == message


def test_a_receiver_that_is_away_is_a_failure(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert (
        str(_find_failure(tmp_path, f"http://localhost:{port}/{SECRET}")) == "it cannot be reached: Connection refused"
    )
    error = _find_failure(tmp_path, f"https://{SECRET.lower()}.invalid/")
    assert str(error).startswith("it cannot be reached: ")
    assert SECRET.lower() not in str(error)


def test_a_request_in_progress_ends_when_the_gate_ends(tmp_path: Path) -> None:
    failures: list[str] = []
    with raw_server([lambda connection: server.stall(connection)]) as server:  # noqa: PLW0108  # made by this line
        requests = WebhookRequests(_create_receiver(tmp_path, f"http://localhost:{server.port}/"), 30.0)

        def send() -> None:
            with pytest.raises(NotifyError) as caught:
                requests.send(BODY)
            failures.append(str(caught.value))

        thread = Thread(target=send)
        thread.start()
        while not server.requests:
            thread.join(0.01)
        requests.close()
        thread.join(5)
        assert failures == ["it closes the connection without an answer"]
        with pytest.raises(NotifyError):
            requests.send(BODY)


def test_no_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with run_receiver() as receiver:
        WebhookRequests(_create_receiver(tmp_path, receiver.url)).send(BODY)
    assert len(receiver.messages) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        SECRET,
        f"ftp://x/{SECRET}",
        f"https:///{SECRET}",
        f"https://user:{SECRET}@x/",
        f"https://x/{SECRET}#y",
        f"https://x/{SECRET} y",
        f"https://x/{SECRET}\nhttps://y/",
        f"https://x:0/{SECRET}",
        f"https://x:99999/{SECRET}",
        f"https://[x/{SECRET}",
        f"https://x/{SECRET}é",
        f"https://x/{SECRET}\x00",
    ],
)
def test_what_is_no_address_is_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "url"
    path.write_text(text, "utf-8")
    with pytest.raises(NotifyError) as caught:
        read_address(path, plain_http=True)
    message = f"urlFile {path}: it has no address in one line, as in https://hooks.slack.com/services/…"
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("url", "plain_http", "is_accepted"),
    [
        ("http://hooks.example.com/x", False, False),
        ("http://hooks.example.com/x", True, True),
        ("http://127.0.0.1:8080/x", False, True),
        ("http://[::1]/x", False, True),
        ("http://localhost/x", False, True),
        ("http://localhost.example.com/x", False, False),
        ("https://hooks.example.com/x?sig=a%2Fb", False, True),
    ],
)
def test_http_is_for_this_host_or_by_choice(tmp_path: Path, *, url: str, plain_http: bool, is_accepted: bool) -> None:
    path = tmp_path / "url"
    path.write_text(f"\n{url}\r\n")
    if is_accepted:
        assert read_address(path, plain_http=plain_http).geturl() == url
        return
    with pytest.raises(NotifyError, match="the address is one of HTTP; write one of HTTPS, or plainHttp: true"):
        read_address(path, plain_http=plain_http)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"Bearer {SECRET}", "headers:1: it is not a header; write it as in Authorization: Bearer …"),
        (f"A: b\n: {SECRET}", "headers:2: it is not a header; write it as in Authorization: Bearer …"),
        (f"A: é{SECRET}", "headers:1: it is not a header; write it as in Authorization: Bearer …"),
        (f"A b: {SECRET}", "headers:1: it is not a header; write it as in Authorization: Bearer …"),
        (f"Host: {SECRET}", "headers:1: Host is set by the gate; remove it"),
        (f"transfer-encoding: {SECRET}", "headers:1: transfer-encoding is set by the gate; remove it"),
        ("A: " + "x" * 20_000, "headers: it has more than 16384 bytes"),
    ],
)
def test_headers_that_may_not_be_sent_are_not_shown(tmp_path: Path, text: str, message: str) -> None:
    headers = tmp_path / "headers"
    headers.write_text(text, "utf-8")
    error = _find_failure(tmp_path, "http://127.0.0.1:1/", headers_file=str(headers))
    assert str(error) == f"headersFile {tmp_path}/{message}"


def test_files_that_cannot_be_read_are_failures(tmp_path: Path) -> None:
    with pytest.raises(NotifyError, match=r"^urlFile .*/nope cannot be read: No such file or directory$"):
        WebhookRequests(Receiver(name="a", url_file=str(tmp_path / "nope"))).send(BODY)
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(NotifyError, match=r"^urlFile .*/bytes: it is not UTF-8$"):
        WebhookRequests(Receiver(name="a", url_file=str(tmp_path / "bytes"))).send(BODY)
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no certificate")
    for name, reason in (
        ("nope", " cannot be read: No such file or directory"),
        ("bytes", ": it has no certificate in PEM"),
        ("empty", ": it has no certificate in PEM"),
        ("text", ": it has no certificate in PEM"),
    ):
        error = _find_failure(tmp_path, "https://127.0.0.1:1/", ca_file=str(tmp_path / name))
        assert str(error) == f"caFile {tmp_path / name}{reason}"


def test_the_longest_waits_are_those_of_the_page() -> None:
    page = Path(__file__).parents[3] / "docs/tasks/get-notified.md"
    connect, total = webhook_request.CONNECT_SECONDS, webhook_request.TOTAL_SECONDS
    assert f"{connect:.0f} s for a connection, {total:.0f} s for an answer" in page.read_text("utf-8")


def test_tls_is_verified_by_default() -> None:
    context = ssl.create_default_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
