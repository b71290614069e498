"""Servers that tests share."""

from collections.abc import Iterator

import pytest

from tests.server.process import ServerProcess


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield a server with a tiny gate, for tests that leave it unchanged."""
    with ServerProcess(tmp_path_factory.mktemp("tiny"), body_limit="1Mi", times={"idle": 90}) as server:
        yield server
