"""Complete lists for commands: with a progress line, and with errors that name the resource and the API server."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import msgspec

from tallygate.cli.progress import track_size
from tallygate.cluster.kinds import CREATOR_RESOURCES, EVENT, create_list_path
from tallygate.cluster.rejected_pods import FAILED_CREATE
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient
from tallygate.kube.pagination import PAGE_SIZE, list_all, list_raw_pages
from tallygate.kube.resource_codec import Page, Replaced, ResourceCodec, ResourceRecord

W = TypeVar("W")
R = TypeVar("R", bound=ResourceRecord)

_NOT_FOUND = 404


class ListError(TallygateError):
    """A failure to list a resource; `cause` is the reason."""

    def __init__(self, text: str, cause: ApiError) -> None:
        super().__init__(text)
        self.cause = cause


class UnknownResourceError(ListError):
    """A resource that the API server does not serve."""


def list_resource(client: ApiClient, codec: ResourceCodec[W, R], page_size: int = PAGE_SIZE) -> Replaced[R]:
    """Return all objects of a resource; if that takes long, show the number of listed objects on stderr.

    Raises:
        UnknownResourceError: if the API server does not serve the resource.
        ListError: if the list fails; the text names the resource and the API server.
    """
    track_pages = partial(track_size, f"listing {codec.name}", get_size=_count_items)
    try:
        return list_all(client, codec, page_size, track_pages)
    except ApiError as failure:
        if failure.status == _NOT_FOUND:
            raise UnknownResourceError(f"there are no {codec.name} at {client.server}: {failure}", failure) from failure
        raise ListError(f"{codec.name} cannot be listed at {client.server}: {failure}", failure) from failure


def list_creators(
    client: ApiClient, report_forbidden: Callable[[str, ApiError], None]
) -> Iterator[tuple[str, msgspec.Raw]]:
    """Yield kind and JSON of the objects that tell which pods controllers could not create, and of their events.

    If a list takes long, show the number of listed objects on stderr.

    Raises:
        ListError: if a list fails for another reason than a missing permission.
    """
    for version, resource, kind in CREATOR_RESOURCES:
        selectors = {"fieldSelector": f"reason={FAILED_CREATE}"} if kind == EVENT else None
        try:
            pages = list_raw_pages(client.get, create_list_path(version, resource), PAGE_SIZE, None, selectors)
            for page in track_size(f"listing {resource}", pages, len):
                yield from ((kind, item) for item in page)
        except ApiError as failure:
            if failure.reason is not ApiErrorReason.FORBIDDEN:
                raise ListError(f"{resource} cannot be listed at {client.server}: {failure}", failure) from failure
            report_forbidden(resource, failure)


def _count_items(page: Page[R]) -> int:
    return len(page.items)
