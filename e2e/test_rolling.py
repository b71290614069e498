"""Eight clients create pods while gates are restarted, killed, and given other certificates and policies."""

from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest

from e2e.load import CLIENTS, STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.ports import Cluster, Site
from e2e.registering import register
from e2e.rolling import (
    MEANWHILE,
    WITHIN,
    clients_under,
    create_dongle_pods,
    find_failed,
    policies,
    renew_certificates,
    restart_each,
    run_two_gates,
    start_missing,
    wait_for_leader,
)
from e2e.service import Service
from e2e.stress.replicas import Replicas
from e2e.waiting import until


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def gates(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Run two gates with ledgers in the cluster, as behind a Service."""
    folder = tmp_path_factory.mktemp("rolling") / "gates"
    # As in deploy/: an API server uses each of its connections meanwhile, and leaves it.
    with run_two_gates(site, own, folder, Service, own_arguments=[("--drain-delay=5s",)] * 2) as replicas:
        yield replicas


@pytest.fixture
def cap_clients(site: Site, namespace: str, own: str, gates: Replicas) -> Iterator[Clients]:
    """Yield clients of a namespace under a cap whose ledger is active, while one of the gates leads, and all run."""
    start_missing(site.cluster, own, gates)
    with clients_under(site, namespace, "many") as clients:
        wait_for_leader(gates)
        yield clients


def _edit_policies(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    for each in range(2):
        replicas.write_policies(policies(200_000 + each))
        meanwhile()


def _end_the_leader(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    ended = wait_for_leader(replicas)
    ended.stop()
    until("another leads", lambda: len(replicas.leaders()) == 1, WITHIN)
    meanwhile()
    ended.start()
    meanwhile()


def test_while_gates_are_rolled_renewed_edited_and_led_by_others_no_create_fails(
    site: Site, cap_clients: Clients, gates: Replicas
) -> None:
    steps = (restart_each, renew_certificates, _edit_policies, _end_the_leader)
    lost: dict[str, list[Answer]] = {}
    with cap_clients.creating(create_dongle_pods(site)) as answers:
        for step in steps:
            begun = len(answers)
            step(gates, lambda: until_more(answers, MEANWHILE))
            lost[step.__name__] = find_failed(answers[begun:])
    assert lost == {step.__name__: [] for step in steps}


def test_a_leader_that_is_killed_loses_only_the_requests_under_way(
    site: Site, cap_clients: Clients, gates: Replicas
) -> None:
    """Show that it cannot drain then. The API server does not retry without an answer; a client may, and is served."""
    killed = wait_for_leader(gates)
    with cap_clients.creating(create_dongle_pods(site)) as answers:
        until_more(answers, MEANWHILE)
        killed.kill()
        until_more(answers, MEANWHILE)
    lost = find_failed(answers)
    assert len(lost) <= CLIENTS
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    assert {cap_clients.create_one(each.pod).status for each in lost} <= {STORED}


def test_a_leader_that_is_killed_without_requests_loses_none(site: Site, cap_clients: Clients, gates: Replicas) -> None:
    """Show that the leader is not needed for an answer: the other goes on, also before it leads itself."""
    killed = wait_for_leader(gates)
    (other,) = (gate for gate in gates.each if gate is not killed)
    register(site.cluster, other)
    with cap_clients.creating(create_dongle_pods(site)) as answers:
        until_more(answers, MEANWHILE)
        killed.kill()
        until_more(answers, 2 * MEANWHILE)
    killed.start()
    register(site.cluster, gates)
    assert find_failed(answers) == []
