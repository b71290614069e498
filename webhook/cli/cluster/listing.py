"""One whole list of a resource, page by page: at one revision, or not at all."""

from collections.abc import Iterator
from typing import TypeVar

from webhook.cli.progress import growing
from webhook.errors import TallygateError
from webhook.state.watch.events import Replaced, Row
from webhook.state.watch.failure import LIST_ANEW, Reason, WatchError
from webhook.state.watch.ports import Transport
from webhook.state.watch.wire import Page, Reading, refused

W = TypeVar("W")
R = TypeVar("R", bound=Row)

_PAGE = 500
_TIMES = (1, 4, 16)
"""A list that expires between two pages is begun anew, with pages so many times larger (docs/watching.md)."""
_OK = 200
_NOT_FOUND = 404


class ListingError(TallygateError):
    """A resource cannot be listed; `cause` is why."""

    def __init__(self, text: str, cause: WatchError) -> None:
        super().__init__(text)
        self.cause = cause


class UnservedError(ListingError):
    """The API server knows no such resource."""


def listed(transport: Transport, reading: Reading[W, R], where: str, page: int = _PAGE) -> Replaced[R]:
    """Everything there is of a resource; without a `resourceVersion` in the query this is a quorum read.

    `page` is how many objects are asked for at a time.

    Raises:
        UnservedError: the API server knows no such resource.
        ListingError: it cannot be listed; the text names it, and `where` that was tried.
    """
    sizes = (page * times for times in _TIMES)
    size = next(sizes)
    while True:
        try:
            return _whole(_pages(transport, reading, where, size))
        except WatchError as failure:
            larger = next(sizes, None) if failure.reason in LIST_ANEW else None
            if larger is None:
                raise ListingError(f"{reading.name} cannot be listed at {where}: {failure}", failure) from failure
            size = larger


def _whole(pages: Iterator[Page[R]]) -> Replaced[R]:
    items: list[R] = []
    revision = 0
    for page in pages:
        items += page.items
        revision = page.revision
    return Replaced(items, revision)


def _pages(transport: Transport, reading: Reading[W, R], where: str, size: int) -> Iterator[Page[R]]:
    """The pages of one list, told on stderr when they take long."""
    return growing(f"listing {reading.name}", _asked(transport, reading, where, size), lambda page: len(page.items))


def _asked(transport: Transport, reading: Reading[W, R], where: str, size: int) -> Iterator[Page[R]]:
    query, first = {"limit": f"{size}"}, None
    while True:
        answer = transport.get(reading.path, query)
        if answer.status == _NOT_FOUND:
            failure = refused(answer)
            raise UnservedError(f"there are no {reading.name} at {where}: {failure}", failure)
        if answer.status != _OK:
            raise refused(answer)
        page = reading.page(answer.body)
        first = first or page.revision
        if page.revision != first:
            raise WatchError(Reason.INCONSISTENT, f"a list went on at revision {page.revision} instead of {first}")
        yield page
        if not page.more:
            return
        if page.more == query.get("continue"):
            raise WatchError(Reason.UNREADABLE, f"a list of {reading.name} that does not end")
        query = {"limit": f"{size}", "continue": page.more}
