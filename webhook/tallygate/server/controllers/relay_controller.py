"""The controller that gives the gate's certificate to the relay: HAProxy in a container of the same pod.

Gate and relay share a directory in memory. The gate writes the certificate with its key (`tls.pem`) and the CAs of its
peers (`ca.pem`), which the relay reads when it starts. A relay that runs reads no file again; the gate compares its
certificates with the files, and replaces them over the relay's socket (`admin.sock`; HAProxy, management.txt, 9.3
"Unix Socket commands"). The comparison comes at short intervals, so that no order of starts leaves an old certificate.

HAProxy resolves the name of its peers only when it starts. The gate resolves it again now and then, for a relay that
started before the cluster's DNS, and for a Service that was created again.

With a client CA (`clients.pem`, named in `certificates.list`; HAProxy, configuration.txt, 5.1 "crt-list") the relay
serves clients with a certificate that it signed, and with one of the given common names (`client-names.list`), and the
relays of other replicas. Those have no such certificate: they present that of their gate, which all replicas share. So
the relay serves every client with the key of this very certificate (`peers.list`), or of the one before it.
"""

import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from tallygate.errors import TallygateError
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask

_CERTIFICATE_FILE: Final = "tls.pem"
_CA_FILE: Final = "ca.pem"
_CLIENT_CA_FILE: Final = "clients.pem"
_CLIENT_NAMES_FILE: Final = "client-names.list"
_PEERS_FILE: Final = "peers.list"
_MAX_PEER_CERTIFICATES: Final = 2  # replicas take a new certificate a moment apart
_CERTIFICATE_LIST: Final = "certificates.list"
_ANY_NAME: Final = "*"  # in place of names; haproxy.cfg looks it up, and the next one
_NO_CERTIFICATE: Final = "**"
_SOCKET: Final = "admin.sock"
_INTERVAL_SECONDS: Final = 2.0
_PEER_INTERVAL_SECONDS: Final = 30.0
_TIMEOUT_SECONDS: Final = 5.0
_RECEIVE_BYTES: Final = 64 * 1024
_MAX_ANSWER_BYTES: Final = 1 << 20
_PEER_BACKEND: Final = "any_gate"
_PEER: Final = "peer"
_FINGERPRINT: Final = re.compile(r"^SHA1 FingerPrint: ([0-9A-F]{40})$", re.MULTILINE)


class RelayError(TallygateError):
    """The relay cannot be given a certificate."""


