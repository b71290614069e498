"""Word of a change of the Secret or of a webhook configuration, as soon as the API server sends it.

What has changed is not read here: whoever hears of it looks. Nobody relies on being told, since he looks now and then
anyway: a watch that breaks off, is refused, or is silent for good costs time and nothing else.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Final

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from certs.api import ApiClient, ApiError
from certs.configurations import CONFIGURATION_KINDS, get_collection_path
from certs.in_cluster import get_secrets_path

_WATCH_SECONDS: Final = 300  # seconds; the API server ends a watch then
_IDLE_TIMEOUT_SECONDS: Final = _WATCH_SECONDS + 60.0  # seconds, until a connection that says nothing is given up
_RESTART_DELAY_SECONDS: Final = (
    1.0  # seconds after a watch has ended; whoever begins another is told what there is, so nothing is lost
)
_RETRY_DELAY_SECONDS: Final = 10.0  # seconds after one that was refused or broke
_CHUNK_BYTES: Final = 1 << 16
_JOIN_TIMEOUT_SECONDS: Final = 1.0


class CertificateWatch:
    """A thread for each of the three objects; `changed` is called by any of them. It can be begun once."""

    def __init__(
        self, client: ApiClient, secret: tuple[str, str], configuration_name: str, notify: Callable[[], None]
    ) -> None:
        self._client = client
        self._notify = notify
        self._stop = Event()
        self._lock = Lock()
        self._responses: set[BaseHTTPResponse] = set()
        self._failures: dict[str, str] = {}
        namespace, name = secret
        targets = [(f"Secret {namespace}/{name}", get_secrets_path(namespace), name)]
        targets += [
            (f"{kind} {configuration_name}", get_collection_path(kind), configuration_name)
            for kind in CONFIGURATION_KINDS
        ]
        self._threads = [
            Thread(target=self._watch_until_stopped, args=each, name="certificates-watch", daemon=True)
            for each in targets
        ]

    def start(self) -> None:
        """Watch from now on; what is there already is told as well."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Break off what is under way; a connection that is just being made is not waited for."""
        self._stop.set()
        with self._lock:
            for response in self._responses:
                _shut_down(response)
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT_SECONDS)

    @property
    def failure(self) -> str:
        """Why not all are watched; empty when they are."""
        with self._lock:
            return next(iter(self._failures.values()), "")

    def _watch_until_stopped(self, description: str, path: str, name: str) -> None:
        while not self._stop.is_set():
            failure = ""
            try:
                self._read_watch(description, path, name)
            except ApiError as error:
                failure = str(error.to_certs_error(f"watch the {description}"))
            except HTTPError as error:
                failure = str(self._client.convert_error(error).to_certs_error(f"watch the {description}"))
            except Exception as error:  # noqa: BLE001  # whatever it is, a thread that ends is a watch that ends
                failure = f"the {description} cannot be watched: {type(error).__name__}"
            if failure:
                self._set_failure(description, failure)
            self._stop.wait((_RETRY_DELAY_SECONDS if failure else _RESTART_DELAY_SECONDS) * random.uniform(0.8, 1.2))  # noqa: S311  not secret

    def _read_watch(self, description: str, path: str, name: str) -> None:
        """Say of each piece that comes that something has changed: an event, or several."""
        response = self._client.watch(path, name, _WATCH_SECONDS, _IDLE_TIMEOUT_SECONDS)
        with self._lock:
            self._responses.add(response)
        self._set_failure(description, "")
        try:
            while not self._stop.is_set() and response.read1(_CHUNK_BYTES):
                self._notify()
        finally:
            with self._lock:
                self._responses.discard(response)
            response.close()

    def _set_failure(self, description: str, failure: str) -> None:
        with self._lock:
            self._failures.pop(description, None)
            if failure and not self._stop.is_set():
                self._failures[description] = failure


def _shut_down(response: BaseHTTPResponse) -> None:
    with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
        response.shutdown()
