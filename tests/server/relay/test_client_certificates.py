"""The relay serves only clients with a certificate of the client CA and one of the given names, and other relays."""

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tallygate.server.controllers.relay_controller import RelayError
from tallygate_certs.renewal import issue, renew
from tests.haproxy import CONFIGURATION, HaproxyProcess, create_controller
from tests.server.app_harness import Log
from tests.server.client_certificates import issue_client_certificate
from tests.server.process import NAMES, ServerProcess
from tests.server.relay.pods import copy_certificates, post

_NAME = "kube-apiserver"
_REJECTED = "rejected"


@pytest.fixture
def callers(tmp_path: Path) -> Path:
    """Return a folder with the CA of clients."""
    folder = tmp_path / "callers"
    issue(folder, NAMES, datetime.now(UTC))
    return folder


@pytest.fixture
def gate(tmp_path: Path, certificates: Path) -> Iterator[ServerProcess]:
    """Yield a gate."""
    with ServerProcess(copy_certificates(certificates, tmp_path / "gate")) as running:
        yield running


@pytest.fixture
def start_relay(gate: ServerProcess, callers: Path) -> Iterator[Callable[..., HaproxyProcess]]:
    """Return a function that starts a relay of the gate, which verifies clients."""
    with ExitStack() as stack:

        def start(*names: str, peer: int = 1, client_ca: Path = callers / "ca.crt") -> HaproxyProcess:
            relay = stack.enter_context(HaproxyProcess(gate.port, gate.monitor_port, peer))
            create_controller(relay.folder, gate.folder, client_ca=client_ca, client_names=names).reconcile()
            return relay.start()

        yield start


def send(relay: HaproxyProcess, gate: ServerProcess, certificate: Path | None) -> int | str:
    """Send a review with a client certificate; return the status, or that the connection was closed."""
    context = gate.context
    if certificate:
        context.load_cert_chain(certificate)
    with httpx.Client(base_url=f"https://localhost:{relay.port}", verify=context, timeout=40) as client:
        try:
            return post(client).status_code
        except httpx.TransportError:
            return _REJECTED


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), {"named": 200, "other": 200, "longer": 200, "organization": 200}),
        ((_NAME, "second"), {"named": 200, "other": 403, "longer": 403, "organization": 403}),
    ],
    ids=["any name", "two names"],
)
def test_only_clients_of_the_ca_with_one_of_the_names_are_served(
    start_relay: Callable[..., HaproxyProcess],
    gate: ServerProcess,
    callers: Path,
    names: tuple[str, ...],
    expected: Mapping[str, int],
) -> None:
    relay = start_relay(*names)
    certificates = {
        "named": issue_client_certificate(callers, _NAME),
        "other": issue_client_certificate(callers, "stranger"),
        "longer": issue_client_certificate(callers, f"{_NAME}x"),
        "organization": issue_client_certificate(callers, "*", organization=f"x/CN={_NAME}"),
    }
    assert {key: send(relay, gate, path) for key, path in certificates.items()} == expected
    rejected = {
        "none": None,
        "of the gate's CA": issue_client_certificate(gate.folder, _NAME),
        "expired": issue_client_certificate(callers, _NAME, days=-1),
        "for servers": issue_client_certificate(callers, _NAME, is_for_clients=False),
    }
    assert {key: send(relay, gate, path) for key, path in rejected.items()} == dict.fromkeys(rejected, _REJECTED)


def test_a_relay_answers_another_one_which_has_no_certificate_of_a_client(
    start_relay: Callable[..., HaproxyProcess], gate: ServerProcess, callers: Path, certificates: Path, tmp_path: Path
) -> None:
    """Let the first relay reach no gate, and call the second by its name, as any client does."""
    second = start_relay(_NAME)
    first_gate = ServerProcess(copy_certificates(certificates, tmp_path / "first"))
    with first_gate, HaproxyProcess(first_gate.port, first_gate.monitor_port, second.port) as first:
        create_controller(
            first.folder, first_gate.folder, client_ca=callers / "ca.crt", client_names=[_NAME]
        ).reconcile()
        first.start()
        first_gate.kill()
        assert send(first, gate, issue_client_certificate(callers, _NAME)) == 200
    assert gate.get_metric("tallygate_admission_requests_total") == 1


