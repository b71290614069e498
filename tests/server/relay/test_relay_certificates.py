"""The files that the gate gives to the relay: its certificate, and the CAs of its peers."""

import shutil
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tallygate.errors import TallygateError
from tallygate.server.controllers.relay_controller import RelayError
from tallygate_certs.renewal import issue, renew
from tests.haproxy import LOOPBACK, HaproxyProcess, create_controller
from tests.server.process import NAMES, ServerProcess, run_threads
from tests.server.relay.pods import Pod, copy_certificates, post


def test_a_peer_with_a_certificate_of_another_ca_gets_no_review(
    tmp_path: Path, pod_with_peer: Pod, peer: ServerProcess
) -> None:
    other = tmp_path / "other"
    issue(other, NAMES, datetime.now(UTC))
    (pod_with_peer.gate.folder / "ca.crt").write_bytes((other / "ca.crt").read_bytes())
    pod_with_peer.controller.reconcile()
    pod_with_peer.gate.kill()
    with httpx.Client(base_url=f"https://localhost:{pod_with_peer.relay.port}", verify=peer.context) as client:
        assert post(client).status_code == 503
    assert peer.get_metric("tallygate_admission_requests_total") == 0


def list_replaced(pod: Pod) -> list[str]:
    """Return the files whose content replaced that of the running relay."""
    return [line["file"] for line in pod.log.lines if line["event"] == "relay-certificate-replaced"]


def read_served_certificate(port: int) -> str:
    """Return the certificate that a server presents, as PEM."""
    return ssl.get_server_certificate((LOOPBACK, port))


def test_a_new_certificate_and_a_new_ca_replace_those_of_a_running_relay(tmp_path: Path, pod_with_peer: Pod) -> None:
    pod = pod_with_peer
    first = read_served_certificate(pod.relay.port)
    other = tmp_path / "other"
    issue(other, NAMES, datetime.now(UTC))
    for name in ("tls.crt", "tls.key"):
        (pod.gate.folder / name).write_bytes((other / name).read_bytes())
    bundle = (pod.gate.folder / "ca.crt").read_bytes() + b"\n\n" + (other / "ca.crt").read_bytes()
    (pod.gate.folder / "ca.crt").write_bytes(bundle)
    pod.controller.reconcile()
    assert list_replaced(pod) == ["tls.pem", "ca.pem"]
    assert read_served_certificate(pod.relay.port) != first
    pod.controller.reconcile()
    assert len(list_replaced(pod)) == 2  # there is nothing to do a second time
    pod.gate.kill()
    with httpx.Client(
        base_url=f"https://localhost:{pod.relay.port}", verify=ssl.create_default_context(cafile=str(other / "ca.crt"))
    ) as client:
        assert post(client).status_code == 200  # the peer still has a certificate of the first CA


def test_a_relay_that_starts_again_reads_the_current_files(pod: Pod, certificates: Path) -> None:
    first = read_served_certificate(pod.relay.port)
    pod.relay.stop()
    renew(certificates, datetime.now(UTC), force=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(certificates / name, pod.gate.folder)
    pod.controller.reconcile()
    assert list_replaced(pod) == []
    pod.relay.start()
    assert read_served_certificate(pod.relay.port) != first


def test_the_files_are_for_the_gates_user_only_and_are_written_without_a_relay(
    tmp_path: Path, certificates: Path
) -> None:
    directory = tmp_path / "relay"
    directory.mkdir()
    create_controller(directory, certificates).reconcile()
    assert {each.name: each.stat().st_mode & 0o777 for each in directory.iterdir()} == {
        "tls.pem": 0o600,
        "ca.pem": 0o600,
        "certificates.list": 0o600,
        "client-names.list": 0o600,
        "peers.list": 0o600,
    }
    assert (directory / "ca.pem").read_bytes() == (certificates / "ca.crt").read_bytes()


def test_without_a_ca_the_relay_trusts_no_peer_but_starts(
    tmp_path: Path, certificates: Path, peer: ServerProcess
) -> None:
    folder = copy_certificates(certificates, tmp_path / "gate")
    (folder / "ca.crt").unlink()
    gate = ServerProcess(folder)
    with gate, HaproxyProcess(gate.port, gate.monitor_port, peer.port) as relay:
        create_controller(relay.folder, folder).reconcile()
        relay.start()
        with httpx.Client(base_url=f"https://localhost:{relay.port}", verify=peer.context, timeout=20) as client:
            assert post(client).status_code == 200
            gate.kill()
            assert post(client).status_code == 503


def test_certificates_that_the_gate_cannot_use_never_reach_the_relay(pod: Pod) -> None:
    first = read_served_certificate(pod.relay.port)
    (pod.gate.folder / "tls.key").write_bytes(b"")
    with pytest.raises(TallygateError):
        pod.controller.reconcile()
    assert read_served_certificate(pod.relay.port) == first


def test_a_directory_that_is_missing_is_an_error_with_its_remedy(tmp_path: Path, certificates: Path) -> None:
    with pytest.raises(RelayError) as raised:
        create_controller(tmp_path / "absent", certificates).reconcile()
    assert str(raised.value) == (
        f"relay_dir: {tmp_path}/absent/tls.pem cannot be written: No such file or directory; "
        "mount a volume in memory there"
    )


def test_a_relay_that_keeps_its_certificate_is_an_error_with_its_answer(tmp_path: Path, certificates: Path) -> None:
    """Use a relay with another configuration: it has no such certificate."""
    directory = tmp_path / "relay"
    directory.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(directory / "admin.sock"))
        listener.listen()

        def answer(_: int, __: threading.Event) -> None:
            for _ in range(3):
                connection, _address = listener.accept()
                with connection:
                    while connection.recv(65536):
                        pass
                    connection.sendall(b"Can't replace a certificate which is not referenced by the configuration!\n\n")

        with run_threads(1, answer), pytest.raises(RelayError) as raised:
            create_controller(directory, certificates).reconcile()
    assert "the relay keeps its old tls.pem: Can't replace a certificate" in str(raised.value)
