"""Eight clients create pods while gates die, hang and are rolled behind their relays."""

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from http import HTTPStatus
from subprocess import CompletedProcess

import httpx
import pytest

from e2e.command_output import run_tallygate
from e2e.gates.process import GateProcess
from e2e.gates.relay import RelayedGate
from e2e.gates.running import LOOPBACK
from e2e.ledgers import expire_leases
from e2e.load import STORED, Answer, Clients, until_more
from e2e.namespaces import new_namespace
from e2e.pods import Pod, create, list_stored, pod
from e2e.ports import Cluster, Site
from e2e.registering import set_timeout
from e2e.rolling import (
    FEW,
    MEANWHILE,
    WITHIN,
    clients_under,
    create_dongle_pods,
    find_failed,
    renew_certificates,
    restart_each,
    run_two_gates,
    start_missing,
    wait_for_leader,
)
from e2e.service import KUBELETS_PAUSE, Service
from e2e.stress.replicas import Replicas
from e2e.trust import Trust
from e2e.waiting import until

_TIMES = 3
_PAUSE = 0.02  # seconds that a client rests: so short that a request is under way at any moment
_USUAL_TIMEOUT = 5  # seconds, as registered
_TIMEOUT = 15  # seconds for an answer, of which a peer has five: a busy machine takes more than 1.5
_LONGER = 18.0  # seconds: than the API server waits
_FROZEN = 5.0  # seconds
_FEW_LARGE = 16  # pods
_LARGE_PAUSE = 0.3  # seconds that a client rests: a store of some hundred large pods slows down the whole control plane
_LARGE = 200 * 1024  # bytes: HAProxy has buffers of 128 KiB
_SOON = 4.0  # seconds: with the second after which it may try again, an API server has time for another attempt
# The Service leads nowhere then; a connection that the API server has kept leads to a relay all the same.
_NO_ANSWER = (
    r'Error from server \(InternalError\): error when creating "STDIN": Internal error occurred: '
    r'failed calling webhook "validate\.tallygate\.dev": failed to call webhook: '
    r'Post "https://[^"]+": (EOF|context deadline exceeded|.*connection reset by peer)\n'
)

_STATUS = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "no gate answered",
    "reason": "ServiceUnavailable",
    "code": 503,
}


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """Create the namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def module_gates(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Run two gates with a relay each, behind a Service that notices a kill as late as by a kubelet."""
    service = partial(Service, pause=KUBELETS_PAUSE)
    folder = tmp_path_factory.mktemp("relayed") / "gates"
    with run_two_gates(site, own, folder, service, made=RelayedGate) as replicas:
        yield replicas


@pytest.fixture
def relay_gates(site: Site, own: str, module_gates: Replicas) -> Replicas:
    """Return these gates, all of which run, and one of which leads."""
    start_missing(site.cluster, own, module_gates)
    wait_for_leader(module_gates)
    return module_gates


@pytest.fixture
def cap_clients(site: Site, namespace: str, relay_gates: Replicas) -> Iterator[Clients]:
    """Yield clients of a namespace under a cap that is never reached."""
    assert relay_gates.relayed
    with clients_under(site, namespace, "many") as clients:
        yield clients


def _usage(site: Site, gate: GateProcess, namespace: str, *more: str) -> CompletedProcess[str]:
    reads = (f"--policies={gate.policies}", f"--kubeconfig={site.cluster.kubeconfig}")
    return run_tallygate(site.cluster, "usage", *reads, f"--namespace={namespace}", *more)


def _until_each_is_counted_once(site: Site, gate: GateProcess, namespace: str) -> None:
    """Wait until nothing is reserved any more and exactly the stored pods are used; and see no drift."""
    there = len(list_stored(site, namespace))

    def is_so() -> bool:
        (line,) = json.loads(_usage(site, gate, namespace, "--output=json").stdout)["items"]
        return (line["used"], line["reserved"]) == (there, 0)

    until(f"{there} pods are used, and nothing is reserved", is_so, WITHIN)
    verified = _usage(site, gate, namespace, "--verify")
    assert (verified.returncode, verified.stderr) == (0, "1 ledger compared with the pods: no drift\n"), verified


def _count_peer_answers(replicas: Replicas) -> int:
    """Return the number of reviews that relays had answered by a gate of a peer."""
    return sum(gate.relay.count_answers("peer") for gate in replicas.relayed)


