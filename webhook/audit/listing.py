"""The lists of an audit: the audited kinds in their order, the pages of their lists, and the nodes of the cluster.

One page is in memory at a time. Unlike the list before a watch, the pages of a list need not be of one revision: if the
revision of the first page has expired (410), the API server offers a token to continue at the present one
(k8s.io/apiserver pkg/storage/etcd3/errors.go, v1.36), and the reader uses it. No object is listed twice then, since
pages are ordered by name; the next audit sees an object that was created meanwhile with a name before the next page.

The nodes are listed for one audit, so the audit does not block the readers of the watched nodes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.ingest import ingest
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission.kinds import REVIEW_TARGETS
from webhook.errors import TallygateError
from webhook.gate.schedulability import FixedSnapshot
from webhook.kube.api_errors import ApiErrorReason, WatchError
from webhook.kube.resource_codec import create_response_error
from webhook.kube.transport import Response, Transport

POD: Final = ("", "Pod")
NODE: Final = ("", "Node")
_TOP_LEVEL_CONTROLLERS = (("batch", "CronJob"), ("apps", "Deployment"))
_CONTROLLED_KINDS = (("apps", "ReplicaSet"), ("batch", "Job"))

KINDS_IN_ORDER: tuple[tuple[str, str], ...] = (
    *_TOP_LEVEL_CONTROLLERS,
    *sorted(key for key in REVIEW_TARGETS if key not in {*_TOP_LEVEL_CONTROLLERS, *_CONTROLLED_KINDS, POD}),
    *_CONTROLLED_KINDS,
)
"""The evaluated kinds except pods, which come last: an owner comes before the objects that it owns."""

GROUPS_BY_KIND = {kind: group for group, kind in REVIEW_TARGETS}
"""The API group of each evaluated kind; no two of them share a name."""


def format_api_version(group: str) -> str:
    """Return the `apiVersion` of an object of an API group."""
    return f"{group}/v1" if group else "v1"


def create_list_path(key: tuple[str, str], namespace: str = "") -> str:
    """Return the path of the list of a kind, of all namespaces or of one."""
    group, _ = key
    namespace_path = f"/namespaces/{namespace}" if namespace else ""
    return f"{f'/apis/{group}/v1' if group else '/api/v1'}{namespace_path}/{REVIEW_TARGETS[key].plural}"


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

WaitFunction = Callable[[float], None]
"""Waits for a number of seconds; may raise, to end the caller's work."""


class AuditError(TallygateError):
    """A failure of the audit; the text names the object, the reason and the remedy."""


class ListForbiddenError(AuditError):
    """A failure of the audit because the API server forbids a list."""


class _ListMeta(msgspec.Struct, rename="camel", frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _ListPage(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _ExpiredStatus(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()


_LIST_DECODER = msgspec.json.Decoder(_ListPage)
_STATUS_DECODER = msgspec.json.Decoder(_ExpiredStatus)


class PageReader:
    """A reader of lists, `size` objects at a time; it retries transient failures, such as those of a busy API server.

    `server` is the name of the API server in errors.
    """

    def __init__(self, transport: Transport, server: str, size: int, wait: WaitFunction) -> None:
        self._transport = transport
        self._server = server
        self._size = size
        self._wait = wait

    def list_pages(self, path: str) -> Iterator[list[msgspec.Raw]]:
        """Yield the pages of a list, no page if the API server does not serve the resource.

        Raises:
            ListForbiddenError: if the API server forbids the list.
            AuditError: if the list fails in another way.
        """
        continue_token, continued = "", 0
        while True:
            response = self._get_with_retry(
                path, {"limit": f"{self._size}", **({"continue": continue_token} if continue_token else {})}
            )
            if response.status == _NOT_FOUND:
                return
            if (
                response.status == _EXPIRED
                and continue_token
                and (new_token := _read_continue_token(response))
                and continued < _MAX_CONTINUED
            ):
                continue_token, continued = new_token, continued + 1
                continue
            if response.status != _OK:
                raise self._create_error(path, create_response_error(response))
            page = self._decode_page(path, response)
            yield page.items or []
            if not page.metadata.continue_:
                return
            if page.metadata.continue_ == continue_token:
                raise AuditError(f"{path} cannot be listed at {self._server}: its list does not end")
            continue_token = page.metadata.continue_

    def _get_with_retry(self, path: str, query: dict[str, str]) -> Response:
        pauses = iter(_RETRY_PAUSES)
        while True:
            try:
                response = self._transport.get(path, query)
                failure = None if response.status in {_OK, _NOT_FOUND, _EXPIRED} else create_response_error(response)
            except WatchError as error:
                failure = error
            if failure is None:
                return response
            pause = next(pauses, None)
            if pause is None or failure.reason not in _TRANSIENT_REASONS:
                raise self._create_error(path, failure)
            self._wait(pause if failure.retry_after is None else min(failure.retry_after, _MAX_PAUSE))

    def _decode_page(self, path: str, response: Response) -> _ListPage:
        try:
            return _LIST_DECODER.decode(response.body)
        except (ValueError, RecursionError) as error:
            raise AuditError(f"{path} cannot be listed at {self._server}: no list came: {error}") from None

    def _create_error(self, path: str, failure: WatchError) -> AuditError:
        message = f"{path} cannot be listed at {self._server}: {failure}"
        if failure.reason is ApiErrorReason.FORBIDDEN:
            return ListForbiddenError(f"{message}; the audit must be allowed to list it")
        return AuditError(message)


def _read_continue_token(response: Response) -> str:
    """Return the token that continues an expired list, empty if the API server offers none."""
    try:
        return _STATUS_DECODER.decode(response.body).metadata.continue_
    except (ValueError, RecursionError):
        return ""


DEVICE_CLASS: Final = "DeviceClass"
_DEVICE_CLASSES: Final = "/apis/resource.k8s.io/v1/deviceclasses"


def list_nodes(pages: PageReader) -> FixedSnapshot:
    """Return the nodes without their pods, and the device classes if they may be listed.

    Without device classes, fewer problems of resources that no node advertises are reported.

    Raises:
        AuditError: if the nodes cannot be listed.
    """
    cluster, has_devices = Cluster(), True
    ingest_objects(cluster, "Node", (item for items in pages.list_pages(create_list_path(NODE)) for item in items))
    try:
        ingest_objects(cluster, DEVICE_CLASS, (item for items in pages.list_pages(_DEVICE_CLASSES) for item in items))
    except ListForbiddenError:
        has_devices = False
    return FixedSnapshot(cluster, has_pods=False, has_devices=has_devices)


def ingest_objects(cluster: Cluster, kind: str, items: Iterable[msgspec.Raw]) -> None:
    """Add objects to a cluster.

    Raises:
        AuditError: if an object does not decode as its kind.
    """
    try:
        for item in items:
            ingest(cluster, kind, item)
    except (QuantityError, ValueError) as error:
        raise AuditError(f"a {kind} is not as an API server would have stored it: {error}") from error
