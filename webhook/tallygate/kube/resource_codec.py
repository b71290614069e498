"""Decoders of list pages and watch events, and the events that a reflector yields, in the order of application.

The codec converts each object to a record as soon as its page is decoded: at most one page is in memory as objects.
"""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.transport import Response


class ResourceRecord(Protocol):
    """The common fields of all stored objects; `revision` is that of the last change."""

    @property
    def uid(self) -> str:
        """UID of the object; no other object ever has it."""
        ...

    @property
    def namespace(self) -> str:
        """Namespace of the object, or an empty string."""
        ...

    @property
    def name(self) -> str:
        """Name of the object; a later object may have the same name."""
        ...

    @property
    def revision(self) -> int:
        """Revision of the last change."""
        ...


R_co = TypeVar("R_co", bound=ResourceRecord, covariant=True)


class Replaced(NamedTuple, Generic[R_co]):
    """A complete list at one revision: other objects do not exist. It shows no deletions and no deletion times."""

    items: Sequence[R_co]
    revision: int


class Changed(NamedTuple, Generic[R_co]):
    """The creation or change of an object; `is_new` says which where a watch delivers it."""

    item: R_co
    revision: int
    is_new: bool = False


class Deleted(NamedTuple, Generic[R_co]):
    """The deletion of an object: `item` is its last state, `revision` that of the deletion."""

    item: R_co
    revision: int


class Bookmark(NamedTuple):
    """The statement that nothing else has changed up to this revision."""

    revision: int


WatchEvent = Replaced[R_co] | Changed[R_co] | Deleted[R_co] | Bookmark


W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

_MAX_REVISION_DIGITS = 19  # etcd's revisions are int64
_MAX_MESSAGE_CHARACTERS = 500  # limits the message of a server
_REASON_BY_STATUS = {
    401: ApiErrorReason.UNAUTHORIZED,
    403: ApiErrorReason.FORBIDDEN,
    404: ApiErrorReason.ABSENT,
    410: ApiErrorReason.EXPIRED,
    429: ApiErrorReason.BUSY,
}
_SERVER_ERROR = 500
_PHRASES = {each.value: each.phrase for each in HTTPStatus}


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
    """A page of a list; `continue_token` requests the next page and is empty on the last."""

    items: list[R]
    revision: int
    continue_token: str


class ResourceCodec(Generic[W, R]):
    """The decoder of one resource: `name` for people, `path` of its list, object type and record constructor.

    `create_record` raises ValueError for an object without the fields that every stored object has. Not every API
    server knows a resource that `is_optional`; its store is then empty.
    """

    def __init__(
        self, name: str, path: str, object_type: type[W], create_record: Callable[[W], R], *, is_optional: bool = False
    ) -> None:
        self.name = name
        self.path = path
        self.is_optional = is_optional
        self.create_record = create_record
        self._page_decoder = msgspec.json.Decoder(_List[object_type])  # type: ignore[valid-type]  # a type at run time, which mypy does not know
        self._object_decoder = msgspec.json.Decoder(object_type)

    def decode_page(self, body: bytes) -> Page[R]:
        """Decode a page.

        Raises:
            ApiError: if the body is not a page of this resource.
        """
        try:
            page: _List[W] = self._page_decoder.decode(body)
            items = [self.create_record(item) for item in page.items or ()]
            return Page(items, parse_revision(page.metadata.resource_version), page.metadata.continue_)
        except (ValueError, RecursionError) as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"a page that is no list of {self.name}: {error}") from None

    def decode_event(self, line: bytes) -> Changed[R] | Deleted[R] | Bookmark:
        """Decode one line of a watch.

        Raises:
            ApiError: if the line is not an event, or is an event that ends the watch.
        """
        try:
            event = _EVENT_DECODER.decode(line)
            if event.type == "ERROR":
                raise create_status_error(_STATUS_DECODER.decode(event.object))
            if event.type == "BOOKMARK":
                return Bookmark(parse_revision(_BOOKMARK_DECODER.decode(event.object).metadata.resource_version))
            record = self.create_record(self._object_decoder.decode(event.object))
        except (ValueError, RecursionError) as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"a line that is no event of {self.name}: {error}") from None
        if event.type in ("ADDED", "MODIFIED"):
            return Changed(record, record.revision, event.type == "ADDED")
        if event.type == "DELETED":
            return Deleted(record, record.revision)
        raise ApiError(ApiErrorReason.UNREADABLE, f"an event of type {event.type[:40]!r}, which no watch has")


_EVENT_DECODER = msgspec.json.Decoder(_Event)
_STATUS_DECODER = msgspec.json.Decoder(_Status)
_BOOKMARK_DECODER = msgspec.json.Decoder(_BookmarkObject)


def parse_revision(text: str) -> int:
    """Parse a resource version as a number: they are decimal and grow (apimachinery util/resourceversion, v1.36).

    Raises:
        ValueError: if the text is not a resource version.
    """
    if not (text.isascii() and text.isdigit()) or text.startswith("0") or len(text) > _MAX_REVISION_DIGITS:
        raise ValueError(f"a resource version is a whole number above 0, not {text[:40]!r}")
    return int(text)


def create_response_error(response: Response) -> ApiError:
    """Create the error for a response other than 200, with the message of the server if the response has one."""
    try:
        status = _STATUS_DECODER.decode(response.body)
    except (ValueError, RecursionError):
        status = _Status()
    return create_status_error(msgspec.structs.replace(status, code=response.status), response.retry_after)


def create_status_error(status: _Status, retry_after: float | None = None) -> ApiError:
    """Create the error for a Status."""
    reason = (
        ApiErrorReason.SERVER_ERROR
        if status.code >= _SERVER_ERROR
        else _REASON_BY_STATUS.get(status.code, ApiErrorReason.REFUSED)
    )
    if retry_after is None and status.details is not None:
        retry_after = status.details.retry_after_seconds
    text = (status.message or _PHRASES.get(status.code) or "no reason given")[:_MAX_MESSAGE_CHARACTERS]
    return ApiError(
        reason,
        f"the API server says {status.code}: {text}",
        retry_after,
        status=status.code,
        may_be_applied=status.code >= _SERVER_ERROR,
        detail=text,
    )
