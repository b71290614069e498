"""A cluster as a snapshot has it."""

from pathlib import Path

import msgspec

from webhook.cli.checking.snapshot import SNAPSHOT_HINT, SnapshotError, read_items
from webhook.cli.cluster import ledgers
from webhook.cli.cluster.ledgers import CapLedgerList, CapLedgerRecord, create_ledger_list
from webhook.cli.cluster.seen import ClusterStores, ObservedCluster
from webhook.objects.core import Namespace, Pod
from webhook.state.kubernetes import naming
from webhook.state.watch import namespaces
from webhook.state.watch.events import Replaced
from webhook.state.watch.namespaces import NamespaceRow
from webhook.state.watch.pods import PodRow
from webhook.state.watch.wire import revision_of


class _SnapshotHandler:
    """Takes objects as they come, and keeps of each what its view keeps."""

    def __init__(self) -> None:
        self.stores = ClusterStores()
        self.pods: list[PodRow] = []
        self.namespaces: list[NamespaceRow] = []
        self.ledgers: list[CapLedgerRecord] = []

    def __call__(self, kind: str, item: msgspec.Raw) -> bool:
        """Take one; ValueError for one that is not as a cluster stores it."""
        match kind:
            case "Pod":
                self.pods.append(self.stores.create_pod_record(_POD_DECODER.decode(item)))
            case "Namespace":
                self.namespaces.append(namespaces.digest(_NAMESPACE_DECODER.decode(item)))
            case naming.KIND:
                self.ledgers.append(ledgers.create_ledger_record(item))
            case "Node":
                pass
            case _:
                return False
        return True

    def get_revision(self, list_revision: str) -> int:
        """When the pods were so: what the list says, else what the newest of them does."""
        return (
            max((record.revision for record in self.pods), default=1)
            if list_revision in ("", "0")
            else revision_of(list_revision)
        )


def observe_snapshot(path: Path) -> ObservedCluster:
    """Read a snapshot, JSON or YAML.

    Raises:
        SnapshotError: the file cannot be read, holds something else, or no namespaces.
    """
    handler = _SnapshotHandler()
    list_revision = read_items(path, handler)
    if not handler.namespaces:
        raise SnapshotError(f"{path}: it holds no namespaces, and caps speak of namespaces; {SNAPSHOT_HINT}")
    try:
        revision = handler.get_revision(list_revision)
    except ValueError as error:
        raise SnapshotError(f"{path}: no snapshot: {error}; {SNAPSHOT_HINT}") from None
    handler.stores.namespaces.apply(Replaced(handler.namespaces, revision))
    handler.stores.pods.apply(Replaced(handler.pods, revision))
    cap_ledgers = create_ledger_list(handler.ledgers)
    return ObservedCluster(
        handler.stores,
        CapLedgerList(missing_reason="the snapshot has no CapLedgers") if cap_ledgers.missing_reason else cap_ledgers,
    )


_POD_DECODER = msgspec.json.Decoder(Pod)
_NAMESPACE_DECODER = msgspec.json.Decoder(Namespace)
