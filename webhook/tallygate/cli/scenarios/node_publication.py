"""The publication of NodeResources in a simulated cluster: the code of the gate on the nodes of the store.

Each node is compared after each step, and so the gate's pauses between corrections never matter.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import has_ended
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.cli.scenarios.api_server import ApiServerStore, ObjectKey
from tallygate.cli.scenarios.scenario import JsonObject, PublishedNode
from tallygate.gate.node_publisher import NodePublisher
from tallygate.objects.core import Pod
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.policy.node_resources import NodeResource

_MANAGER: Final = "node-resources"
_LISTS: Final = ("capacity", "allocatable")


class NodePublication:
    """The publisher of a simulated cluster."""

    def __init__(
        self, store: ApiServerStore, definitions: Sequence[NodeResource], monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._definitions = definitions
        self._publisher = NodePublisher(self, self._read_used, _MANAGER, monotonic)
        self._problems: dict[str, Mapping[str, str]] = {}

    def reconcile(self) -> None:
        """Write each node that differs from the definitions."""
        for key, body in self._store.list_objects("Node"):
            self._problems[key.name] = self._publisher.reconcile(_decode(body), self._definitions).problems

    def list_nodes(self) -> list[PublishedNode]:
        nodes = [_decode(body) for _, body in self._store.list_objects("Node")]
        return [
            PublishedNode(node.name, _read_amounts(node), self._problems.get(node.name, {}))
            for node in sorted(nodes, key=lambda each: each.name)
        ]

    def apply(self, node: OwnedNode, amounts: Mapping[str, int], *, without: Collection[str] = ()) -> OwnedNode:
        """Set amounts of a stored node and remove names, as server-side apply does."""
        key = ObjectKey("Node", "", node.name)
        body = self._store.find(key) or {}
        removed = dict.fromkeys(without)
        owned = {*node.list_applied(_MANAGER), *amounts} - removed.keys()
        texts = {name: str(amount) for name, amount in amounts.items()}
        for field in _LISTS:
            kept = {name: text for name, text in (body["status"].get(field) or {}).items() if name not in removed}
            body["status"][field] = kept | texts
        body["metadata"]["managedFields"] = [_create_entry(owned)]
        self._store.put(key, body)
        return _decode(body)

    def _read_used(self, node: str, names: Collection[str]) -> Mapping[str, int]:
        used = Amounts()
        for _, body in self._store.list_objects("Pod"):
            pod = msgspec.json.decode(msgspec.json.encode(body), type=Pod)
            if pod.spec is not None and pod.spec.node_name == node and not has_ended(pod):
                used += compute_pod_requests(pod.spec, pod.status).amounts
        return {name: used.get(name, 0) for name in names}


def _create_entry(names: Collection[str]) -> dict[str, Any]:
    fields: dict[str, object] = {f"f:{name}": {} for name in sorted(names)}
    owned = {"f:status": {f"f:{field}": fields for field in _LISTS}}
    return {"manager": _MANAGER, "operation": "Apply", "fieldsV1": owned}


def _decode(body: JsonObject) -> OwnedNode:
    return msgspec.json.decode(msgspec.json.encode(body), type=OwnedNode)


def _read_amounts(node: OwnedNode) -> Mapping[str, int]:
    return {name: int(msgspec.json.decode(raw)) for name, raw in sorted(node.list_applied(_MANAGER).items())}
