"""The complete list of a resource, page by page: at one revision, or an error."""

from collections.abc import Iterator
from typing import TypeVar

from webhook.cli.progress import track_size
from webhook.errors import TallygateError
from webhook.kube.api_errors import RELIST_REASONS, ApiErrorReason, WatchError
from webhook.kube.resource_codec import Page, Replaced, ResourceCodec, ResourceRecord, create_response_error
from webhook.kube.transport import Transport

W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

_PAGE_SIZE = 500
_PAGE_SIZE_FACTORS = (1, 4, 16)
"""The factors of the page size: a list that expires between two pages is repeated with the next (docs/watches.md)."""
_OK = 200
_NOT_FOUND = 404


class ListError(TallygateError):
    """A failure to list a resource; `cause` is the reason."""

    def __init__(self, text: str, cause: WatchError) -> None:
        super().__init__(text)
        self.cause = cause


class UnknownResourceError(ListError):
    """A resource that the API server does not serve."""


def list_all(transport: Transport, codec: ResourceCodec[W, R], server: str, page_size: int = _PAGE_SIZE) -> Replaced[R]:
    """Return all objects of a resource; without a `resourceVersion` in the query this is a live read.

    `page_size` is the number of objects in each request.

    Raises:
        UnknownResourceError: if the API server does not serve the resource.
        ListError: if the list fails; the text names the resource and `server`.
    """
    sizes = (page_size * factor for factor in _PAGE_SIZE_FACTORS)
    size = next(sizes)
    while True:
        try:
            return _collect(_track_pages(transport, codec, server, size))
        except WatchError as failure:
            larger = next(sizes, None) if failure.reason in RELIST_REASONS else None
            if larger is None:
                raise ListError(f"{codec.name} cannot be listed at {server}: {failure}", failure) from failure
            size = larger


def _collect(pages: Iterator[Page[R]]) -> Replaced[R]:
    items: list[R] = []
    revision = 0
    for page in pages:
        items += page.items
        revision = page.revision
    return Replaced(items, revision)


def _track_pages(transport: Transport, codec: ResourceCodec[W, R], server: str, size: int) -> Iterator[Page[R]]:
    """Return the pages of one list, with a progress line on stderr if they take long."""
    return track_size(
        f"listing {codec.name}", _request_pages(transport, codec, server, size), lambda page: len(page.items)
    )


def _request_pages(transport: Transport, codec: ResourceCodec[W, R], server: str, size: int) -> Iterator[Page[R]]:
    query, first_revision = {"limit": f"{size}"}, None
    while True:
        response = transport.get(codec.path, query)
        if response.status == _NOT_FOUND:
            failure = create_response_error(response)
            raise UnknownResourceError(f"there are no {codec.name} at {server}: {failure}", failure)
        if response.status != _OK:
            raise create_response_error(response)
        page = codec.decode_page(response.body)
        first_revision = first_revision or page.revision
        if page.revision != first_revision:
            raise WatchError(
                ApiErrorReason.INCONSISTENT, f"a list went on at revision {page.revision} instead of {first_revision}"
            )
        yield page
        if not page.continue_token:
            return
        if page.continue_token == query.get("continue"):
            raise WatchError(ApiErrorReason.UNREADABLE, f"a list of {codec.name} that does not end")
        query = {"limit": f"{size}", "continue": page.continue_token}
