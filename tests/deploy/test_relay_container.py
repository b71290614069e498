"""The relay's container runs: its configuration is accepted, it waits for its certificate, and it ends gracefully."""

import signal
from collections.abc import Iterator
from copy import deepcopy
from itertools import product

import pytest

from tests.deploy.container_settings import get_container
from tests.deploy.relay_container import RelayContainer
from tests.deploy.rendering import compose_objects, render_chart
from tests.server.process import eventually, remains

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture
def container() -> Iterator[RelayContainer]:
    """Return the container of the component."""
    with RelayContainer(compose_objects("relay")) as found:
        yield found


@pytest.mark.parametrize(
    ("size", "certificates"), list(product(("", "cluster-access", "ha"), ("", "self-signed", "cert-manager")))
)
def test_haproxy_accepts_the_configuration_of_the_component_without_a_warning(size: str, certificates: str) -> None:
    with RelayContainer(compose_objects(*filter(None, (size, certificates)), "relay")) as container:
        container.write_certificates()
        done = container.check()
    assert done.returncode == 0, done.stderr


def test_haproxy_accepts_the_configuration_of_the_chart_with_other_ports() -> None:
    ports = {"ports": {"https": 10443, "monitor": 10090}, "relay.ports": {"upstream": 10444, "monitor": 10091}}
    with RelayContainer(render_chart({**ports, "relay.enabled": True})) as container:
        container.write_certificates()
        done = container.check()
    assert done.returncode == 0, done.stderr


def test_a_warning_is_found() -> None:
    objects = deepcopy(compose_objects("relay"))
    objects["ConfigMap", "tallygate-relay"]["data"]["haproxy.cfg"] += "frontend that_listens_nowhere\n"
    with RelayContainer(objects) as container:
        container.write_certificates()
        done = container.check()
    assert done.returncode == 1
    assert "zero-warning" in done.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_it_waits_for_its_certificate_and_ends_at_once_meanwhile(
    container: RelayContainer, number: signal.Signals
) -> None:
    container.start()
    assert remains(lambda: container.get("/healthz") is None)
    assert container.end(number) == 0


def test_with_its_certificate_it_is_healthy_has_metrics_and_ends_gracefully(container: RelayContainer) -> None:
    container.start()
    container.write_certificates()
    assert eventually(lambda: container.get("/healthz") is not None)
    assert "haproxy_process_nbproc" in (container.get("/metrics") or "")
    assert container.end(signal.SIGUSR1) == 0


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_a_probe_is_answered(container: RelayContainer, probe: str) -> None:
    asked = get_container(compose_objects("relay"), "relay")[probe]["httpGet"]
    container.write_certificates()
    container.start()
    assert eventually(lambda: container.get(asked["path"]) is not None)
