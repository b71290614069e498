"""Eight clients create pods while gates are restarted, killed, and given other certificates and policies."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest

from certs.renewal import renew
from e2e.api import api
from e2e.gates.process import GateProcess
from e2e.ledgers import define_ledgers, forget_ledgers
from e2e.load import CLIENTS, STORED, Answer, Clients, until_more
from e2e.namespaces import label, new_namespace
from e2e.pods import Pod, pod
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.registering import register, unregister
from e2e.service import Service
from e2e.storm.replicas import Replicas
from e2e.waiting import until

_REPLICAS = 2
_WITHIN = 240.0  # seconds
_THERE = (STORED, HTTPStatus.CONFLICT)
_MEANWHILE = 50  # pods that are created before the next step
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{selector: {{matchLabels: {{dongles: many}}}}}}
  hard: {{example.com/dongle: {hard}}}
"""


def _policies(hard: int) -> dict[str, str]:
    return SHIPPED_FILES | {"dongles.yaml": _CAP.format(hard=hard)}


@pytest.fixture(scope="module")
def own(cluster: Cluster) -> Iterator[str]:
    """The namespace of the gates' ledgers."""
    with new_namespace(cluster, "gate-") as name:
        yield name


@pytest.fixture(scope="module")
def behind_one_address(site: Site, own: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two gates that keep their ledgers in the cluster, as behind a Service."""
    cluster = site.cluster
    if not isinstance(site.gate, GateProcess):
        pytest.skip("it is about gates of its own, beside the one of the site")
    define_ledgers(cluster)
    following = ("--cluster=kubeconfig", f"--kubeconfig={cluster.kubeconfig}", "--ledgers=kubernetes")
    arguments = (*following, f"--namespace={own}", "--in-flight-bound=2s")
    replicas = Replicas(tmp_path_factory.mktemp("rolling") / "gates", _REPLICAS, arguments, Service)
    replicas.write_policies(_policies(100_000))
    replicas.start()
    try:
        register(cluster, replicas)
        yield replicas
        unregister(cluster)
    finally:
        replicas.stop()
        forget_ledgers(cluster, own)


@pytest.fixture
def capped(site: Site, namespace: str, own: str, behind_one_address: Replicas) -> Iterator[Clients]:
    """Clients of a namespace under a cap whose ledger is open, while one of the gates keeps it, and all run."""
    for gate in behind_one_address.each:
        if not gate.runs:
            leases = f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases"
            api(site.cluster.kubeconfig).delete(leases)  # of one that a case has killed, which would last a while
            gate.start()
    label(site.cluster, namespace, {"dongles": "many"})
    with Clients(site.cluster, namespace) as clients:
        until("the cap is open", lambda: clients.create_one(pod(site, "first")).status in _THERE, _WITHIN)
        until("one of them keeps", lambda: len(behind_one_address.keepers()) == 1, _WITHIN)
        yield clients


def _restart_each(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    for gate in replicas.each:
        gate.stop()
        meanwhile()
        gate.start()
        meanwhile()


def _renew_certificates(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    for each in range(2):
        renew(replicas.certificates, datetime.now(UTC) + timedelta(seconds=each), force=True)
        replicas.take_up_certificate()
        meanwhile()


def _edit_policies(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    for each in range(2):
        replicas.write_policies(_policies(200_000 + each))
        meanwhile()


def _keeper(replicas: Replicas) -> GateProcess:
    """The one that keeps the ledgers; after a restart none does for a moment."""
    found: list[GateProcess] = []

    def is_one() -> bool:
        found[:] = replicas.keepers()
        return len(found) == 1

    until("one of them keeps", is_one, _WITHIN)
    return found[0]


def _end_the_keeper(replicas: Replicas, meanwhile: Callable[[], None]) -> None:
    keeper = _keeper(replicas)
    keeper.stop()
    until("another keeps", lambda: len(replicas.keepers()) == 1, _WITHIN)
    meanwhile()
    keeper.start()
    meanwhile()


def _dongles(site: Site) -> Callable[[int], Pod]:
    return lambda number: pod(site, f"pod-{number}")


def test_while_gates_are_rolled_renewed_edited_and_led_by_others_no_create_fails(
    site: Site, capped: Clients, behind_one_address: Replicas
) -> None:
    steps = (_restart_each, _renew_certificates, _edit_policies, _end_the_keeper)
    failed: dict[str, list[Answer]] = {}
    with capped.creating(_dongles(site)) as answers:
        for step in steps:
            begun = len(answers)
            step(behind_one_address, lambda: until_more(answers, _MEANWHILE))
            failed[step.__name__] = [each for each in answers[begun:] if each.status != STORED]
    assert failed == {step.__name__: [] for step in steps}


def test_a_keeper_that_is_killed_takes_along_no_more_than_what_it_was_just_asked(
    site: Site, capped: Clients, behind_one_address: Replicas
) -> None:
    """Nobody can drain then. The API server asks nobody else; who asked it may ask again, and is served."""
    keeper = _keeper(behind_one_address)
    with capped.creating(_dongles(site)) as answers:
        until_more(answers, _MEANWHILE)
        keeper.kill()
        until_more(answers, _MEANWHILE)
    lost = [each for each in answers if each.status != STORED]
    assert len(lost) <= CLIENTS
    assert {each.status for each in lost} <= {HTTPStatus.INTERNAL_SERVER_ERROR}
    assert {capped.create_one(each.pod).status for each in lost} <= {STORED}


def test_a_keeper_that_is_killed_while_nobody_asks_it_takes_nothing_along(
    site: Site, capped: Clients, behind_one_address: Replicas
) -> None:
    """Who keeps ledgers is not needed for an answer: the other goes on, also before it keeps them itself."""
    keeper = _keeper(behind_one_address)
    (other,) = (gate for gate in behind_one_address.each if gate is not keeper)
    register(site.cluster, other)
    with capped.creating(_dongles(site)) as answers:
        until_more(answers, _MEANWHILE)
        keeper.kill()
        until_more(answers, 2 * _MEANWHILE)
    keeper.start()
    register(site.cluster, behind_one_address)
    assert [each for each in answers if each.status != STORED] == []
