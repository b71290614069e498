"""A gate without peers: its relay answers that another attempt may pass, and the API server makes it."""

import re
from collections.abc import Iterator

import pytest

from e2e.extra_gates import require_gate_process
from e2e.gates.relay import RelayedGate
from e2e.ledgers import define_ledgers, delete_ledgers
from e2e.load import Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import create, list_stored
from e2e.ports import Cluster, Site
from e2e.registering import register, set_timeout, unregister
from e2e.rolling import MEANWHILE, WITHIN, clients_under, create_dongle_pods, find_failed, get_arguments, policies
from e2e.waiting import until

_TIMES = 3
_PAUSE = 0.02  # seconds that a client rests: so short that a request is under way at any moment
_LONGEST = 30  # seconds, the longest timeout of an API server; a busy machine may start a gate in no less
_SHORT = 2  # seconds, where it waits in vain
# The relay has answered that another attempt may pass, or is about to: the API server's time is over first.
_NO_ANSWER = (
    r'Error from server \(InternalError\): error when creating "STDIN": Internal error occurred: '
    r'failed calling webhook "validate\.tallygate\.dev": failed to call webhook: '
    r'Post "https://[^"]+": context deadline exceeded\n'
)


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gate's ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def single_gate(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayedGate]:
    """Run a gate with its relay, registered; the API server waits for its answers for as long as it can."""
    require_gate_process(site)
    define_ledgers(site.cluster)
    gate = RelayedGate(tmp_path_factory.mktemp("alone") / "gate", get_arguments(site.cluster, own))
    gate.write_policies(policies())
    try:
        gate.start()
        register(site.cluster, gate)
        set_timeout(site.cluster, _LONGEST)
        yield gate
        unregister(site.cluster)
    finally:
        gate.stop()
        delete_ledgers(site.cluster, own)


@pytest.fixture
def cap_clients(site: Site, namespace: str, single_gate: RelayedGate) -> Iterator[Clients]:
    """Yield clients of a namespace under a cap that is never reached."""
    assert single_gate.runs
    with clients_under(site, namespace, "many") as clients:
        yield clients


def test_while_a_gate_alone_is_killed_and_started_again_no_create_fails(
    site: Site, single_gate: RelayedGate, cap_clients: Clients
) -> None:
    with cap_clients.creating(create_dongle_pods(site), _PAUSE) as answers:
        for _ in range(_TIMES):
            until_more(answers, MEANWHILE)
            single_gate.kill()
            single_gate.start()
        until_more(answers, MEANWHILE)
    assert find_failed(answers) == []


def test_while_a_gate_alone_is_away_for_longer_than_its_relay_tries_the_api_server_sends_reviews_again(
    site: Site, single_gate: RelayedGate, cap_clients: Clients
) -> None:
    relay = single_gate.relay
    before = relay.count_unanswered()
    with cap_clients.creating(create_dongle_pods(site), _PAUSE) as answers:
        until_more(answers, MEANWHILE)
        single_gate.kill()
        until("the relay has answered by itself", lambda: relay.count_unanswered() > before, WITHIN)
        single_gate.start()
        until_more(answers, MEANWHILE)
    assert find_failed(answers) == []


def test_while_a_gate_alone_stays_away_kubectl_says_that_the_time_is_over(
    site: Site, single_gate: RelayedGate, namespace: str
) -> None:
    set_timeout(site.cluster, _SHORT)
    single_gate.kill()
    done = create(site, namespace, "unanswered")
    single_gate.start()
    set_timeout(site.cluster, _LONGEST)
    assert re.fullmatch(_NO_ANSWER, done.stderr), done.stderr
    assert list_stored(site, namespace) == set()
    assert create(site, namespace, "again").stderr == ""
