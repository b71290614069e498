"""Ledgers in a real cluster: several replicas at one of them, answers that get lost, restarts, what kubectl shows."""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from e2e.ledgers import define_ledgers, delete_ledgers
from e2e.ports import Cluster
from e2e.tcp_proxy import TcpProxy, fail_once, fail_randomly
from e2e.waiting import until
from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import CapIndex
from tallygate.gate.charging import charge_consumer
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.config import load_kubeconfig
from tallygate.policy.parse import parse
from tallygate.review.cap_charge import CapCharge, ChargedConsumer, ChargeResult
from tallygate.state.batched_ledgers import BatchedLedgers
from tallygate.state.kubernetes.cap_ledger import (
    MAX_OBJECT_BYTES,
    StoredVersion,
    encode_ledger,
    get_object_name,
)
from tallygate.state.kubernetes.ledger_store import KubernetesLedgerStore
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError
from tests.state.contract import LedgerCreator, LedgersContract, compute_deadline
from tests.state.transitions import GPU, Put, Read, Take, free_ledger

_DEFINITION = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: [team-a]}, hard: {nvidia.com/gpu: 60}}
"""
(_COUNTED,) = CapIndex(parse([("cap.yaml", _CAP.encode())]).policies, None).list_caps()
_ROOM, _ASKED = 60, 100


@pytest.fixture(scope="module", autouse=True)
def definition(cluster: Cluster) -> None:
    """Define CapLedger in the cluster."""
    define_ledgers(cluster)


@pytest.fixture
def namespace(cluster: Cluster, namespace: str) -> Iterator[str]:
    """Yield a namespace, and delete its ledgers: others would see them."""
    yield namespace
    delete_ledgers(cluster, namespace)


@pytest.fixture
def replica(cluster: Cluster, namespace: str) -> Callable[..., BatchedLedgers]:
    """Return a function that makes a replica with connections of its own, by way of a port of this machine if given."""

    def make(port: int | None = None) -> BatchedLedgers:
        return BatchedLedgers(_store(cluster, namespace, port), time.monotonic)

    return make


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[TcpProxy]:
    """Run a proxy between the replicas and the API server."""
    server = urlsplit(load_kubeconfig(cluster.kubeconfig).server)
    if server.hostname != "127.0.0.1" or server.port is None:
        pytest.skip("its certificate would not be good for a proxy on this machine")
    with TcpProxy(server.port) as proxy:
        yield proxy


def _store(cluster: Cluster, namespace: str, port: int | None = None) -> KubernetesLedgerStore:
    access: ClientConfig = load_kubeconfig(cluster.kubeconfig)
    if port is not None:
        access.server = f"https://127.0.0.1:{port}"
    return KubernetesLedgerStore(access, namespace, lambda: datetime.now(UTC))


def _key() -> LedgerKey:
    return LedgerKey(f"{_COUNTED.key}{uuid4().hex[:4]}", "team-a")


def _open(ledgers: BatchedLedgers, key: LedgerKey, ledger: Ledger) -> None:
    ledgers.transact(key, Put(lambda _: ledger), compute_deadline())


def _now(ledgers: BatchedLedgers, key: LedgerKey) -> Ledger:
    found = ledgers.transact(key, Read(), compute_deadline())
    assert found is not None
    return found


class TestKubernetesLedgers(LedgersContract):
    """The contract of all ledgers, for those in a cluster."""

    @pytest.fixture
    def ledgers(self, replica: Callable[..., BatchedLedgers]) -> BatchedLedgers:
        """Return a replica in a namespace of the case's own."""
        return replica()

    @pytest.fixture
    def create_ledger(self, ledgers: BatchedLedgers) -> LedgerCreator:
        """Return a function that writes a ledger as any replica does."""
        return lambda key, ledger: _open(ledgers, key, ledger)


class _Creates:
    """Creates of pods with one GPU each, at several replicas in turn, by several threads."""

    def __init__(self, replicas: Sequence[BatchedLedgers], key: LedgerKey) -> None:
        self._replicas = replicas
        self._counted = dataclasses.replace(_COUNTED, key=key.cap)
        self._pool = ThreadPoolExecutor(4 * len(replicas))
        self._creates: list[Future[ChargeResult]] = []

    def begin(self, count: int = _ASKED) -> None:
        """Submit this number of creates."""
        first = len(self._creates)
        self._creates += [self._pool.submit(self._create, each) for each in range(first, first + count)]

    def end(self) -> tuple[set[str], set[str], set[str]]:
        """Return the UIDs that were reserved, rejected, and left without a decision."""
        reserved, rejected, undecided = set[str](), set[str](), set[str]()
        for each, create in enumerate(self._creates):
            outcome = create.result()
            kind = rejected if outcome.exceeded else undecided if outcome.obstacles else reserved
            kind.add(f"u{each}")
        self._pool.shutdown()
        return reserved, rejected, undecided

    def _create(self, each: int) -> ChargeResult:
        who = ChargedConsumer(f"u{each}", "team-a", f"pod-{each}", f"n{each}", Operation.CREATE)
        asked = CapCharge(self._counted, Amounts(), Amounts({GPU: 1}), may_exceed=False)
        return charge_consumer(self._replicas[each % len(self._replicas)], who, [asked], time.monotonic() + 30.0)


