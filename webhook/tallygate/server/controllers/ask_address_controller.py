"""The controller that publishes where asks are answered, and the CAs by which clients verify that server.

Only the leader writes, and only what differs. A new CA is published long before it signs the certificate
(`ca_propagation_delay`), so that a client which reads the address again has it in time.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol
from urllib.parse import urlsplit

from tallygate.errors import TallygateError
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.ask_address_store import ASK_NAME, AskAddress

_INTERVAL_SECONDS: Final = 10.0
_JITTER: Final = 0.2


class AskAddressError(TallygateError):
    """An address that clients could not use: it is no address of HTTPS, or no CA of the server is known."""


class StoresAskAddress(Protocol):
    """A store of the address: `tallygate.state.kubernetes.ask_address_store.AskAddressStore`."""

    def read(self) -> AskAddress:
        """Return the stored address."""
        ...

    def write(self, address: AskAddress) -> None:
        """Store an address."""
        ...

    def close(self) -> None:
        """Break a request in progress."""
        ...


class AskAddressController:
    """The worker that keeps the address in a cluster.

    `read_ca_bundle` returns the CAs of the serving certificate in PEM, b"" while none is known.
    """

    def __init__(
        self,
        store: StoresAskAddress,
        url: str,
        read_ca_bundle: Callable[[], bytes],
        is_leader: Callable[[], bool],
        log: Logger,
    ) -> None:
        self._store = store
        self._url = url
        self._read_ca_bundle = read_ca_bundle
        self._is_leader = is_leader
        self._log = log
        task = WorkerTask(
            name="ask-address",
            run=self._publish,
            failure_log=FailureLog(
                partial(log.warning, "ask-address-failed"), partial(log.info, "ask-address-recovered")
            ),
            describe=lambda: {"url": url},
            interrupt=store.close,
        )
        self.worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, jitter=_JITTER))

    def _publish(self) -> bool:
        """Write what differs.

        Raises:
            TallygateError: if no CA is known, or the ConfigMap cannot be read or written; the next run tries again.
        """
        if not self._is_leader():
            return True
        bundle = self._read_ca_bundle().decode("ascii", errors="replace")
        if not bundle:
            raise AskAddressError("no CA of the serving certificate is known: add it as ca.crt next to tls.crt")
        address = AskAddress(self._url, bundle)
        if self._store.read() != address:
            self._store.write(address)
            self._log.info("ask-address-published", name=ASK_NAME, url=self._url)
        return True


def parse_ask_host(url: str) -> str:
    """Return the host of an address of asks.

    Raises:
        AskAddressError: if it is no address of HTTPS without a path, to which a client could send a token.
    """
    try:
        parts = urlsplit(url)
        host, is_plain = parts.hostname or "", not (parts.path.strip("/") or parts.query or parts.fragment)
        _ = parts.port  # raises if it is no port
    except ValueError:
        host, is_plain = "", False
    if not host or not is_plain or parts.scheme != "https" or parts.username is not None:
        raise AskAddressError(
            f"ask_url {url!r}: write https://HOST:PORT, as in https://{ASK_NAME}.tallygate-system.svc:443"
        )
    return host
