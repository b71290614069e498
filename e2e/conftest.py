"""Fixtures that the cases share: one site for the run, the gate on it, and a namespace for each case."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from e2e.errors import BuildError, UnfitError
from e2e.namespaces import new_namespace
from e2e.ports import Cluster, Gate, NotHereError, Site
from e2e.providers.existing import existing
from e2e.providers.kind import kind
from e2e.providers.local import local
from e2e.registering import keep_registered

# Cases expect each limit from their first request on; those of new caps set it back.
os.environ.setdefault("TALLYGATE_NEW_CAPS", "wait")
_MISUSE = 2
_LONGEST = (
    "test_uninstall",
    "test_install_cycle",
    "test_self_signed_certificates",
    "test_stress",
    "test_transcripts",
    "test_doctor",
    "test_rolling",
    "test_relay",
    "test_metrics",
    "test_fail_modes",
    "test_rights",
    "test_watch",
    "test_notifications",
    "test_bench",
    "test_usage",
    "test_local",
    "test_events",
    "test_certificate_renewal",
    "test_audit",
    "test_providers",
    "test_scheduling",
    "test_workload_crds",
    "test_operate",
    "test_install",
    "test_restarts",
    "test_publish",
    "test_ledger_deletion",
)
"""The modules that take longest, the longest first."""

_PROVIDERS: dict[str, Callable[[pytest.Config], AbstractContextManager[Site]]] = {
    "local": lambda _: local(),
    "kind": lambda _: kind(),
    "existing": lambda config: existing(
        *(config.getoption(option) for option in ("--kubeconfig", "--context", "--image", "--host"))
    ),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the provider and for recording."""
    group = parser.getgroup("tallygate")
    group.addoption("--provider", choices=sorted(_PROVIDERS), default="local", help="where the suite runs")
    group.addoption("--kubeconfig", type=Path, default=Path(), help="existing: the cluster's kubeconfig")
    group.addoption("--context", default="", help="existing: the context in it that is meant, not its current one")
    group.addoption("--image", default="", help="existing: run the gate in the cluster, from this image it can pull")
    group.addoption("--host", default="127.0.0.1", help="existing: where the API server reaches this machine")
    group.addoption("--drawn-reviews", type=int, default=2000, help="how many drawn reviews compiled policies decide")
    group.addoption("--asks", type=int, default=300, help="how many drawn objects are asked about, and then created")
    group.addoption("--record", action="store_true", help="rewrite transcripts with what is printed now")


def pytest_configure(config: pytest.Config) -> None:
    """Let SIGTERM end the run as Ctrl-C does, so that no control plane outlives it.

    A shell starts what it runs in the background deaf to Ctrl-C, and so would be what the cases start and interrupt.

    A connection that is reset between TCP's handshake and TLS's, as by a server that is killed, is left unclosed by
    Python itself (`SSLSocket._create`, 3.11): it has no peer any more, unlike a connection that was forgotten.

    Programs in Go, as the control plane and kubectl, collect garbage seldom here: processors are what is scarce.
    """
    os.environ.setdefault("GOGC", "400")
    config.addinivalue_line("filterwarnings", r"ignore:unclosed <ssl\.SSLSocket [^>]*laddr=\([^)]*\)>:ResourceWarning")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest modules to the front: workers take a module each, and none is left with a long one."""
    items.sort(key=lambda item: _LONGEST.index(item.path.stem) if item.path.stem in _LONGEST else len(_LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip a case whose environment the provider cannot set up."""
    try:
        return (yield)
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a case that needs something that its provider cannot do."""
    try:
        return (yield)
    except NotHereError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def site(pytestconfig: pytest.Config) -> Iterator[Site]:
    """Yield the provider's site, whose gate does not run yet; report long steps as they go."""
    uncaptured = pytestconfig.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled
    with ExitStack() as ends:
        try:
            with uncaptured():
                site = ends.enter_context(_PROVIDERS[pytestconfig.getoption("--provider")](pytestconfig))
        except (BuildError, UnfitError) as error:
            pytest.exit(f"tallygate: {error}", returncode=_MISUSE)
        yield site
        with uncaptured():
            ends.close()


@pytest.fixture(scope="session")
def cluster(site: Site) -> Cluster:
    """Return the site's cluster."""
    return site.cluster


@pytest.fixture(scope="session")
def running_gate(site: Site) -> Iterator[Gate]:
    """Run the gate, registered or not."""
    site.gate.start()
    yield site.gate
    site.gate.stop()


@pytest.fixture(scope="module")
def gate(site: Site, running_gate: Gate) -> Iterator[Gate]:
    """Run the gate with the shipped policies and register it for the cases of a module."""
    with keep_registered(site.cluster, running_gate):
        yield running_gate


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """Create a namespace of the case's own, which accepts pods."""
    with new_namespace(cluster) as name:
        yield name
