"""New certificates while the server runs: no request fails."""

import http.client
import json
import select
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tallygate.server.https.https_server import HttpsSettings, HttpsStartError, try_certificates
from tallygate.server.https.tls_files import CertificateError, ServingCertificates, read_certificates
from tallygate_certs.renewal import issue
from tests.server.app_harness import MUTATE, create_review
from tests.server.process import NAMES, ServerProcess, eventually, remains, replace_file, run_threads

ROTATIONS, CLIENTS = 10, 8


class KeepAlive:
    """A client like Go's http.Transport: it keeps a connection until the server closes it, and repeats no POST."""

    def __init__(self, server: ServerProcess, counts: Counter[str]) -> None:
        self._server = server
        self._context = server.context
        self._seen = counts
        self._connection: http.client.HTTPSConnection | None = None

    def post(self) -> None:
        """Send one review, and raise an error if it gets no answer."""
        connection = self._connection or self._connect()
        connection.request("POST", MUTATE, create_review())
        answer = connection.getresponse()
        body = json.loads(answer.read())
        assert (answer.status, body["response"]["allowed"]) == (200, True)
        self._seen["answers"] += 1
        self._connection = None if answer.will_close else connection

    def is_cut(self) -> bool:
        """Return whether the server has closed the connection, without a request since the last answer."""
        assert self._connection
        return bool(select.select([self._connection.sock], [], [], 0)[0])

    def close(self) -> None:
        """Close the connection."""
        if self._connection:
            self._connection.close()

    def _connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection("localhost", self._server.port, context=self._context, timeout=20)
        connection.connect()
        certificate = connection.sock.getpeercert() or {}
        self._seen[f"certificate {certificate['serialNumber']}"] += 1
        return connection


def test_ten_rotations_under_load_fail_no_request(tmp_path: Path) -> None:
    """Eight clients post continuously. Each gets each of the eleven certificates, on one connection."""
    counts: Counter[str] = Counter()

    def post(_: int, stop: threading.Event) -> None:
        client = KeepAlive(server, counts)
        while not stop.wait(0.01):
            client.post()
        client.close()

    with ServerProcess(tmp_path) as server:
        with run_threads(CLIENTS, post):
            for number in range(ROTATIONS + 1):
                enough = (number + 1) * CLIENTS
                assert eventually(lambda: sum(count for name, count in counts.items() if name != "answers") >= enough)  # noqa: B023 - called at once
                if number < ROTATIONS:
                    issue(tmp_path, NAMES, datetime.now(UTC))
                    assert eventually(lambda: len(server.find_log_lines("certificate-reloaded")) == number + 1)  # noqa: B023 - likewise
        certificates = [count for name, count in counts.items() if name != "answers"]
        assert certificates == [CLIENTS] * (ROTATIONS + 1)
        # A decision is counted once its answer is sent.
        assert eventually(lambda: server.get_metric("tallygate_admission_requests_total") == counts["answers"])
        assert server.stop() == 0


def test_a_connection_that_is_idle_during_a_rotation_stays_usable(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = KeepAlive(server, Counter())
        client.post()
        issue(tmp_path, NAMES, datetime.now(UTC))
        assert eventually(lambda: bool(server.find_log_lines("certificate-reloaded")))
        client.post()
        client.post()
        client.close()


def test_an_old_worker_ends_after_its_idle_connections_are_closed(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"idle": 0.2}) as server:
        threads = 0
        for number in range(4):
            issue(tmp_path, NAMES, datetime.now(UTC))
            assert eventually(lambda: len(server.find_log_lines("certificate-reloaded")) == number + 1)  # noqa: B023 - called at once
            threads = threads or server.status("Threads")  # with the thread that watches the files, and one old worker
        assert eventually(lambda: server.status("Threads") <= threads)


