"""The provider of a kind cluster, with the gate in it as a Deployment of an image that is built now."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from e2e.borrowed_node import borrow_node
from e2e.engine import engine
from e2e.gates.deployment import GateDeployment, Hold
from e2e.image import build_image
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
        _image(docker) as image,
        kind_cluster(docker, Path(folder)) as cluster,
    ):
        cluster.load(image)
        gate = GateDeployment(cluster, install(cluster, image), Path(folder), _hold(cluster))
        with borrow_node(cluster) as lent:
            yield Site(cluster, gate, lent.node, lent.image, lent.own)


@contextmanager
def _image(docker: str) -> Iterator[str]:
    """Build an image of this tree, and delete it afterwards."""
    tag = f"tallygate:{uuid4().hex[:12]}"
    try:
        build_image(tag, os.environ.get("BASE_IMAGE", ""))
        yield tag
    finally:
        subprocess.run([docker, "image", "rm", tag], capture_output=True, check=False)  # noqa: S603  no shell


def _hold(cluster: KindCluster) -> Hold:
    return lambda pod: cluster.node(pod["spec"]["nodeName"]).freeze(pod["metadata"]["uid"])