class RelayController:
    """The worker that writes the files of a relay, and replaces the certificates of one that runs.

    Args:
        directory: the directory that both containers mount.
        read_certificate: returns the gate's own certificate with its chain, and the key, both in PEM and checked.
        read_ca_bundle: returns the CAs of all replicas in PEM, b"" while none is known; the relay trusts no peer then.
        log: the log of replaced certificates, and of failures.
        monotonic: the monotonic clock in seconds.
        read_client_ca: returns the CAs of clients in PEM, checked; b"" if clients need no certificate.
        client_names: the common names of the clients to serve; all if empty.
    """

    def __init__(  # noqa: PLR0913 - the files that the relay gets
        self,
        directory: Path,
        read_certificate: Callable[[], tuple[bytes, bytes]],
        read_ca_bundle: Callable[[], bytes],
        log: Logger,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        read_client_ca: Callable[[], bytes] = lambda: b"",
        client_names: Sequence[str] = (),
    ) -> None:
        self._directory = directory
        self._read_certificate = read_certificate
        self._read_ca_bundle = read_ca_bundle
        self._read_client_ca = read_client_ca
        self._client_names = tuple(client_names) or (_ANY_NAME,)
        self._log = log
        self._monotonic = monotonic
        self._next_resolution = monotonic()
        self._is_unverified = False
        task = WorkerTask(
            name="relay",
            run=self.reconcile,
            failure_log=FailureLog(
                partial(log.warning, "relay-certificate-failed"), partial(log.info, "relay-certificate-recovered")
            ),
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS))
        self.worker.wake()

    def reconcile(self) -> bool:
        """Write the files if they differ, then update a relay whose certificates or peers differ; return True.

        A relay that does not run is no failure: it reads the files when it starts.

        Raises:
            TallygateError: if the gate's own files cannot be used.
            RelayError: if a file cannot be written, or the relay does not accept a certificate.
        """
        chain, key = map(_remove_empty_lines, self._read_certificate())
        # Without a CA the relay trusts none: no certificate of another replica is its issuer.
        bundle = _remove_empty_lines(self._read_ca_bundle()) or chain
        client_ca = _remove_empty_lines(self._read_client_ca())
        peers = self._list_peers(chain)
        self._write(_CERTIFICATE_FILE, chain + key)
        if client_ca:
            self._write(_CLIENT_CA_FILE, client_ca)
        self._write(_CERTIFICATE_LIST, self._create_certificate_list(has_client_ca=bool(client_ca)))
        self._write(_CLIENT_NAMES_FILE, _join_lines(self._client_names if client_ca else (_NO_CERTIFICATE,)))
        self._write(_PEERS_FILE, _join_lines(peers))
        self._write(_CA_FILE, bundle)  # the last one: the relay waits for it
        leaf, *_ = _compute_fingerprints(chain)
        try:
            self._replace_if_different("cert", _CERTIFICATE_FILE, lambda shown: shown[:1] == [leaf])
            self._replace_authorities(_CA_FILE, bundle)
            if client_ca:
                self._check_verification()
                self._replace_authorities(_CLIENT_CA_FILE, client_ca)
            self._replace_peers(peers)
            if self._monotonic() >= self._next_resolution:
                self._resolve_peer()
                self._next_resolution = self._monotonic() + _PEER_INTERVAL_SECONDS
        except (FileNotFoundError, ConnectionRefusedError):
            pass  # it does not run
        except OSError as error:
            raise RelayError(f"the relay does not answer on {self._directory / _SOCKET}: {error}") from None
        return True

    def _create_certificate_list(self, *, has_client_ca: bool) -> bytes:
        """Return the file that names the relay's certificate, and the CAs by which it verifies clients.

        The handshake fails for no client: haproxy.cfg rejects those that are neither verified nor a peer.
        """
        verification = f" [verify optional ca-file {self._directory / _CLIENT_CA_FILE}]" if has_client_ca else ""
        return _join_lines([f"{self._directory / _CERTIFICATE_FILE}{verification}"])

    def check(self) -> ReadinessStatus:
        """Return a status that is not ready while the relay serves clients that it was to verify, and does not."""
        return ReadinessStatus("relay-clients", ready=not self._is_unverified)

    def _check_verification(self) -> None:
        """Check that a relay that runs has the files by which it verifies clients; its configuration may be a copy.

        Raises:
            RelayError: if it has not.
        """
        shown = self._send("show ssl ca-file") + self._send("show acl")
        names = (_CLIENT_CA_FILE, _CLIENT_NAMES_FILE, _PEERS_FILE)
        missing = [name for name in names if str(self._directory / name) not in shown]
        self._is_unverified = bool(missing)
        if missing:
            raise RelayError(
                f"the relay verifies no clients: its configuration does not use {', '.join(missing)}; use that of this "
                "version"
            )

    def _list_peers(self, chain: bytes) -> list[str]:
        """Return the SHA-256 of the gate's certificate, and of the one before it if the file has it."""
        current = x509.load_pem_x509_certificates(chain)[0].fingerprint(hashes.SHA256()).hex().upper()
        path = self._directory / _PEERS_FILE
        known = path.read_text("ascii").split() if path.exists() else []
        return [current, *(part for part in known if part != current)][:_MAX_PEER_CERTIFICATES]

    def _replace_peers(self, peers: Sequence[str]) -> None:
        """Give a relay that runs the certificates of peers."""
        path = self._directory / _PEERS_FILE
        shown = {line.split()[-1] for line in self._send(f"show acl {path}").splitlines() if line.startswith("0x")}
        for added in sorted(set(peers) - shown):
            self._send(f"add acl {path} {added}")
        for removed in sorted(shown - set(peers)):
            self._send(f"del acl {path} {removed}")

    def _replace_authorities(self, name: str, content: bytes) -> None:
        expected = set(_compute_fingerprints(content))
        self._replace_if_different("ca-file", name, lambda shown: set(shown) == expected)

    def _write(self, name: str, content: bytes) -> None:
        """Replace a file in one step, unless it has this content."""
        path = self._directory / name
        new = path.with_name(f".{name}")
        try:
            if path.exists() and path.read_bytes() == content:
                return
            new.unlink(missing_ok=True)
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            new.replace(path)
        except OSError as error:
            raise RelayError(
                f"relay_dir: {path} cannot be written: {error.strerror}; mount a volume in memory there"
            ) from None

    def _replace_if_different(self, kind: str, name: str, is_current: Callable[[list[str]], bool]) -> None:
        """Replace a certificate of the relay with the file's content, unless the relay has it."""
        path = self._directory / name
        if is_current(_FINGERPRINT.findall(self._send(f"show ssl {kind} {path}"))):
            return
        answers = [
            self._send(f"set ssl {kind} {path} <<\n{path.read_text('ascii')}"),
            self._send(f"commit ssl {kind} {path}"),
        ]
        if "Success!" not in answers[-1]:
            reason = " ".join(" ".join(answers).split())
            raise RelayError(f"the relay keeps its old {name}: {reason}")
        self._log.info("relay-certificate-replaced", file=name)

    def _resolve_peer(self) -> None:
        """Give the relay the current address of its peers' name; leave it as it is while the name is unknown."""
        peer = _find_server(self._send(f"show servers state {_PEER_BACKEND}"), _PEER)
        try:
            found = socket.getaddrinfo(peer["srv_fqdn"], None, type=socket.SOCK_STREAM)
        except (KeyError, socket.gaierror):
            return
        addresses = [str(address[0]) for *_, address in found]
        if peer["srv_addr"] not in addresses:
            answer = self._send(f"set server {_PEER_BACKEND}/{_PEER} addr {addresses[0]}")
            self._log.info("relay-peer-changed", message=" ".join(answer.split()))

    def _send(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT_SECONDS)
            connection.connect(str(self._directory / _SOCKET))
            connection.sendall(f"{command}\n".encode("ascii"))
            connection.shutdown(socket.SHUT_WR)
            return b"".join(_receive(connection)).decode("ascii", "replace")


def _receive(connection: socket.socket) -> Iterator[bytes]:
    received = 0
    while part := connection.recv(_RECEIVE_BYTES):
        received += len(part)
        if received > _MAX_ANSWER_BYTES:
            raise RelayError("the relay answers more than 1 MiB")
        yield part


def _find_server(state: str, name: str) -> dict[str, str]:
    """Return the columns of a server in an answer to `show servers state`; empty without such a server."""
    rows = [line.removeprefix("# ").split() for line in state.splitlines()[1:] if line]
    servers = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
    return next((server for server in servers if server.get("srv_name") == name), {})


def _remove_empty_lines(pem: bytes) -> bytes:
    """Return PEM without empty lines: one would end the command that contains it."""
    return b"".join(line + b"\n" for line in map(bytes.strip, pem.splitlines()) if line)


def _join_lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _compute_fingerprints(pem: bytes) -> list[str]:
    """Return the SHA-1 of each certificate, by which HAProxy names them."""
    digest = hashes.SHA1()  # noqa: S303  a name, which protects nothing
    return [certificate.fingerprint(digest).hex().upper() for certificate in x509.load_pem_x509_certificates(pem)]