def test_beyond_four_old_workers_the_oldest_ends_although_its_connections_are_idle(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, times={"idle": 3600}) as server:
        clients: list[KeepAlive] = []
        for number in range(6):
            clients.append(KeepAlive(server, Counter()))
            clients[number].post()
            issue(tmp_path, NAMES, datetime.now(UTC))
            assert eventually(lambda: len(server.find_log_lines("certificate-reloaded")) == number + 1)  # noqa: B023 - called at once
        oldest, others = clients[:2], clients[2:]
        assert eventually(lambda: all(client.is_cut() for client in oldest))
        assert remains(lambda: not any(client.is_cut() for client in others))
        for client in others:
            client.post()
        for client in clients:
            client.close()


def test_certificates_are_tried_at_each_reload_but_not_at_the_start(tmp_path: Path) -> None:
    """Skip the trial at the start, which would double its time: no worker runs that it could protect."""
    with ServerProcess(tmp_path) as server:
        assert server.page_faults_of_children() == 0
        for number in range(2):
            before = server.page_faults_of_children()
            issue(tmp_path, NAMES, datetime.now(UTC))
            assert eventually(lambda: len(server.find_log_lines("certificate-reloaded")) == number + 1)  # noqa: B023 - called at once
            assert server.page_faults_of_children() > before


def test_files_that_do_not_match_change_nothing(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        key = (tmp_path / "tls.key").read_bytes()
        replace_file(tmp_path / "tls.key", (tmp_path / "ca.key").read_bytes())
        assert eventually(lambda: bool(server.find_log_lines("certificate-reload-failed")))
        assert "is not the unencrypted key of" in server.find_log_lines("certificate-reload-failed")[0]["message"]
        assert "error" in server.monitor("/readyz").json()["checks"]["certificate"]
        assert client.post(MUTATE, content=create_review()).status_code == 200
        replace_file(tmp_path / "tls.key", key)
        assert eventually(lambda: "error" not in server.monitor("/readyz").json()["checks"]["certificate"])
        assert len(server.find_log_lines("certificate-reload-failed")) == 1


def test_files_that_would_end_the_server_change_nothing(tmp_path: Path) -> None:
    """Use a client CA with valid PEM and invalid content: granian panics on it, which ends a process."""
    with ServerProcess(tmp_path, client_ca_file=tmp_path / "ca.crt") as server:
        good = (tmp_path / "ca.crt").read_bytes()
        replace_file(tmp_path / "ca.crt", good + b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n")
        assert eventually(lambda: bool(server.find_log_lines("certificate-reload-failed")))
        assert server.monitor("/readyz").status_code == 200
        replace_file(tmp_path / "ca.crt", good)
        issue(tmp_path, NAMES, datetime.now(UTC))
        assert eventually(lambda: bool(server.find_log_lines("certificate-reloaded")))


def create_unusable_certificate() -> tuple[bytes, bytes]:
    """Return a certificate and its key, of a type that OpenSSL knows and rustls does not."""
    key = ec.generate_private_key(ec.SECP521R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "unusable")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256())
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), pkcs8


def test_an_unsupported_key_is_an_error_that_names_the_supported_types(tmp_path: Path) -> None:
    chain, key = create_unusable_certificate()
    (tmp_path / "tls.crt").write_bytes(chain)
    (tmp_path / "tls.key").write_bytes(key)
    with pytest.raises(CertificateError, match="P-256 or P-384"):
        read_certificates(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_the_error_of_a_trial_has_the_text_of_the_library(tmp_path: Path) -> None:
    chain, key = create_unusable_certificate()
    with pytest.raises(HttpsStartError, match="failed to parse private key"):
        try_certificates(ServingCertificates(chain, key, b"", "unusable", datetime.now(UTC)), HttpsSettings())
    issue(tmp_path, NAMES, datetime.now(UTC))
    try_certificates(read_certificates(tmp_path / "tls.crt", tmp_path / "tls.key"), HttpsSettings())


def test_an_answer_with_retry_after_ends_its_connection(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.client() as client:
        answer = client.post(f"{MUTATE}?timeout=5s", content=create_review("unreachable"))
        assert (answer.status_code, answer.headers["Retry-After"], answer.headers["Connection"]) == (500, "1", "close")
        assert client.post(MUTATE, content=create_review()).status_code == 200
