"""Pages and watch events as bytes, read into plain values.

Each object is digested into a row as soon as its page is decoded: no more than one page is in memory as objects.
"""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from webhook.state.watch.events import Bookmark, Changed, Deleted, Row
from webhook.state.watch.failure import Reason, WatchError
from webhook.state.watch.ports import Answer

W = TypeVar("W")
R = TypeVar("R", bound=Row)

_LONGEST_REVISION = 19  # digits; etcd's are int64
_MOST_TOLD = 500  # characters of a server's message
_REASONS = {
    401: Reason.UNAUTHORIZED,
    403: Reason.FORBIDDEN,
    404: Reason.ABSENT,
    410: Reason.EXPIRED,
    429: Reason.BUSY,
}
_SERVER_ERROR = 500


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, Generic[W], frozen=True):
    metadata: _ListMeta
    items: list[W] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel", frozen=True):
    resource_version: str


class _BookmarkObject(msgspec.Struct, frozen=True):
    metadata: _BookmarkMeta


class _StatusDetails(msgspec.Struct, rename="camel", frozen=True):
    retry_after_seconds: int | None = None


class _Status(msgspec.Struct, frozen=True):
    message: str | None = None
    code: int = 0
    details: _StatusDetails | None = None


class Page(NamedTuple, Generic[R]):
    """A page of a list; `more` asks for the next one, and is empty on the last."""

    items: list[R]
    revision: int
    more: str


class Reading(Generic[W, R]):
    """How one resource is read: `name` for people, `path` of its list, the type of its objects, and their digest.

    The digest raises ValueError for an object that lacks what every stored object has. One that `may_be_absent` is not
    known to every API server: there are none of it then.
    """

    def __init__(
        self, name: str, path: str, wire: type[W], digest: Callable[[W], R], *, may_be_absent: bool = False
    ) -> None:
        self.name = name
        self.path = path
        self.may_be_absent = may_be_absent
        self._digest = digest
        self._page = msgspec.json.Decoder(_List[wire])  # type: ignore[valid-type]  # a type at run time, which mypy does not know
        self._object = msgspec.json.Decoder(wire)

    def page(self, body: bytes) -> Page[R]:
        """Read a page.

        Raises:
            WatchError: it is none.
        """
        try:
            listed: _List[W] = self._page.decode(body)
            items = [self._digest(item) for item in listed.items or ()]
            return Page(items, revision_of(listed.metadata.resource_version), listed.metadata.continue_)
        except (ValueError, RecursionError) as error:
            raise WatchError(Reason.UNREADABLE, f"a page that is no list of {self.name}: {error}") from None

    def event(self, line: bytes) -> Changed[R] | Deleted[R] | Bookmark:
        """Read one line of a watch.

        Raises:
            WatchError: it is no event, or one that ends the watch.
        """
        try:
            event = _EVENT.decode(line)
            if event.type == "ERROR":
                raise failure_of(_STATUS.decode(event.object))
            if event.type == "BOOKMARK":
                return Bookmark(revision_of(_BOOKMARK.decode(event.object).metadata.resource_version))
            row = self._digest(self._object.decode(event.object))
        except (ValueError, RecursionError) as error:
            raise WatchError(Reason.UNREADABLE, f"a line that is no event of {self.name}: {error}") from None
        if event.type in ("ADDED", "MODIFIED"):
            return Changed(row, row.revision)
        if event.type == "DELETED":
            return Deleted(row, row.revision)
        raise WatchError(Reason.UNREADABLE, f"an event of type {event.type[:40]!r}, which is none of a watch")


_EVENT = msgspec.json.Decoder(_Event)
_STATUS = msgspec.json.Decoder(_Status)
_BOOKMARK = msgspec.json.Decoder(_BookmarkObject)


def revision_of(text: str) -> int:
    """A resource version as a number: they are decimal and grow (apimachinery util/resourceversion, v1.36).

    Raises:
        ValueError: it is none.
    """
    if not (text.isascii() and text.isdigit()) or text.startswith("0") or len(text) > _LONGEST_REVISION:
        raise ValueError(f"a resource version is a whole number above 0, not {text[:40]!r}")
    return int(text)


def refused(answer: Answer) -> WatchError:
    """What an answer other than 200 means, in the server's own words where it has any."""
    try:
        status = _STATUS.decode(answer.body)
    except (ValueError, RecursionError):
        status = _Status()
    return failure_of(msgspec.structs.replace(status, code=answer.status), answer.retry_after)


def failure_of(status: _Status, retry_after: float | None = None) -> WatchError:
    """The failure that a Status tells of."""
    reason = Reason.SERVER_ERROR if status.code >= _SERVER_ERROR else _REASONS.get(status.code, Reason.REFUSED)
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    text = (status.message or "no reason given")[:_MOST_TOLD]
    return WatchError(reason, f"the API server says {status.code}: {text}", retry_after)