def test_the_certificate_of_the_gate_and_the_one_before_it_are_those_of_relays(
    start_relay: Callable[..., HaproxyProcess], gate: ServerProcess, callers: Path, certificates: Path
) -> None:
    relay = start_relay(_NAME)
    controller = create_controller(relay.folder, gate.folder, client_ca=callers / "ca.crt", client_names=[_NAME])
    peers = [write_pair(gate.folder, 0)]
    for number in (1, 2):
        renew(certificates, datetime.now(UTC), force=True)
        for name in ("tls.crt", "tls.key"):
            (gate.folder / name).write_bytes((certificates / name).read_bytes())
        controller.reconcile()
        peers.append(write_pair(gate.folder, number))
    assert [send(relay, gate, path) for path in peers] == [_REJECTED, 200, 200]


def write_pair(folder: Path, number: int) -> Path:
    """Write the certificate and the key of a folder into one file."""
    path = folder / f"pair-{number}.pem"
    path.write_bytes((folder / "tls.crt").read_bytes() + (folder / "tls.key").read_bytes())
    return path


def test_a_new_client_ca_replaces_that_of_a_running_relay(
    start_relay: Callable[..., HaproxyProcess], gate: ServerProcess, callers: Path, tmp_path: Path
) -> None:
    client_ca, other = tmp_path / "clients.crt", tmp_path / "other"
    issue(other, NAMES, datetime.now(UTC))
    client_ca.write_bytes((callers / "ca.crt").read_bytes())
    relay = start_relay(client_ca=client_ca)
    old, new = issue_client_certificate(callers, _NAME), issue_client_certificate(other, _NAME)
    assert [send(relay, gate, each) for each in (old, new)] == [200, _REJECTED]
    client_ca.write_bytes((other / "ca.crt").read_bytes())
    log = Log()
    create_controller(relay.folder, gate.folder, log, client_ca=client_ca).reconcile()
    assert [line["file"] for line in log.lines] == ["clients.pem"]
    assert [send(relay, gate, each) for each in (old, new)] == [_REJECTED, 200]


def test_a_session_is_not_resumed(
    start_relay: Callable[..., HaproxyProcess], gate: ServerProcess, callers: Path
) -> None:
    """Verify a client again that was verified once: the CA may be another one by then."""
    relay, context = start_relay(), gate.context
    context.load_cert_chain(issue_client_certificate(callers, _NAME))

    def connect(session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool | None]:
        plain = socket.create_connection(("127.0.0.1", relay.port), 40)
        with context.wrap_socket(plain, server_hostname="localhost", session=session) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(65536)
            return connection.session, connection.session_reused

    session, _ = connect(None)
    assert connect(session)[1] is False


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (('crt-list "${RELAY_FOLDER}/certificates.list"', 'crt "${RELAY_FOLDER}/tls.pem"'), "clients.pem"),
        (("client-names.list", "peers.list"), "client-names.list"),
    ],
    ids=["the list of certificates", "the names"],
)
def test_a_gate_whose_relay_does_not_verify_clients_is_not_ready(
    gate: ServerProcess, callers: Path, tmp_path: Path, change: tuple[str, str], missing: str
) -> None:
    """Use a copy of the configuration without a part of it."""
    configuration = tmp_path / "haproxy.cfg"
    text = CONFIGURATION.read_text()
    assert change[0] in text
    configuration.write_text(text.replace(*change))
    with HaproxyProcess(gate.port, gate.monitor_port, configuration=configuration) as relay:
        controller = create_controller(relay.folder, gate.folder, client_ca=callers / "ca.crt")
        controller.reconcile()
        assert controller.check().ready
        relay.start()
        with pytest.raises(RelayError, match=rf"the relay verifies no clients: .* does not use {missing}; use that"):
            controller.reconcile()
        assert not controller.check().ready
