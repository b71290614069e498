"""The provider of the control plane on this machine, with a simulated node, and the gate as a process beside them."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.gates.process import GateProcess
from e2e.local.cluster import LocalCluster
from e2e.local.nodes import add_nodes, node
from e2e.ports import Site

_NODE = "four-dongles"
_IMAGE = "example.com/none:1"  # KWOK pulls nothing


@contextmanager
def local() -> Iterator[Site]:
    """Start everything; the gate is stopped and not registered.

    Raises:
        BuildError: if the programs cannot be had on this machine.
        ClusterError: if something does not start.
    """
    with LocalCluster() as cluster:
        add_nodes(cluster, node(_NODE, {"example.com/dongle": "4"}))
        gate = GateProcess(cluster.folder / "gate", new_process=True)
        try:
            yield Site(cluster, gate, _NODE, _IMAGE)
        finally:
            gate.stop()
