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

from certs.api import Api, ApiError
from certs.configurations import KINDS, collection
from certs.in_cluster import secrets_in

_LASTS: Final = 300  # seconds; the API server ends a watch then
_SILENT: Final = _LASTS + 60.0  # seconds, until a connection that says nothing is given up
_REST: Final = 1.0  # seconds after a watch has ended; whoever begins another is told what there is, so nothing is lost
_AGAIN: Final = 10.0  # seconds after one that was refused or broke
_PIECE: Final = 1 << 16
_JOIN_SECONDS: Final = 1.0


class Watching:
    """A thread for each of the three objects; `changed` is called by any of them. It can be begun once."""

    def __init__(self, api: Api, secret: tuple[str, str], registration: str, changed: Callable[[], None]) -> None:
        self._api = api
        self._changed = changed
        self._stop = Event()
        self._lock = Lock()
        self._open: set[BaseHTTPResponse] = set()
        self._failures: dict[str, str] = {}
        namespace, name = secret
        watched = [(f"Secret {namespace}/{name}", secrets_in(namespace), name)]
        watched += [(f"{kind} {registration}", collection(kind), registration) for kind in KINDS]
        self._threads = [
            Thread(target=self._follow, args=each, name="certificates-watch", daemon=True) for each in watched
        ]

    def begin(self) -> None:
        """Watch from now on; what is there already is told as well."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Break off what is under way; a connection that is just being made is not waited for."""
        self._stop.set()
        with self._lock:
            for response in self._open:
                _break(response)
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    @property
    def failure(self) -> str:
        """Why not all are watched; empty when they are."""
        with self._lock:
            return next(iter(self._failures.values()), "")

    def _follow(self, what: str, path: str, name: str) -> None:
        while not self._stop.is_set():
            failure = ""
            try:
                self._listen(what, path, name)
            except ApiError as error:
                failure = str(error.explained(f"watch the {what}"))
            except HTTPError as error:
                failure = str(self._api.broken(error).explained(f"watch the {what}"))
            except Exception as error:  # noqa: BLE001  # whatever it is, a thread that ends is a watch that ends
                failure = f"the {what} cannot be watched: {type(error).__name__}"
            if failure:
                self._note(what, failure)
            self._stop.wait((_AGAIN if failure else _REST) * random.uniform(0.8, 1.2))  # noqa: S311  not secret

    def _listen(self, what: str, path: str, name: str) -> None:
        """Say of each piece that comes that something has changed: an event, or several."""
        response = self._api.watch(path, name, _LASTS, _SILENT)
        with self._lock:
            self._open.add(response)
        self._note(what, "")
        try:
            while not self._stop.is_set() and response.read1(_PIECE):
                self._changed()
        finally:
            with self._lock:
                self._open.discard(response)
            response.close()

    def _note(self, what: str, failure: str) -> None:
        with self._lock:
            self._failures.pop(what, None)
            if failure and not self._stop.is_set():
                self._failures[what] = failure


def _break(response: BaseHTTPResponse) -> None:
    with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
        response.shutdown()
