"""The amounts in the status of nodes, written by server-side apply with a field manager of the caller's.

Both capacity and allocatable are written. A kubelet computes allocatable from capacity at its next sync, and gets the
same amount (pkg/kubelet/nodestatus/setters.go, v1.36). A node without a kubelet, such as one of KWOK, has no other
writer of allocatable: with an amount in its capacity alone it never gets a pod that requests it.

Each write is for one version of one node: if the node has changed, nothing is written, and the caller reads it again.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient
from tallygate.kube.pagination import list_raw_pages
from tallygate.kube.resource_codec import create_response_error
from tallygate.kube.transport import Response
from tallygate.objects.owned_nodes import OwnedNode

_PATH: Final = "/api/v1/nodes"
_APPLY_PATCH: Final = "application/apply-patch+yaml"
_MERGE_PATCH: Final = "application/merge-patch+json"
_PAGE_SIZE: Final = 100  # a node has 10 to 50 kB, mostly the names of images
_DECODER: Final = msgspec.json.Decoder(OwnedNode)


class KubernetesNodeStatusStore:
    """The nodes of a cluster; each method raises `ApiError` if the API server does not answer, or refuses."""

    def __init__(self, client: ApiClient, field_manager: str) -> None:
        self._client = client
        self._field_manager = field_manager

    def read_node(self, name: str) -> OwnedNode | None:
        """Return a node, or None if it does not exist."""
        response = self._client.get(f"{_PATH}/{name}")
        return None if response.status == HTTPStatus.NOT_FOUND else _decode(response)

    def list_nodes(self, label_selector: str) -> Iterator[OwnedNode]:
        selectors = {"labelSelector": label_selector}
        for page in list_raw_pages(self._client.get, _PATH, _PAGE_SIZE, time.sleep, selectors):
            yield from map(_decode_node, page)

    def apply(
        self, node: OwnedNode, amounts: Mapping[str, int], *, without: Collection[str] = (), dry_run: bool = False
    ) -> OwnedNode | None:
        """Set amounts of a node, and return it as stored; None if it was changed since it was read.

        What the manager has applied before stays, but for the names `without`: these are removed unless another
        manager owns them too. The managers of this version of the node are known, so that the
        caller decides whether to overwrite their amounts: the API server checks nothing (`force`).
        """
        applied = {
            "capacity": node.list_applied(self._field_manager),
            "allocatable": node.list_applied(self._field_manager, allocatable=True),
        }
        texts = {name: f"{amount}" for name, amount in amounts.items()}
        status = {
            section: {name: stored for name, stored in kept.items() if name not in without} | texts
            for section, kept in applied.items()
        }
        return self._patch(node, status, _APPLY_PATCH, {"force": "true"}, dry_run=dry_run)

    def remove(self, node: OwnedNode, names: Collection[str], *, dry_run: bool = False) -> OwnedNode | None:
        """Remove amounts of any manager, and return the node as stored; None if it was changed since it was read."""
        nothing = dict.fromkeys(names)
        return self._patch(node, {"capacity": nothing, "allocatable": nothing}, _MERGE_PATCH, {}, dry_run=dry_run)

    def _patch(
        self, node: OwnedNode, status: Mapping[str, Any], content_type: str, query: Mapping[str, str], *, dry_run: bool
    ) -> OwnedNode | None:
        metadata = {
            "name": node.name, "uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version,
        }  # fmt: skip
        response = self._client.patch(
            f"{_PATH}/{node.name}/status",
            msgspec.json.encode({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}),
            {"fieldManager": self._field_manager, **query, **({"dryRun": "All"} if dry_run else {})},
            content_type=content_type,
        )
        return None if response.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND) else _decode(response)


def _decode(response: Response) -> OwnedNode:
    if response.status != HTTPStatus.OK:
        raise create_response_error(response)
    return _decode_node(response.body)


def _decode_node(content: bytes | msgspec.Raw) -> OwnedNode:
    try:
        return _DECODER.decode(content)
    except (ValueError, RecursionError) as error:
        raise ApiError(ApiErrorReason.UNREADABLE, f"no node came: {error}") from None