def test_three_replicas_together_reserve_exactly_the_cap(replica: Callable[..., BatchedLedgers]) -> None:
    replicas, key = [replica() for _ in range(3)], _key()
    _open(replicas[0], key, free_ledger(_ROOM))
    creates = _Creates(replicas, key)
    creates.begin()
    reserved, rejected, undecided = creates.end()
    assert (len(reserved), len(rejected), undecided) == (_ROOM, _ASKED - _ROOM, set())
    assert _now(replicas[0], key).reservations.keys() == reserved


def test_a_write_whose_answer_was_lost_is_found_and_not_done_twice(
    replica: Callable[..., BatchedLedgers], proxy: TcpProxy
) -> None:
    ledgers, key = replica(proxy.port), _key()
    _open(ledgers, key, free_ledger(1))
    proxy.answers = fail_once("lose")
    assert ledgers.transact(key, Take("u1"), compute_deadline())
    assert proxy.answers() == ""
    assert _now(ledgers, key).compute_charged() == {GPU: 1}


def test_a_write_that_is_lost_is_sent_again(replica: Callable[..., BatchedLedgers], proxy: TcpProxy) -> None:
    ledgers, key = replica(proxy.port), _key()
    _open(ledgers, key, free_ledger(1))
    proxy.requests = fail_once("lose")
    assert ledgers.transact(key, Take("u1"), compute_deadline())
    assert proxy.requests() == ""
    assert _now(ledgers, key).compute_charged() == {GPU: 1}


def test_a_write_that_lands_after_its_sender_gave_up_is_not_granted_twice(
    replica: Callable[..., BatchedLedgers], proxy: TcpProxy
) -> None:
    late, other, key = replica(proxy.port), replica(), _key()
    _open(late, key, free_ledger(1))
    proxy.requests = fail_once("late")
    with pytest.raises(RetryLaterError):
        late.transact(key, Take("u1"), time.monotonic() + 0.2)
    until("the write has landed", lambda: "u1" in _now(other, key).reservations, 10.0)
    assert not other.transact(key, Take("u2"), compute_deadline())
    assert not late.transact(key, Take("u3"), compute_deadline())


@pytest.mark.parametrize("seed", range(2))
def test_lost_requests_and_answers_never_reserve_more_than_the_cap(
    replica: Callable[..., BatchedLedgers], proxy: TcpProxy, seed: int
) -> None:
    replicas, key = [replica(proxy.port), replica(proxy.port), replica()], _key()
    _open(replicas[2], key, free_ledger(_ROOM))
    proxy.requests, proxy.answers = fail_randomly(seed, 0.05), fail_randomly(seed + 100, 0.1)
    creates = _Creates(replicas, key)
    creates.begin()
    reserved, rejected, undecided = creates.end()
    ledger = _now(replicas[2], key)
    assert ledger.compute_charged()[GPU] <= _ROOM
    assert reserved <= ledger.reservations.keys() <= reserved | rejected | undecided
    assert len(reserved) > _ROOM // 2


def test_a_restart_of_the_api_server_loses_no_reservation(
    cluster: Cluster, replica: Callable[..., BatchedLedgers]
) -> None:
    replicas, key = [replica() for _ in range(2)], _key()
    _open(replicas[0], key, free_ledger(_ROOM))
    creates = _Creates(replicas, key)
    creates.begin(20)
    cluster.restart_api_server()
    creates.begin(80)
    reserved, rejected, undecided = creates.end()
    uids = _now(replicas[0], key).reservations.keys()
    assert len(uids) <= _ROOM
    assert reserved <= uids <= reserved | rejected | undecided
    assert len(reserved | undecided) >= _ROOM


