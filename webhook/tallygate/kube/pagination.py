"""Lists that arrive page by page: those of a resource at one revision, and the raw objects of a list.

Reflectors and commands read the first by `list_pages`. `list_raw_pages` is for readers that need no single revision. If
the revision of the first page has expired (410), the API server offers a token to continue at the present one
(k8s.io/apiserver pkg/storage/etcd3/errors.go, v1.36). No object is listed twice then, since pages are ordered by name;
an object that was created meanwhile may be missing.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from tallygate.kube.api_errors import RELIST_REASONS, ApiError, ApiErrorReason
from tallygate.kube.resource_codec import Page, Replaced, ResourceCodec, ResourceRecord, create_response_error
from tallygate.kube.transport import Response, Transport

P = TypeVar("P")
W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

PAGE_SIZE: Final = 500
_PAGE_SIZE_FACTORS: Final = (1, 4, 16)
"""Factors of the page size: a list that expires between two pages is read with the next (docs/design/watches.md)."""
_MAX_ITEMS: Final = 2_000_000
_ENDLESS: Final = "its list does not end"
_OK: Final = 200
_NOT_FOUND: Final = 404
_EXPIRED: Final = 410
_RETRY_PAUSES: Final = (1.0, 4.0, 15.0)
_MAX_PAUSE: Final = 60.0
_TRANSIENT_REASONS: Final = frozenset(
    {
        ApiErrorReason.BUSY,
        ApiErrorReason.TIMEOUT,
        ApiErrorReason.RESET,
        ApiErrorReason.TRUNCATED,
        ApiErrorReason.SERVER_ERROR,
    }
)
_MAX_CONTINUED: Final = 1000  # continuations of one list: a server that always offers another is broken

GetFunction = Callable[[str, Mapping[str, str]], Response]
"""Sends a GET request for a path and a query."""

WaitFunction = Callable[[float], None]
"""Waits for a number of seconds; may raise, to end the caller's work."""


def list_all(
    transport: Transport,
    codec: ResourceCodec[W, R],
    page_size: int,
    track_pages: Callable[[Iterator[Page[R]]], Iterator[Page[R]]],
) -> Replaced[R]:
    """Return all objects of a resource; without a `resourceVersion` in the query this is a live read.

    `page_size` is the number of objects in each request; the pages pass through `track_pages`.

    Raises:
        ApiError: if the list fails; the status is 404 if the API server does not serve the resource.
    """
    for factor in _PAGE_SIZE_FACTORS:
        items: list[R] = []
        revision = 0
        try:
            for page in track_pages(list_pages(transport, codec, page_size * factor)):
                items += page.items
                revision = page.revision
        except ApiError as failure:
            is_last = factor == _PAGE_SIZE_FACTORS[-1]
            if is_last or failure.status == _NOT_FOUND or failure.reason not in RELIST_REASONS:
                raise
        else:
            break
    return Replaced(items, revision)


def list_pages(transport: Transport, codec: ResourceCodec[W, R], size: int) -> Iterator[Page[R]]:
    """Yield the pages of a list at one revision, `size` objects each.

    Raises:
        ApiError: if the list fails, or goes on at another revision.
    """
    revision = count = 0

    def request(query: Mapping[str, str]) -> tuple[Page[R], str]:
        page = request_page(transport, codec, query)
        return page, page.continue_token

    for page in _follow_pages(request, size):
        revision, count = revision or page.revision, count + len(page.items)
        if page.revision != revision:
            raise ApiError(
                ApiErrorReason.INCONSISTENT, f"a list went on at revision {page.revision} instead of {revision}"
            )
        if count > _MAX_ITEMS:
            raise ApiError(ApiErrorReason.UNREADABLE, _ENDLESS)
        yield page


def request_page(transport: Transport, codec: ResourceCodec[W, R], query: Mapping[str, str]) -> Page[R]:
    """Request one page; without a `resourceVersion` in the query a list is a quorum read."""
    response = transport.get(codec.path, query)
    if response.status != _OK:
        raise create_response_error(response)
    return codec.decode_page(response.body)


def _follow_pages(
    request: Callable[[Mapping[str, str]], tuple[P, str]], size: int, selectors: Mapping[str, str] | None = None
) -> Iterator[P]:
    """Yield the pages of a list: a request returns one, and the token of the next, which is empty on the last."""
    first = {"limit": f"{size}", **(selectors or {})}
    page, token = request(first)
    yield page
    while token:
        page, next_token = request({**first, "continue": token})
        if next_token == token:
            raise ApiError(ApiErrorReason.UNREADABLE, _ENDLESS)
        yield page
        token = next_token


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _RawPage(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _ExpiredStatus(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


_PAGE_DECODER: Final = msgspec.json.Decoder(_RawPage)
_STATUS_DECODER: Final = msgspec.json.Decoder(_ExpiredStatus)


def list_raw_pages(
    get: GetFunction, path: str, size: int, wait: WaitFunction | None, selectors: Mapping[str, str] | None = None
) -> Iterator[list[msgspec.Raw]]:
    """Yield the pages of a list, `size` objects each; no page if the API server does not serve the resource.

    `selectors` are the `labelSelector` and `fieldSelector` of the list.
    Transient failures, such as those of a busy API server, are retried after `wait`; without it no request is.

    Raises:
        ApiError: if the list fails.
    """
    continued = 0

    def request(query: Mapping[str, str]) -> tuple[list[msgspec.Raw] | None, str]:
        nonlocal continued
        response = _get_with_retry(get, path, query, wait)
        if response.status == _NOT_FOUND:
            return None, ""
        if response.status == _EXPIRED:
            continued += 1
            new_token = _read_continue_token(response) if "continue" in query and continued <= _MAX_CONTINUED else ""
            if not new_token:
                raise create_response_error(response)
            return None, new_token
        try:
            page = _PAGE_DECODER.decode(response.body)
        except (ValueError, RecursionError) as error:
            raise ApiError(ApiErrorReason.UNREADABLE, f"no list came: {error}") from None
        return page.items or [], page.metadata.continue_

    for items in _follow_pages(request, size, selectors):
        if items is not None:
            yield items


def _get_with_retry(get: GetFunction, path: str, query: Mapping[str, str], wait: WaitFunction | None) -> Response:
    """Return a response with status 200, 404 or 410."""
    pauses = iter(_RETRY_PAUSES)
    while True:
        try:
            response = get(path, query)
        except ApiError as error:
            failure = error
        else:
            if response.status in {_OK, _NOT_FOUND, _EXPIRED}:
                return response
            failure = create_response_error(response)
        pause = next(pauses, None)
        if wait is None or pause is None or failure.reason not in _TRANSIENT_REASONS:
            raise failure
        wait(pause if failure.retry_after is None else min(failure.retry_after, _MAX_PAUSE))


def _read_continue_token(response: Response) -> str:
    """Return the token that continues an expired list, empty if the API server offers none."""
    try:
        return _STATUS_DECODER.decode(response.body).metadata.continue_
    except (ValueError, RecursionError):
        return ""
