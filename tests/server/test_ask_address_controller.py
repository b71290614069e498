"""The controller that publishes where asks are answered: what it writes, when it does not, and invalid addresses."""

import pytest

from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.server.controllers.ask_address_controller import AskAddressController, AskAddressError, parse_ask_host
from tallygate.server.lifecycle import ServeError
from tallygate.server.serve import serve
from tallygate.server.settings.table import Settings
from tallygate.state.kubernetes.ask_address_store import AskAddress
from tests.server.app_harness import Log

URL = "https://tallygate-ask.tallygate-system.svc:443"


class MemoryAddress:
    """A stored address; `failure` is raised by each read."""

    def __init__(self) -> None:
        self.stored = AskAddress("", "")
        self.writes = 0
        self.failure: ApiError | None = None

    def read(self) -> AskAddress:
        """Return the address."""
        if self.failure is not None:
            raise self.failure
        return self.stored

    def write(self, address: AskAddress) -> None:
        """Store an address."""
        self.stored, self.writes = address, self.writes + 1

    def close(self) -> None:
        """Do nothing: no request is in progress."""


class Publisher:
    """A controller over a memory, with CAs and leadership that a test sets."""

    def __init__(self) -> None:
        self.store, self.log = MemoryAddress(), Log()
        self.bundle, self.is_leader = b"old", True
        controller = AskAddressController(self.store, URL, lambda: self.bundle, lambda: self.is_leader, self.log.logger)
        self.worker = controller.worker

    def list_events(self) -> list[str]:
        """Return the names of the events of the log."""
        return [line["event"] for line in self.log.lines]


def test_the_address_is_written_once_and_again_when_a_ca_or_another_client_changes_it() -> None:
    publisher = Publisher()
    publisher.worker.run_once()
    publisher.worker.run_once()
    assert (publisher.store.stored, publisher.store.writes) == (AskAddress(URL, "old"), 1)
    publisher.bundle = b"new\nold"
    publisher.worker.run_once()
    assert publisher.store.stored == AskAddress(URL, "new\nold")
    publisher.store.stored = AskAddress("https://elsewhere", "new\nold")
    publisher.worker.run_once()
    assert publisher.store.stored == AskAddress(URL, "new\nold")
    assert publisher.list_events() == ["ask-address-published"] * 3


def test_a_replica_that_does_not_lead_writes_nothing() -> None:
    publisher = Publisher()
    publisher.is_leader = False
    publisher.worker.run_once()
    assert publisher.store.writes == 0


def test_without_a_ca_nothing_is_written_and_the_reason_is_shown() -> None:
    publisher = Publisher()
    publisher.bundle = b""
    publisher.worker.run_once()
    assert publisher.store.writes == 0
    assert publisher.worker.check().ready
    assert "add it as ca.crt next to tls.crt" in publisher.worker.check().detail["failure"]


def test_a_failure_is_logged_once_and_so_is_its_end() -> None:
    publisher = Publisher()
    publisher.store.failure = ApiError(ApiErrorReason.FORBIDDEN, "no right", status=403)
    publisher.worker.run_once()
    publisher.worker.run_once()
    publisher.store.failure = None
    publisher.worker.run_once()
    assert publisher.list_events() == ["ask-address-failed", "ask-address-published", "ask-address-recovered"]
    assert "failure" not in publisher.worker.check().detail


def test_a_gate_without_a_cluster_publishes_no_address() -> None:
    with pytest.raises(ServeError, match="the address of asks can be published only where there is a cluster"):
        serve(Settings(ask_url=URL))


@pytest.mark.parametrize(
    ("url", "host"),
    [(URL, "tallygate-ask.tallygate-system.svc"), ("https://10.0.0.1:8443/", "10.0.0.1"), ("https://[::1]", "::1")],
)
def test_the_host_of_an_address_is_read(url: str, host: str) -> None:
    assert parse_ask_host(url) == host


@pytest.mark.parametrize(
    "url",
    [
        "http://ask",
        "ask",
        "https://",
        "https://a:port",
        "https://[a",
        "https://u@a",
        "https://a/v1",
        "https://a?b",
        "x",
    ],
)
def test_an_address_to_which_no_token_may_be_sent_is_an_error(url: str) -> None:
    with pytest.raises(AskAddressError, match=r"ask_url .*: write https://HOST:PORT"):
        parse_ask_host(url)
