"""The source of the state of a cluster: its API server, or a snapshot."""

from dataclasses import dataclass
from pathlib import Path

from tallygate.webhook.cli.sources.kube_contexts import find_default_namespace
from tallygate.webhook.cli.sources.observed_cluster import ObservedCluster, observe_api_server, observe_snapshot
from tallygate.webhook.cli.sources.options import require_one_source
from tallygate.webhook.kube.client import ClientConfig


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """The API server of a cluster, or a snapshot.

    Raises:
        UsageError: if the options name two sources.
    """

    kubeconfig: Path | None = None
    context: str | None = None
    in_cluster: bool = False
    snapshot: Path | None = None

    def __post_init__(self) -> None:
        """Check that the options name one source."""
        require_one_source(self.kubeconfig, self.context, in_cluster=self.in_cluster, snapshot=self.snapshot)

    def connect(self) -> ClientConfig:
        """Return the connection to the API server.

        Raises:
            ClientConfigError: if the API server is not configured.
        """
        from tallygate.webhook.kube.config import load_client_config  # noqa: PLC0415  its import is slow

        return load_client_config(self.kubeconfig, self.context, in_cluster=self.in_cluster)

    def choose_namespace(self, namespace: str | None) -> str:
        """Return the given namespace, or the default that kubectl would use.

        Raises:
            KubeconfigError: if the kubeconfig cannot be read.
        """
        return namespace or find_default_namespace(self.kubeconfig, self.context, in_cluster=self.in_cluster)

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
        return observe_api_server(self.connect(), slices=slices, nodes=nodes)
