"""The provider of a kind cluster, with the gate in it as a Deployment of an image that is built now."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from e2e.borrowed_node import borrow_node
from e2e.engine import engine
from e2e.gates.deployment import GateDeployment, Hold
from e2e.image import build_image, temporary_image
from e2e.installing import install
from e2e.kind.cluster import KindCluster, kind_cluster, kind_command
from e2e.ports import Site


@contextmanager
def kind() -> Iterator[Site]:
    """Build the image on `BASE_IMAGE`, make the cluster and install the gate; it is stopped and not registered.

    Raises:
        BuildError: if there is no container engine here or no kind, or the image cannot be built.
        ClusterError: if something does not start.
    """
    docker = engine()
    kind_command()  # so that a missing kind is reported before the image is built
    with (
        TemporaryDirectory(prefix="tallygate-kind-") as folder,
        temporary_image("tallygate", build_image) as image,
        kind_cluster(docker, Path(folder)) as cluster,
    ):
        cluster.load(image)
        gate = GateDeployment(cluster, install(cluster, image), Path(folder), _hold(cluster))
        with borrow_node(cluster) as lent:
            yield Site(cluster, gate, lent.node, lent.image, lent.own)


def _hold(cluster: KindCluster) -> Hold:
    return lambda pod: cluster.node(pod["spec"]["nodeName"]).freeze(pod["metadata"]["uid"])
