"""Eight clients create pods while gates die, hang and are rolled behind their relays."""

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from subprocess import CompletedProcess

import pytest

from e2e import typed
from e2e.gates.process import GateProcess
from e2e.load import STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import create, pod, stored
from e2e.ports import Cluster, Site
from e2e.registering import set_timeout
from e2e.rolling import (
    FEW,
    MEANWHILE,
    WITHIN,
    clients_under,
    dongles,
    failed,
    leader,
    let_leases_go,
    renew_certificates,
    restart_each,
    start_those_that_ended,
    two_gates,
)
from e2e.service import KUBELETS_PAUSE, Service
from e2e.storm.replicas import Replicas
from e2e.waiting import until

_TIMES = 3
_PAUSE = 0.02  # seconds that a client rests: so short that somebody asks at any moment
_USUAL_TIMEOUT = 5  # seconds, as registered
_TIMEOUT = 15  # seconds for an answer, of which a peer has five: a busy machine takes more than 1.5
_LONGER = 18.0  # seconds: than the API server waits
# The Service leads nowhere then; a connection that the API server has kept leads to a relay all the same.
_NOBODY = (
    r'Error from server \(InternalError\): error when creating "STDIN": Internal error occurred: '
    r'failed calling webhook "validate\.tallygate\.dev": failed to call webhook: '
    r'(Post "https://[^"]+": (EOF|context deadline exceeded|.*connection reset by peer)|no gate answered: .+)\n'
)


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """The namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def module_gates(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two gates with a relay each, behind a Service that hears of a kill as late as from a kubelet."""
    service = partial(Service, pause=KUBELETS_PAUSE)
    folder = tmp_path_factory.mktemp("relayed") / "gates"
    with two_gates(site, own, folder, service, relayed=True) as replicas:
        yield replicas


@pytest.fixture
def relayed(site: Site, own: str, module_gates: Replicas) -> Replicas:
    """Those, all of which run, and one of which keeps the ledgers."""
    start_those_that_ended(site.cluster, own, module_gates)
    leader(module_gates)
    return module_gates


@pytest.fixture
def capped(site: Site, namespace: str, relayed: Replicas) -> Iterator[Clients]:
    """Clients of a namespace under a cap that is never reached."""
    assert relayed.relayed
    with clients_under(site, namespace, "many") as clients:
        yield clients


def _usage(site: Site, gate: GateProcess, namespace: str, *more: str) -> CompletedProcess[str]:
    reads = (f"--policies={gate.policies}", f"--kubeconfig={site.cluster.kubeconfig}")
    return typed.tallygate(site.cluster, "usage", *reads, f"--namespace={namespace}", *more)


def _until_each_is_counted_once(site: Site, gate: GateProcess, namespace: str) -> None:
    """Wait until nothing is promised any more and exactly the pods that are stored are held; and see no drift."""
    there = len(stored(site, namespace))

    def is_so() -> bool:
        (line,) = json.loads(_usage(site, gate, namespace, "--output=json").stdout)["usage"]
        return (line["used"], line["reserved"]) == (there, 0)

    until(f"{there} pods are held, and nothing is promised", is_so, WITHIN)
    verified = _usage(site, gate, namespace, "--verify")
    assert (verified.returncode, verified.stderr) == (0, "1 ledger compared with the pods: no drift\n"), verified


def _passed_on(replicas: Replicas) -> int:
    """How many reviews relays had answered by a gate that is not beside them."""
    return sum(gate.relay.answered_by("peer") for gate in replicas.relayed)


def _kill_the_leader(site: Site, own: str, replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    """Kill it, and start it again once another keeps the ledgers."""
    killed = leader(replicas)
    meanwhile()
    killed.kill()
    meanwhile()
    let_leases_go(site.cluster, own)
    leader(replicas)
    killed.start()
    meanwhile()


def test_while_the_leader_is_killed_again_and_again_no_create_fails_and_each_is_counted_once(
    site: Site, own: str, namespace: str, relayed: Replicas, capped: Clients
) -> None:
    before = _passed_on(relayed)
    with capped.creating(dongles(site), _PAUSE) as answers:
        for _ in range(_TIMES):
            _kill_the_leader(site, own, relayed, lambda: until_more(answers, MEANWHILE))
    assert failed(answers) == []
    assert _passed_on(relayed) > before
    _until_each_is_counted_once(site, relayed.each[0], namespace)


def test_a_cap_that_fills_while_the_leader_is_killed_is_never_passed_and_loses_no_room(
    site: Site, namespace: str, relayed: Replicas
) -> None:
    with clients_under(site, namespace, "few") as clients:
        killed = leader(relayed)
        with clients.creating(dongles(site), _PAUSE) as answers:
            until_more(answers, FEW // 3)
            killed.kill()
            until(f"{FEW} are stored", lambda: len(stored(site, namespace)) >= FEW, WITHIN)
            until_more(answers, MEANWHILE)
        assert {each.status for each in failed(answers)} <= {HTTPStatus.FORBIDDEN}
        assert len(stored(site, namespace)) == FEW
        _until_each_is_counted_once(site, relayed.each[0], namespace)
        assert clients.create_one(pod(site, "one-too-many")).status == HTTPStatus.FORBIDDEN


@pytest.fixture
def patient(site: Site, relayed: Replicas) -> Iterator[None]:
    """An API server that waits for longer than by default."""
    assert relayed.relayed
    set_timeout(site.cluster, _TIMEOUT)
    yield
    set_timeout(site.cluster, _USUAL_TIMEOUT)


@pytest.mark.usefixtures("patient")
def test_while_a_gate_hangs_for_longer_than_the_api_server_waits_no_create_fails(
    site: Site, relayed: Replicas, capped: Clients
) -> None:
    with capped.creating(dongles(site)) as answers:
        until_more(answers, MEANWHILE)
        with leader(relayed).frozen():
            begun = time.monotonic()
            until("it hangs for longer", lambda: time.monotonic() - begun > _LONGER, WITHIN)
            until_more(answers, MEANWHILE)
        until_more(answers, MEANWHILE)
    assert failed(answers) == []


def test_while_gates_and_relays_are_rolled_and_renewed_no_create_fails(
    site: Site, relayed: Replicas, capped: Clients
) -> None:
    lost: dict[str, list[Answer]] = {}
    steps = (restart_each, renew_certificates)
    with capped.creating(dongles(site)) as answers:
        for step in steps:
            begun = len(answers)
            step(relayed, lambda: until_more(answers, MEANWHILE))
            lost[step.__name__] = failed(answers[begun:])
    assert lost == {step.__name__: [] for step in steps}


def test_while_no_gate_lives_kubectl_says_so_and_once_one_is_back_creates_go_on(
    site: Site, namespace: str, own: str, relayed: Replicas, capped: Clients
) -> None:
    for gate in relayed.each:
        gate.kill()
    said = create(site, namespace, "nobody")
    assert re.fullmatch(_NOBODY, said.stderr), said.stderr
    let_leases_go(site.cluster, own)
    relayed.each[0].start()
    until("creates go on", lambda: capped.create_one(pod(site, "again")).status == STORED, WITHIN)
