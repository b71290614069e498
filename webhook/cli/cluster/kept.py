"""What a snapshot keeps of each object: what tallygate reads, and nothing else.

No environment, no command line, no image, no annotation: what is not there cannot be given away.
"""

from typing import Any, NamedTuple

import msgspec

from webhook.cli.cluster.ledgers import PATH
from webhook.cli.cluster.seen import PODS_PATH
from webhook.objects.cluster import Namespace, Node
from webhook.objects.meta import ObjectMeta
from webhook.objects.pods import Pod
from webhook.state.kubernetes import naming, wire
from webhook.state.watch.wire import Reading, revision_of


class Item(NamedTuple):
    """One object; `content` is its JSON, empty for a CapLedger that a newer tallygate has written."""

    uid: str
    namespace: str
    name: str
    revision: int
    content: bytes


def _pod(pod: Pod) -> Item:
    return _item("Pod", pod.metadata, spec=pod.spec, status=pod.status)


def _node(node: Node) -> Item:
    return _item("Node", node.metadata, status=node.status)


def _namespace(namespace: Namespace) -> Item:
    return _item("Namespace", namespace.metadata)


def _item(kind: str, meta: ObjectMeta | None, **content: Any) -> Item:
    """A stored object.

    Raises:
        ValueError: it lacks what every stored object has.
    """
    if meta is None or not meta.uid or not meta.name:
        raise ValueError(f"a {kind.lower()} without uid or name")
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        labels=meta.labels,
    )
    body = {"apiVersion": "v1", "kind": kind, "metadata": kept} | {name: each for name, each in content.items() if each}
    revision = revision_of(meta.resource_version or "")
    return Item(meta.uid, meta.namespace or "", meta.name, revision, _ENCODER.encode(body))


def _ledger(item: msgspec.Raw) -> Item:
    meta = _STORED.decode(item).metadata
    try:
        content = _ENCODER.encode(_LEDGER.decode(item))
    except ValueError:
        content = b""
    return Item(meta.uid, meta.namespace, meta.name, revision_of(meta.resource_version), content)


class _Stored(msgspec.Struct, frozen=True):
    metadata: wire.Metadata


_ENCODER = msgspec.json.Encoder()
_STORED = msgspec.json.Decoder(_Stored)
_LEDGER = msgspec.json.Decoder(wire.CapLedger)

PODS = Reading("pods", PODS_PATH, Pod, _pod)
NODES = Reading("nodes", "/api/v1/nodes", Node, _node)
NAMESPACES = Reading("namespaces", "/api/v1/namespaces", Namespace, _namespace)
LEDGERS = Reading(naming.PLURAL, PATH, msgspec.Raw, _ledger)
