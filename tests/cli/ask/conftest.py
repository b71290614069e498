"""The environment of those who ask: nothing of it names a gate or a cluster."""

import pytest

from tallygate.cli.ask.gate_address import CA_VARIABLE, URL_VARIABLE


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each case without the variables of the process that runs the tests."""
    for name in (URL_VARIABLE, CA_VARIABLE, "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