def test_kubectl_shows_the_amounts_of_a_ledger(
    cluster: Cluster, namespace: str, replica: Callable[..., BatchedLedgers]
) -> None:
    ledgers = replica()
    hard = Amounts({GPU: 8, "memory": 64 << 30, "requests.cpu": 1500})
    used = Amounts({GPU: 3, "memory": 16 << 30, "requests.cpu": 250})
    counted = Ledger(hard, used=used, resources=frozenset(hard), pods_revision=17)
    _open(ledgers, LedgerKey("gpus-0123456789", "team-a"), counted)
    assert ledgers.transact(LedgerKey("gpus-0123456789", "team-a"), Take("u1", 2), compute_deadline())
    _open(ledgers, LedgerKey("all-0123456789", ""), Ledger(Amounts({"pods": 50}), initializer="m1"))
    printed = cluster.kubectl("get", "capledgers", "-n", namespace, "-o", "wide")
    names = "CAP NAMESPACE HARD USED RESERVED RESERVATIONS COUNTED INITIALIZING"
    head, shared, own = (re.split(r"\s{2,}", line) for line in printed.stdout.splitlines())
    assert head[1:] == names.split()
    assert shared[1:] == ["all-0123456789", "50 pods", "0", "0", "0", "m1"]
    assert own[1:7] == [
        "gpus-0123456789",
        "team-a",
        "64Gi memory, 8 nvidia.com/gpu, 1500m requests.cpu",
        "16Gi memory, 3 nvidia.com/gpu, 250m requests.cpu",
        "2 nvidia.com/gpu",
        "1",
    ]
    assert re.fullmatch(r"\d+s", own[7])


def test_a_deleted_ledger_reserves_nothing_until_it_is_counted_again(
    cluster: Cluster, namespace: str, replica: Callable[..., BatchedLedgers]
) -> None:
    ledgers, key = replica(), _key()
    _open(ledgers, key, free_ledger(_ROOM))
    name = f"capledger/{get_object_name(key)}"
    assert ledgers.transact(key, Take("u1"), compute_deadline())
    deleted = cluster.kubectl("delete", name, "-n", namespace)
    assert deleted.returncode == 0, deleted.stderr
    creates = _Creates([ledgers], key)
    creates.begin(3)
    assert [len(each) for each in creates.end()] == [0, 0, 3]
    assert _now(ledgers, key).initializer


def test_the_largest_ledger_that_is_sent_is_one_that_etcd_takes(cluster: Cluster, namespace: str) -> None:
    store, key = _store(cluster, namespace), _key()
    reservation = Reservation(
        "team-a",
        "p" * 253,
        Amounts(),
        Amounts({GPU: 8}),
        "0123456789abcdef-fffff",
        single_attempt=True,
        operation=Operation.CREATE,
    )

    def make_ledger(count: int) -> Ledger:
        return free_ledger(4).with_reservations((f"{each:036}", reservation) for each in range(count))

    def size(ledger: Ledger) -> int:
        return len(encode_ledger(key, ledger, namespace, None, datetime.now(UTC)).body)

    one = size(make_ledger(2)) - size(make_ledger(1))
    ledger = make_ledger((MAX_OBJECT_BYTES - 1000) // one)
    assert MAX_OBJECT_BYTES - 10_000 < size(ledger) <= MAX_OBJECT_BYTES
    version = store.write(key, free_ledger(4), None, 30.0)
    assert store.write(key, ledger, version, 30.0)
    found = store.read(key, 30.0)
    assert found is not None
    assert found.ledger == ledger


def test_a_field_that_the_definition_lacks_is_reported_and_not_dropped(cluster: Cluster, namespace: str) -> None:
    key = _key()
    body = json.loads(encode_ledger(key, free_ledger(4), namespace, None, datetime.now(UTC)).body)
    body["status"]["lease"] = "x"
    path = f"/apis/tallygate.dev/v1alpha1/namespaces/{namespace}/capledgers"
    client = ApiClient(load_kubeconfig(cluster.kubeconfig))
    answer = client.create(path, json.dumps(body).encode(), {"fieldValidation": "Strict"}, timeout=30.0)
    assert answer.status == 400
    assert b'unknown field \\"status.lease\\"' in answer.body


def test_a_state_of_another_object_of_the_same_name_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    store, key = _store(cluster, namespace), _key()
    version = store.write(key, free_ledger(4), None, 30.0)
    assert version is not None
    assert store.write(key, free_ledger(5), None, 30.0) is None
    assert (
        store.write(key, free_ledger(5), StoredVersion.parse(version)._replace(uid=f"{uuid4()}").to_text(), 30.0)
        is None
    )
    assert store.write(key, free_ledger(5), version, 30.0)
    assert store.write(key, free_ledger(6), version, 30.0) is None


def test_without_the_namespace_the_error_names_it(cluster: Cluster) -> None:
    store = _store(cluster, "nowhere")
    assert store.read(_key(), 30.0) is None
    with pytest.raises(StoreUnavailableError, match="there must be a namespace nowhere"):
        store.write(_key(), free_ledger(4), None, 30.0)
