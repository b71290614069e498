"""A cluster as a snapshot has it."""

from pathlib import Path

import msgspec

from webhook.cli.checking.snapshot import HOW, SnapshotError, walk
from webhook.cli.cluster import ledgers
from webhook.cli.cluster.ledgers import LedgerRow, Ledgers, gathered
from webhook.cli.cluster.seen import Seen, Views
from webhook.objects.core import Namespace, Pod
from webhook.state.kubernetes import naming
from webhook.state.watch import namespaces
from webhook.state.watch.events import Replaced
from webhook.state.watch.namespaces import NamespaceRow
from webhook.state.watch.pods import PodRow
from webhook.state.watch.wire import revision_of


class _Taking:
    """Takes objects as they come, and keeps of each what its view keeps."""

    def __init__(self) -> None:
        self.views = Views()
        self.pods: list[PodRow] = []
        self.namespaces: list[NamespaceRow] = []
        self.ledgers: list[LedgerRow] = []

    def __call__(self, kind: str, item: msgspec.Raw) -> bool:
        """Take one; ValueError for one that is not as a cluster stores it."""
        match kind:
            case "Pod":
                self.pods.append(self.views.digest(_POD.decode(item)))
            case "Namespace":
                self.namespaces.append(namespaces.digest(_NAMESPACE.decode(item)))
            case naming.KIND:
                self.ledgers.append(ledgers.digest(item))
            case "Node":
                pass
            case _:
                return False
        return True

    def revision(self, said: str) -> int:
        """When the pods were so: what the list says, else what the newest of them does."""
        return max((each.revision for each in self.pods), default=1) if said in ("", "0") else revision_of(said)


def stored(path: Path) -> Seen:
    """Read a snapshot, JSON or YAML.

    Raises:
        SnapshotError: the file cannot be read, holds something else, or no namespaces.
    """
    taken = _Taking()
    said = walk(path, taken)
    if not taken.namespaces:
        raise SnapshotError(f"{path}: it holds no namespaces, and caps speak of namespaces; {HOW}")
    try:
        revision = taken.revision(said)
    except ValueError as error:
        raise SnapshotError(f"{path}: no snapshot: {error}; {HOW}") from None
    taken.views.namespaces.apply(Replaced(taken.namespaces, revision))
    taken.views.pods.apply(Replaced(taken.pods, revision))
    found = gathered(taken.ledgers)
    return Seen(taken.views, Ledgers(absent="the snapshot has no CapLedgers") if found.absent else found)


_POD = msgspec.json.Decoder(Pod)
_NAMESPACE = msgspec.json.Decoder(Namespace)
