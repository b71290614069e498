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
    dongles,
    failed,
    leader,
    policies,
    renew_certificates,
    restart_each,
    start_those_that_ended,
    two_gates,
)
from e2e.service import Service
from e2e.storm.replicas import Replicas
from e2e.waiting import until


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """The namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def behind_one_address(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two gates that keep their ledgers in the cluster, as behind a Service."""
    with two_gates(site, own, tmp_path_factory.mktemp("rolling") / "gates", Service) as replicas:
        yield replicas


@pytest.fixture
def capped(site: Site, namespace: str, own: str, behind_one_address: Replicas) -> Iterator[Clients]:
    """Clients of a namespace under a cap whose ledger is open, while one of the gates keeps it, and all run."""
    start_those_that_ended(site.cluster, own, behind_one_address)
    with clients_under(site, namespace, "many") as clients:
        leader(behind_one_address)
        yield clients


def _edit_policies(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    for each in range(2):
        replicas.write_policies(policies(200_000 + each))
        meanwhile()


def _end_the_leader(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    kept = leader(replicas)
    kept.stop()
    until("another keeps", lambda: len(replicas.leaders()) == 1, WITHIN)
    meanwhile()
    kept.start()
    meanwhile()


def test_while_gates_are_rolled_renewed_edited_and_led_by_others_no_create_fails(
    site: Site, capped: Clients, behind_one_address: Replicas
) -> None:
    steps = (restart_each, renew_certificates, _edit_policies, _end_the_leader)
    lost: dict[str, list[Answer]] = {}
    with capped.creating(dongles(site)) as answers:
        for step in steps:
            begun = len(answers)
            step(behind_one_address, lambda: until_more(answers, MEANWHILE))
            lost[step.__name__] = failed(answers[begun:])
    assert lost == {step.__name__: [] for step in steps}


def test_a_leader_that_is_killed_takes_along_no_more_than_what_it_was_just_asked(
    site: Site, capped: Clients, behind_one_address: Replicas
) -> None:
    """Nobody can drain then. The API server asks nobody else; who asked it may ask again, and is served."""
    killed = leader(behind_one_address)
    with capped.creating(dongles(site)) as answers:
        until_more(answers, MEANWHILE)
        killed.kill()
        until_more(answers, MEANWHILE)
    lost = failed(answers)
    assert len(lost) <= CLIENTS
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    assert {capped.create_one(each.pod).status for each in lost} <= {STORED}


def test_a_leader_that_is_killed_while_nobody_asks_it_takes_nothing_along(
    site: Site, capped: Clients, behind_one_address: Replicas
) -> None:
    """Who keeps ledgers is not needed for an answer: the other goes on, also before it keeps them itself."""
    killed = leader(behind_one_address)
    (other,) = (gate for gate in behind_one_address.each if gate is not killed)
    register(site.cluster, other)
    with capped.creating(dongles(site)) as answers:
        until_more(answers, MEANWHILE)
        killed.kill()
        until_more(answers, 2 * MEANWHILE)
    killed.start()
    register(site.cluster, behind_one_address)
    assert failed(answers) == []
