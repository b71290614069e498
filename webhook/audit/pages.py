"""Pages of a list, one in memory at a time.

Unlike a list that is watched from, these need not all be of one revision: where the one that a list began at is gone
(410), the API server offers to carry on at the present (k8s.io/apiserver pkg/storage/etcd3/errors.go, v1.36), and that
is taken. No object is told twice then, since pages go by name; one that has come meanwhile, with a name before those of
the next page, is left to the next audit.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from webhook.errors import TallygateError
from webhook.state.watch.failure import Reason, WatchError
from webhook.state.watch.ports import Answer, Transport
from webhook.state.watch.wire import refused

_OK: Final = 200
_NOT_FOUND: Final = 404
_GONE: Final = 410
_PAUSES: Final = (1.0, 4.0, 15.0)
_LONGEST_PAUSE: Final = 60.0
_PASSING: Final = frozenset({Reason.BUSY, Reason.TIMEOUT, Reason.RESET, Reason.TRUNCATED, Reason.SERVER_ERROR})
_MOST_CARRIED_ON: Final = 1000  # continuations of one list: a server that always offers another is broken

Wait = Callable[[float], None]
"""Waits so many seconds; may raise, to end what goes on."""


class AuditError(TallygateError):
    """The audit cannot be done: this text says of what, why, and what would help."""


class ForbiddenError(AuditError):
    """Something may not be listed."""


class _Meta(msgspec.Struct, rename="camel", frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    metadata: _Meta
    items: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_LIST = msgspec.json.Decoder(_List)
_STATUS = msgspec.json.Decoder(_Status)


class Pages:
    """Lists what there is, `size` objects at a time. What passes is waited for: an API server that is busy, or begins.

    `server` is named where something goes wrong.
    """

    def __init__(self, transport: Transport, server: str, size: int, wait: Wait) -> None:
        self._transport = transport
        self._server = server
        self._size = size
        self._wait = wait

    def of(self, path: str) -> Iterator[list[msgspec.Raw]]:
        """The pages of a list; none where the API server knows no such resource.

        Raises:
            ForbiddenError: it may not be listed.
            AuditError: it cannot be.
        """
        more, carried_on = "", 0
        while True:
            answer = self._answer(path, {"limit": f"{self._size}", **({"continue": more} if more else {})})
            if answer.status == _NOT_FOUND:
                return
            if answer.status == _GONE and more and (anew := _offered(answer)) and carried_on < _MOST_CARRIED_ON:
                more, carried_on = anew, carried_on + 1
                continue
            if answer.status != _OK:
                raise self._failure(path, refused(answer))
            page = self._read(path, answer)
            yield page.items or []
            if not page.metadata.continue_:
                return
            if page.metadata.continue_ == more:
                raise AuditError(f"{path} cannot be listed at {self._server}: its list does not end")
            more = page.metadata.continue_

    def _answer(self, path: str, query: dict[str, str]) -> Answer:
        pauses = iter(_PAUSES)
        while True:
            try:
                answer = self._transport.get(path, query)
                failure = None if answer.status in {_OK, _NOT_FOUND, _GONE} else refused(answer)
            except WatchError as error:
                failure = error
            if failure is None:
                return answer
            pause = next(pauses, None)
            if pause is None or failure.reason not in _PASSING:
                raise self._failure(path, failure)
            self._wait(pause if failure.retry_after is None else min(failure.retry_after, _LONGEST_PAUSE))

    def _read(self, path: str, answer: Answer) -> _List:
        try:
            return _LIST.decode(answer.body)
        except (ValueError, RecursionError) as error:
            raise AuditError(f"{path} cannot be listed at {self._server}: no list came: {error}") from None

    def _failure(self, path: str, failure: WatchError) -> AuditError:
        said = f"{path} cannot be listed at {self._server}: {failure}"
        if failure.reason is Reason.FORBIDDEN:
            return ForbiddenError(f"{said}; the audit must be allowed to list it")
        return AuditError(said)


def _offered(answer: Answer) -> str:
    """The token by which a list that has expired can be carried on, if the API server offers one."""
    try:
        return _STATUS.decode(answer.body).metadata.continue_
    except (ValueError, RecursionError):
        return ""
