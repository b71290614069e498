"""What the cases share: one control plane for the run, and a namespace for each case."""

import signal
from collections.abc import Iterator
from uuid import uuid4

import pytest

from e2e.local.cluster import LocalCluster
from e2e.local.errors import BuildError
from e2e.local.nodes import add_nodes, node

_MISUSE = 2


def pytest_configure() -> None:
    """Let SIGTERM end the run as Ctrl-C does, so that no control plane outlives it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """A control plane with one node, which has four dongles."""
    try:
        with LocalCluster() as cluster:
            add_nodes(cluster, node("four-dongles", {"example.com/dongle": "4"}))
            yield cluster
    except BuildError as error:
        pytest.exit(f"tallygate: {error}", returncode=_MISUSE)


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the case's own, which takes pods."""
    name = f"case-{uuid4().hex[:8]}"
    assert cluster.kubectl("create", "namespace", name).returncode == 0
    wait = cluster.kubectl("wait", "--for=create", "--timeout=60s", f"--namespace={name}", "serviceaccount/default")
    assert wait.returncode == 0, wait.stderr
    yield name
    cluster.kubectl("delete", "namespace", name)
