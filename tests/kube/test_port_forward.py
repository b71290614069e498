"""A port of a pod through the API server: bytes in both directions, and each way in which it can fail."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.config import load_kubeconfig
from tallygate.kube.port_forward import PodPort, PortForward, open_port_forward
from tests.kube.forwarding_server import ForwardingServer, run_forwarding_server
from tests.kube.kubeconfig import write_kubeconfig
from tests.kube.raw_server import Part, full_response, raw_server

TARGET = PodPort("gates", "ask-1", 8443)
PATH = "/api/v1/namespaces/gates/pods/ask-1/portforward"


def connect(server: str, folder: Path, seconds: float = 20.0) -> PortForward:
    """Return a connection to the port of the pod."""
    config = load_kubeconfig(write_kubeconfig(folder, server, token="t0ken"))  # noqa: S106  # a made-up token
    return open_port_forward(config, TARGET, time.monotonic() + seconds)


def read_all(forward: PortForward) -> bytes:
    content = b""
    while received := forward.receive():
        content += received
    return content


@contextmanager
def run_echo(server: ForwardingServer) -> Iterator[None]:
    """Run a server on the port of the pod that sends back what it gets until the byte `.`, then ends."""

    def echo(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            content = b""
            while not content.endswith(b"."):
                content += connection.recv(65536)
            connection.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.local_ports[TARGET.port] = listener.getsockname()[1]
        thread = Thread(target=echo, args=(listener,), daemon=True)
        thread.start()
        yield
        thread.join(5)


@pytest.mark.parametrize("fragments", [1, 3])
@pytest.mark.parametrize("size", [0, 1, 200, 70_000, 500_000])
def test_bytes_go_to_the_port_and_back(size: int, fragments: int, tmp_path: Path) -> None:
    sent = bytes(index % 46 for index in range(size)) + b"."
    with run_forwarding_server() as server, run_echo(server):
        server.pings, server.fragments = 2, fragments
        forward = connect(server.url, tmp_path)
        forward.send(sent)
        assert read_all(forward) == sent
        forward.close()
    assert server.requests == [(PATH, "Bearer t0ken")]


def test_an_error_of_the_kubelet_is_reported(tmp_path: Path) -> None:
    with run_forwarding_server() as server:
        server.error = "error forwarding port 8443 to pod 1:\n connection refused"
        forward = connect(server.url, tmp_path)
        with pytest.raises(ApiError, match="port 8443 to pod 1: connection refused"):
            forward.receive()
        forward.close()


def test_a_missing_right_is_reported_in_the_words_of_the_api_server(tmp_path: Path) -> None:
    with run_forwarding_server() as server:
        server.objects[PATH] = 403, {"kind": "Status", "message": 'cannot create resource "pods/portforward"'}
        with pytest.raises(ApiError, match=r"the API server says 403: cannot create resource") as caught:
            connect(server.url, tmp_path)
    assert caught.value.reason is ApiErrorReason.FORBIDDEN


@pytest.mark.parametrize(("protocol", "suffix"), [("v5.channel.k8s.io", None), ("v4.channel.k8s.io", b"other")])
def test_another_protocol_is_refused(protocol: str, suffix: bytes | None, tmp_path: Path) -> None:
    with run_forwarding_server() as server:
        server.protocol, server.key_suffix = protocol, suffix or server.key_suffix
        with pytest.raises(ApiError, match="does not forward ports"):
            connect(server.url, tmp_path)


@pytest.mark.parametrize(
    "parts", [[], [b"HTTP/1.1 \r\n\r\n"], [b"HTTP/1.1 two\r\n\r\n"], [full_response(b"{}"), b"\x00"], [b"\x00" * 9000]]
)
def test_an_answer_that_is_no_upgrade_is_an_error(parts: list[Part], tmp_path: Path) -> None:
    with raw_server(parts) as server, pytest.raises(ApiError):
        connect(f"http://127.0.0.1:{server.port}", tmp_path)


FRAMES = [
    b"\x82",  # half a head
    b"\x82\x05\x00abc",  # half a frame
    b"\x82\x81\x00\x00\x00\x00a",  # masked by a server
    b"\xc2\x01a",  # a reserved bit
    b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",  # 2**64 bytes
    (b"\x02\x7f\x00\x00\x00\x00\x00\x0f\xff\xff" + b"a" * 0xFFFFF) * 2,  # fragments that are too large together
]


def send_and_close(connection: socket.socket, content: bytes) -> None:
    with connection, suppress(OSError):
        connection.sendall(content)


@pytest.mark.parametrize("frames", FRAMES, ids=range(len(FRAMES)))
def test_broken_frames_are_errors(frames: bytes, tmp_path: Path) -> None:
    with run_forwarding_server() as server, socket.create_server(("127.0.0.1", 0)) as listener:
        server.local_ports[TARGET.port] = listener.getsockname()[1]
        forward = connect(server.url, tmp_path)
        near, far = socket.socketpair()
        Thread(target=send_and_close, args=(far, frames), daemon=True).start()
        broken = PortForward(forward._connection, near.makefile("rb"), time.monotonic() + 5)  # noqa: SLF001  # other frames
        with pytest.raises(ApiError):
            broken.receive()
        near.close()
        broken.close()


def test_a_silent_server_ends_the_wait_at_the_deadline(tmp_path: Path) -> None:
    with run_forwarding_server() as server, socket.create_server(("127.0.0.1", 0)) as listener:
        server.local_ports[TARGET.port] = listener.getsockname()[1]
        forward = connect(server.url, tmp_path, 0.3)
        with pytest.raises(ApiError) as caught:
            forward.receive()
        forward.close()
    assert caught.value.reason is ApiErrorReason.TIMEOUT


def test_an_api_server_that_is_not_there_cannot_be_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ApiError) as caught:
        connect(f"http://127.0.0.1:{port}", tmp_path)
    assert caught.value.reason is ApiErrorReason.UNREACHABLE