def _kill_the_leader(site: Site, own: str, replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    """Kill the leader, and start it again once another leads."""
    killed = wait_for_leader(replicas)
    meanwhile()
    killed.kill()
    meanwhile()
    expire_leases(site.cluster, own)
    wait_for_leader(replicas)
    killed.start()
    meanwhile()


def _create_large_pods(site: Site) -> Callable[[int], Pod]:
    """Return a function that makes pods with reviews that HAProxy cannot buffer whole, and so cannot send again."""

    def create_large(number: int) -> Pod:
        one = pod(site, f"large-{number}")
        one["metadata"]["annotations"] = {"example.com/note": "x" * _LARGE}
        return one

    return create_large


def _kill_during_reviews(site: Site, own: str, gate: RelayedGate) -> bool:
    """Freeze a gate for some seconds at most, kill it, and start it again; return whether it had a review to answer.

    All connections of the API server may lead to the other gate.
    """
    relay = gate.relay
    before, begun = relay.count_answers("peer"), time.monotonic()

    def is_asked() -> bool:
        return relay.count_open() > 0 or relay.count_answers("peer") > before

    with gate.freeze():
        until("it is asked, or time is up", lambda: is_asked() or time.monotonic() - begun > _FROZEN, WITHIN)
        has_review = is_asked()
        gate.kill()
    expire_leases(site.cluster, own)
    gate.start()
    return has_review


def _review_by_relay(gate: RelayedGate) -> httpx.Response:
    """Return a relay's answer to a review, as an API server sends it."""
    url = f"https://{LOOPBACK}:{gate.port}/validate?timeout={_USUAL_TIMEOUT}s"
    trust = Trust((gate.certificates / "ca.crt").read_text())
    return httpx.post(url, json={"kind": "AdmissionReview"}, verify=trust, timeout=_TIMEOUT, trust_env=False)


def test_while_the_leader_is_killed_again_and_again_no_create_fails_and_each_is_counted_once(
    site: Site, own: str, namespace: str, relay_gates: Replicas, cap_clients: Clients
) -> None:
    before = _count_peer_answers(relay_gates)
    with cap_clients.creating(create_dongle_pods(site), _PAUSE) as answers:
        for _ in range(_TIMES):
            _kill_the_leader(site, own, relay_gates, lambda: until_more(answers, MEANWHILE))
    assert find_failed(answers) == []
    assert _count_peer_answers(relay_gates) > before
    _until_each_is_counted_once(site, relay_gates.each[0], namespace)


def test_while_the_leader_is_killed_no_create_fails_whose_review_is_larger_than_the_relays_buffer(
    site: Site, own: str, namespace: str, relay_gates: Replicas, cap_clients: Clients
) -> None:
    kills = 0
    with cap_clients.creating(_create_large_pods(site), _LARGE_PAUSE) as answers:
        for gate in relay_gates.relayed * _TIMES:
            until_more(answers, _FEW_LARGE)
            kills += _kill_during_reviews(site, own, gate)
            if kills > 1:
                break
        until_more(answers, _FEW_LARGE)
    assert kills
    assert find_failed(answers) == []
    _until_each_is_counted_once(site, relay_gates.each[0], namespace)


def test_a_cap_that_fills_while_the_leader_is_killed_is_never_passed_and_loses_no_room(
    site: Site, namespace: str, relay_gates: Replicas
) -> None:
    with clients_under(site, namespace, "few") as clients:
        killed = wait_for_leader(relay_gates)
        with clients.creating(create_dongle_pods(site), _PAUSE) as answers:
            until_more(answers, FEW // 3)
            killed.kill()
            until(f"{FEW} are stored", lambda: len(list_stored(site, namespace)) >= FEW, WITHIN)
            until_more(answers, MEANWHILE)
        assert {each.status for each in find_failed(answers)} <= {HTTPStatus.FORBIDDEN}
        assert len(list_stored(site, namespace)) == FEW
        _until_each_is_counted_once(site, relay_gates.each[0], namespace)
        assert clients.create_one(pod(site, "one-too-many")).status == HTTPStatus.FORBIDDEN


@pytest.fixture
def patient_api_server(site: Site, relay_gates: Replicas) -> Iterator[None]:
    """Let the API server wait for longer than by default."""
    assert relay_gates.relayed
    set_timeout(site.cluster, _TIMEOUT)
    yield
    set_timeout(site.cluster, _USUAL_TIMEOUT)


@pytest.mark.usefixtures("patient_api_server")
def test_while_a_gate_hangs_for_longer_than_the_api_server_waits_no_create_fails(
    site: Site, relay_gates: Replicas, cap_clients: Clients
) -> None:
    with cap_clients.creating(create_dongle_pods(site)) as answers:
        until_more(answers, MEANWHILE)
        with wait_for_leader(relay_gates).freeze():
            begun = time.monotonic()
            until("it hangs for longer", lambda: time.monotonic() - begun > _LONGER, WITHIN)
            until_more(answers, MEANWHILE)
        until_more(answers, MEANWHILE)
    assert find_failed(answers) == []


def test_while_gates_and_relays_are_rolled_and_renewed_no_create_fails(
    site: Site, relay_gates: Replicas, cap_clients: Clients
) -> None:
    lost: dict[str, list[Answer]] = {}
    steps = (restart_each, renew_certificates)
    with cap_clients.creating(create_dongle_pods(site)) as answers:
        for step in steps:
            begun = len(answers)
            step(relay_gates, lambda: until_more(answers, MEANWHILE))
            lost[step.__name__] = find_failed(answers[begun:])
    assert lost == {step.__name__: [] for step in steps}


def test_while_no_gate_lives_a_relay_answers_soon_that_another_attempt_may_pass(relay_gates: Replicas) -> None:
    for gate in relay_gates.each:
        gate.kill()
    relay, *_ = relay_gates.relayed
    for _ in range(_TIMES):  # also once HAProxy has seen that its gate is down
        answer = _review_by_relay(relay)
        assert answer.elapsed.total_seconds() < _SOON
        assert (answer.status_code, answer.headers["Retry-After"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "1")
        assert answer.json() == _STATUS


def test_while_no_gate_lives_kubectl_says_so_and_once_one_is_back_creates_go_on(
    site: Site, namespace: str, own: str, relay_gates: Replicas, cap_clients: Clients
) -> None:
    for gate in relay_gates.each:
        gate.kill()
    done = create(site, namespace, "unanswered")
    assert re.fullmatch(_NO_ANSWER, done.stderr), done.stderr
    expire_leases(site.cluster, own)
    relay_gates.each[0].start()
    until("creates go on", lambda: cap_clients.create_one(pod(site, "again")).status == STORED, WITHIN)
