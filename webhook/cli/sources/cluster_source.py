"""Where the state of a cluster comes from."""

from dataclasses import dataclass
from pathlib import Path

from webhook.cli.sources.observed_cluster import ObservedCluster, observe_api_server, observe_snapshot
from webhook.cli.sources.options import require_one_source
from webhook.state.watch.connect import Connection, connect, connect_in_cluster


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A cluster's API server, or a snapshot.

    Raises:
        Misuse: two are meant.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    snapshot: Path | None = None

    def __post_init__(self) -> None:
        """Check that one is meant."""
        require_one_source(self.kubeconfig, self.context, in_cluster=self.in_cluster, snapshot=self.snapshot)

    def connect(self) -> Connection:
        """The API server.

        Raises:
            ConnectError: nothing says where it is.
        """
        return connect_in_cluster() if self.in_cluster else connect(self.kubeconfig, self.context)

    def read(self) -> ObservedCluster:
        """What is there now, or was when the snapshot was taken.

        Raises:
            ConnectError: nothing says where the API server is.
            ListingError: it does not say what is there.
            SnapshotError: the snapshot cannot be read.
        """
        return observe_snapshot(self.snapshot) if self.snapshot else observe_api_server(self.connect())
