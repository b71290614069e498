"""The source of the state of a cluster: its API server, or a snapshot."""

from dataclasses import dataclass
from pathlib import Path

from tallygate.cli.connection import DEFAULT_CONNECTION, Connection
from tallygate.cli.sources.observed_cluster import ObservedCluster, observe_api_server, observe_snapshot
from tallygate.cli.sources.options import require_one_source


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The API server of a cluster, or a snapshot.

    Raises:
        UsageError: if the options name two sources.
    """

    connection: Connection = DEFAULT_CONNECTION
    snapshot: Path | None = None

    def __post_init__(self) -> None:
        """Check that the options name one source."""
        require_one_source(self.connection, self.snapshot)

    def read(self, *, slices: bool, nodes: bool) -> ObservedCluster:
        """Return the cluster at present, or at the time of the snapshot.

        An API server is asked for the `slices` of devices and for the unhealthy devices of `nodes` on request.

        Raises:
            ClientConfigError: if the API server is not configured.
            ListError: if the pods or namespaces cannot be listed.
            SnapshotError: if the snapshot cannot be read.
        """
        if self.snapshot:
            return observe_snapshot(self.snapshot)
        return observe_api_server(self.connection.load(), slices=slices, nodes=nodes)
