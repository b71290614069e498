"""A gate that has no others beside it: its relay waits until it is there again."""

import re
from collections.abc import Iterator

import pytest

from e2e.beside import see_that_gates_are_processes
from e2e.gates.relay import RelayedGate
from e2e.ledgers import define_ledgers, forget_ledgers
from e2e.load import Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import create, stored
from e2e.ports import Cluster, Site
from e2e.registering import register, set_timeout, unregister
from e2e.rolling import MEANWHILE, clients_under, dongles, failed, follows, policies

_TIMES = 3
_PAUSE = 0.02  # seconds that a client rests: so short that somebody asks at any moment
_LONGEST = (
    30  # seconds that an API server may be told to wait for an answer; a busy machine may start a gate in no less
)
_SHORT = 2  # seconds, where it waits in vain
_NOBODY = (
    r'Error from server \(InternalError\): error when creating "STDIN": Internal error occurred: '
    r'failed calling webhook "validate\.tallygate\.dev": failed to call webhook: '
    r"no gate answered: 127\.0\.0\.1:\d+ does not answer: \[Errno 111\] Connection refused\n"
)


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """The namespace of the gate's ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def alone(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayedGate]:
    """A gate with its relay, registered; the API server waits for its answers for as long as it can."""
    see_that_gates_are_processes(site)
    define_ledgers(site.cluster)
    gate = RelayedGate(tmp_path_factory.mktemp("alone") / "gate", follows(site.cluster, own))
    gate.write_policies(policies())
    try:
        gate.start()
        register(site.cluster, gate)
        set_timeout(site.cluster, _LONGEST)
        yield gate
        unregister(site.cluster)
    finally:
        gate.stop()
        forget_ledgers(site.cluster, own)


@pytest.fixture
def capped(site: Site, namespace: str, alone: RelayedGate) -> Iterator[Clients]:
    """Clients of a namespace under a cap that is never reached."""
    assert alone.runs
    with clients_under(site, namespace, "many") as clients:
        yield clients


def test_while_a_gate_alone_is_killed_and_started_again_no_create_fails(
    site: Site, alone: RelayedGate, capped: Clients
) -> None:
    with capped.creating(dongles(site), _PAUSE) as answers:
        for _ in range(_TIMES):
            until_more(answers, MEANWHILE)
            alone.kill()
            alone.start()
        until_more(answers, MEANWHILE)
    assert failed(answers) == []
    assert alone.relay.answered_by("none") == 0


def test_while_a_gate_alone_stays_away_kubectl_says_that_none_answered(
    site: Site, alone: RelayedGate, namespace: str
) -> None:
    set_timeout(site.cluster, _SHORT)
    alone.kill()
    said = create(site, namespace, "nobody")
    alone.start()
    set_timeout(site.cluster, _LONGEST)
    assert re.fullmatch(_NOBODY, said.stderr), said.stderr
    assert stored(site, namespace) == set()
    assert create(site, namespace, "again").stderr == ""
