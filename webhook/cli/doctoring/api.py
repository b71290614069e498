"""The API server, asked once for each thing: an answer whatever its status, with an end to every wait.

Nothing is stored by what goes through here: reviews are never stored, and pods are sent as a dry run.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from threading import Event, Timer
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from webhook.cli.command import Misuse
from webhook.cli.doctoring.facts import Unseen
from webhook.state.watch.connect import Connection
from webhook.state.watch.failure import WatchError

T = TypeVar("T")

_CONNECT_SECONDS, _READ_SECONDS = 5.0, 35.0  # a create waits for webhooks, each of them up to 30 s
_WHOLE_SECONDS = 60.0
_MOST_BYTES = 16 * 1024 * 1024
_OK, _NOT_FOUND = 200, 404
_LONGEST = 300
_PHRASES = {each.value: each.phrase for each in HTTPStatus}


class Answer(NamedTuple):
    """What was answered; `ahead` is how far the clock of who answered is ahead of ours, in seconds, if it says."""

    status: int
    body: bytes
    ahead: float | None

    @property
    def is_ok(self) -> bool:
        """Whether it is what was asked for."""
        return self.status == _OK

    def refusal(self) -> Unseen:
        """Why it is not: in the server's own words, where it has any."""
        said = self.message() or _PHRASES.get(self.status, "")
        return Unseen(" ".join(f"{self.status} {said}".split())[:_LONGEST])

    def message(self) -> str:
        """What a Status says; empty for anything else."""
        try:
            return msgspec.json.decode(self.body, type=_Status).message
        except (ValueError, RecursionError):
            return ""


class _Status(msgspec.Struct, frozen=True):
    message: str = ""


class Api:
    """One API server, asked as who the kubeconfig says."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def server(self) -> str:
        """Its URL."""
        return self._connection.server

    def reached(self) -> Answer:
        """Its version, which anybody may ask.

        Raises:
            Misuse: it cannot be reached, or does not know who asks.
        """
        answer = self.get("/version")
        if isinstance(answer, Unseen) or not answer.is_ok:
            why = answer if isinstance(answer, Unseen) else answer.refusal()
            raise Misuse(f"the API server at {self.server} does not answer: {why.why}")
        return answer

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Answer | Unseen:
        """One answer, whatever its status."""
        return self._asked("GET", path, query, None)

    def post(self, path: str, body: bytes, query: Mapping[str, str] | None = None) -> Answer | Unseen:
        """The same for something that is sent as JSON."""
        return self._asked("POST", path, query, body)

    def object(self, path: str, kind: type[T]) -> T | Unseen | None:
        """One object; None where there is none."""
        answer = self.get(path)
        if isinstance(answer, Unseen):
            return answer
        return None if answer.status == _NOT_FOUND else _read(answer, kind)

    def items(self, path: str, kind: type[T], query: Mapping[str, str] | None = None) -> tuple[T, ...] | Unseen:
        """A short list, which is no larger than one page."""
        answer = self.get(path, query)
        found = answer if isinstance(answer, Unseen) else _read(answer, dict[str, msgspec.Raw])
        if isinstance(found, Unseen):
            return found
        try:
            return tuple(msgspec.json.decode(found.get("items", _NONE), type=list[kind] | None) or ())  # type: ignore[valid-type]  # a type at run time, which mypy does not know
        except (ValueError, RecursionError) as error:
            return Unseen(f"what {path} answers is not read: {error}"[:_LONGEST])

    def _asked(self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None) -> Answer | Unseen:
        try:
            headers = {**self._connection.headers(), "Accept": "application/json", "User-Agent": "tallygate-doctor"}
        except WatchError as error:
            return Unseen(str(error))
        if body is not None:
            headers["Content-Type"] = "application/json"
        url = self.server + path + (f"?{_encoded(query)}" if query else "")
        return asked(self._connection.pool, method, url, headers, body)


def asked(
    pool: urllib3.PoolManager, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> Answer | Unseen:
    """One answer of any server, whatever its status; never more than 16 MiB of it."""
    timeout, began = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS), time.time()
    try:
        response = pool.request(
            method,
            url,
            body=body,
            headers=dict(headers),
            timeout=timeout,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        ended = time.time()
        content = _content(response)
    except (HTTPError, OSError, ValueError) as error:
        return Unseen(f"{urlsplit(url).netloc} does not answer: {error}"[:_LONGEST])
    if len(content) > _MOST_BYTES:
        return Unseen(f"{urlsplit(url).path} answers with more than {_MOST_BYTES} bytes")
    return Answer(response.status, content, _ahead(response.headers.get("Date"), began, ended))


def _content(response: urllib3.BaseHTTPResponse) -> bytes:
    """What it says, as far as that comes in time; whoever goes on for ever is cut off.

    Raises:
        HTTPError, OSError: it broke off.
    """
    is_over = Event()

    def cut() -> None:
        is_over.set()
        with suppress(OSError, ValueError, RuntimeError):  # it has just ended by itself
            response.shutdown()

    end = Timer(_WHOLE_SECONDS, cut)
    end.start()
    try:
        content = response.read(_MOST_BYTES + 1)
    finally:
        end.cancel()
        response.close()
    if is_over.is_set():  # what came until then may have been read without a fault
        raise TimeoutError(f"it was not whole after {_WHOLE_SECONDS:.0f} s")
    return content


def _ahead(date: str | None, began: float, ended: float) -> float | None:
    """A Date is cut to a second, and made at some time between asking and hearing: 0 where that explains it."""
    try:
        told = parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError):
        return None
    if told + 1 < began:
        return told + 1 - began
    return told - ended if told > ended else 0.0


def _read(answer: Answer, kind: type[T]) -> T | Unseen:
    if not answer.is_ok:
        return answer.refusal()
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (ValueError, RecursionError) as error:
        return Unseen(f"what was answered is not read: {error}"[:_LONGEST])


def _encoded(query: Mapping[str, str]) -> str:
    return urlencode(query)


_NONE = msgspec.Raw(b"null")
