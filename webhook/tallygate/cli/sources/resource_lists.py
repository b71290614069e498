"""Complete lists for commands: with a progress line, and with errors that name the resource and the API server."""

from functools import partial
from typing import TypeVar

from tallygate.cli.progress import track_size
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.kube.pagination import PAGE_SIZE, list_all
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


def _count_items(page: Page[R]) -> int:
    return len(page.items)
