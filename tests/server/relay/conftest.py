"""A gate with its relay for each test, and a peer."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tallygate_certs.renewal import issue
from tests.server.process import NAMES, ServerProcess
from tests.server.relay.pods import Pod, copy_certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Return a folder with certificates that all gates share."""
    folder = tmp_path / "certs"
    issue(folder, NAMES, datetime.now(UTC))
    return folder


@pytest.fixture
def pod(tmp_path: Path, certificates: Path) -> Iterator[Pod]:
    """Yield a gate with its relay, without a peer."""
    with Pod(copy_certificates(certificates, tmp_path / "gate")) as running:
        yield running


@pytest.fixture
def peer(tmp_path: Path, certificates: Path) -> Iterator[ServerProcess]:
    """Yield another gate, with a certificate of the same CA."""
    with ServerProcess(copy_certificates(certificates, tmp_path / "peer")) as running:
        yield running


@pytest.fixture
def pod_with_peer(tmp_path: Path, certificates: Path, peer: ServerProcess) -> Iterator[Pod]:
    """Yield a gate with its relay, which knows a peer."""
    with Pod(copy_certificates(certificates, tmp_path / "gate"), peer.port) as running:
        yield running
