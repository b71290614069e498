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

from e2e.forwarder import Forwarder, now_and_then, once
from e2e.ledgers import forget_ledgers
from e2e.ports import Cluster
from e2e.waiting import until
from tests.state.attempts import GPU, Look, Put, Take, room
from tests.state.contract import LedgersContract, Opened, soon
from webhook.accounting.amounts import Amounts
from webhook.admission.cap_index import CapIndex
from webhook.gate.charging import CapCharge, ChargedPod, ChargeResult, charge_pod
from webhook.kube.client import ApiClient, ClientConfig
from webhook.kube.config import load_kubeconfig
from webhook.policy.parse import parse
from webhook.state.batched_ledgers import BatchedLedgers
from webhook.state.kubernetes.cap_ledger import MAX_OBJECT_BYTES, StoredVersion, encode_ledger, get_object_name
from webhook.state.kubernetes.ledger_store import KubernetesLedgerStore
from webhook.state.ledger.ledger import Ledger, Operation, Reservation
from webhook.state.ports import LedgerKey, RetryLaterError, StoreUnavailableError

_DEFINITION = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "cluster-access" / "crd.yaml"
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: [team-a]}, hard: {nvidia.com/gpu: 60}}
"""
(_COUNTED,) = CapIndex(parse([("cap.yaml", _CAP.encode())]).policies).list_caps()
_ROOM, _ASKED = 60, 100
_WITHOUT_FINALIZERS = '{"metadata":{"finalizers":null}}'


@pytest.fixture(scope="module", autouse=True)
def definition(cluster: Cluster) -> None:
    """The cluster knows what a CapLedger is."""
    applied = cluster.kubectl("apply", "-f", str(_DEFINITION))
    assert applied.returncode == 0, applied.stderr
    waited = cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/capledgers.tallygate.dev")
    assert waited.returncode == 0, waited.stderr


@pytest.fixture
def namespace(cluster: Cluster, namespace: str) -> Iterator[str]:
    """A namespace whose ledgers are taken away: it would never be gone, and others would see them meanwhile."""
    yield namespace
    forget_ledgers(cluster, namespace)


@pytest.fixture
def replica(cluster: Cluster, namespace: str) -> Callable[..., BatchedLedgers]:
    """Makes a replica, with connections of its own, by way of a port of this machine if one is given."""

    def make(port: int | None = None) -> BatchedLedgers:
        return BatchedLedgers(_store(cluster, namespace, port), time.monotonic)

    return make


@pytest.fixture
def meddler(cluster: Cluster) -> Iterator[Forwarder]:
    """Between the replicas and the API server."""
    server = urlsplit(load_kubeconfig(cluster.kubeconfig).server)
    if server.hostname != "127.0.0.1" or server.port is None:
        pytest.skip("its certificate would not be good for a proxy on this machine")
    with Forwarder(server.port) as meddler:
        yield meddler


def _store(cluster: Cluster, namespace: str, port: int | None = None) -> KubernetesLedgerStore:
    access: ClientConfig = load_kubeconfig(cluster.kubeconfig)
    if port is not None:
        access.server = f"https://127.0.0.1:{port}"
    return KubernetesLedgerStore(access, namespace, lambda: datetime.now(UTC))


def _key() -> LedgerKey:
    return LedgerKey(f"{_COUNTED.key}{uuid4().hex[:4]}", "team-a")


def _open(ledgers: BatchedLedgers, key: LedgerKey, ledger: Ledger) -> None:
    ledgers.transact(key, Put(lambda _: ledger), soon())


def _now(ledgers: BatchedLedgers, key: LedgerKey) -> Ledger:
    found = ledgers.transact(key, Look(), soon())
    assert found is not None
    return found


class TestKubernetesLedgers(LedgersContract):
    """They do as all ledgers do."""

    @pytest.fixture
    def ledgers(self, replica: Callable[..., BatchedLedgers]) -> BatchedLedgers:
        """In a namespace of the case's own."""
        return replica()

    @pytest.fixture
    def opened(self, ledgers: BatchedLedgers) -> Opened:
        """By a write, as anybody's."""
        return lambda key, ledger: _open(ledgers, key, ledger)


class _Creates:
    """Creates of pods with one GPU each, at several replicas in turn, by several threads."""

    def __init__(self, replicas: Sequence[BatchedLedgers], key: LedgerKey) -> None:
        self._replicas = replicas
        self._counted = dataclasses.replace(_COUNTED, key=key.cap)
        self._pool = ThreadPoolExecutor(4 * len(replicas))
        self._creates: list[Future[ChargeResult]] = []

    def begin(self, count: int = _ASKED) -> None:
        """Let so many arrive."""
        first = len(self._creates)
        self._creates += [self._pool.submit(self._create, each) for each in range(first, first + count)]

    def end(self) -> tuple[set[str], set[str], set[str]]:
        """The UIDs of who was granted, refused, and sent away without a decision."""
        granted, refused, undecided = set[str](), set[str](), set[str]()
        for each, create in enumerate(self._creates):
            outcome = create.result()
            kind = refused if outcome.exceeded else undecided if outcome.obstacles else granted
            kind.add(f"u{each}")
        self._pool.shutdown()
        return granted, refused, undecided

    def _create(self, each: int) -> ChargeResult:
        who = ChargedPod(f"u{each}", "team-a", f"pod-{each}", f"n{each}", Operation.CREATE)
        asked = CapCharge(self._counted, Amounts(), Amounts({GPU: 1}), may_exceed=False)
        return charge_pod(self._replicas[each % len(self._replicas)], who, [asked], time.monotonic() + 30.0)


def test_of_three_replicas_together_exactly_the_cap_is_granted(replica: Callable[..., BatchedLedgers]) -> None:
    replicas, key = [replica() for _ in range(3)], _key()
    _open(replicas[0], key, room(_ROOM))
    creates = _Creates(replicas, key)
    creates.begin()
    granted, refused, undecided = creates.end()
    assert (len(granted), len(refused), undecided) == (_ROOM, _ASKED - _ROOM, set())
    assert _now(replicas[0], key).reservations.keys() == granted


def test_a_write_whose_answer_was_lost_is_found_and_not_done_twice(
    replica: Callable[..., BatchedLedgers], meddler: Forwarder
) -> None:
    ledgers, key = replica(meddler.port), _key()
    _open(ledgers, key, room(1))
    meddler.answers = once("lose")
    assert ledgers.transact(key, Take("u1"), soon())
    assert meddler.answers() == ""
    assert _now(ledgers, key).compute_charged() == {GPU: 1}


def test_a_write_that_got_lost_is_sent_again(replica: Callable[..., BatchedLedgers], meddler: Forwarder) -> None:
    ledgers, key = replica(meddler.port), _key()
    _open(ledgers, key, room(1))
    meddler.requests = once("lose")
    assert ledgers.transact(key, Take("u1"), soon())
    assert meddler.requests() == ""
    assert _now(ledgers, key).compute_charged() == {GPU: 1}


def test_a_write_that_lands_after_its_sender_gave_up_is_not_granted_twice(
    replica: Callable[..., BatchedLedgers], meddler: Forwarder
) -> None:
    late, other, key = replica(meddler.port), replica(), _key()
    _open(late, key, room(1))
    meddler.requests = once("late")
    with pytest.raises(RetryLaterError):
        late.transact(key, Take("u1"), time.monotonic() + 0.2)
    until("the write has landed", lambda: "u1" in _now(other, key).reservations, 10.0)
    assert not other.transact(key, Take("u2"), soon())
    assert not late.transact(key, Take("u3"), soon())


@pytest.mark.parametrize("seed", range(2))
def test_whatever_gets_lost_on_the_way_never_more_than_the_cap_is_granted(
    replica: Callable[..., BatchedLedgers], meddler: Forwarder, seed: int
) -> None:
    replicas, key = [replica(meddler.port), replica(meddler.port), replica()], _key()
    _open(replicas[2], key, room(_ROOM))
    meddler.requests, meddler.answers = now_and_then(seed, 0.05), now_and_then(seed + 100, 0.1)
    creates = _Creates(replicas, key)
    creates.begin()
    granted, refused, undecided = creates.end()
    ledger = _now(replicas[2], key)
    assert ledger.compute_charged()[GPU] <= _ROOM
    assert granted <= ledger.reservations.keys() <= granted | refused | undecided
    assert len(granted) > _ROOM // 2


def test_a_restart_of_the_api_server_loses_no_promise(cluster: Cluster, replica: Callable[..., BatchedLedgers]) -> None:
    replicas, key = [replica() for _ in range(2)], _key()
    _open(replicas[0], key, room(_ROOM))
    creates = _Creates(replicas, key)
    creates.begin(20)
    cluster.restart_api_server()
    creates.begin(80)
    granted, refused, undecided = creates.end()
    rows = _now(replicas[0], key).reservations.keys()
    assert len(rows) <= _ROOM
    assert granted <= rows <= granted | refused | undecided
    assert len(granted | undecided) >= _ROOM


def test_a_ledger_shows_what_people_want_to_know(
    cluster: Cluster, namespace: str, replica: Callable[..., BatchedLedgers]
) -> None:
    ledgers = replica()
    hard = Amounts({GPU: 8, "memory": 64 << 30, "requests.cpu": 1500})
    held = Amounts({GPU: 3, "memory": 16 << 30, "requests.cpu": 250})
    counted = Ledger(hard, used=held, resources=frozenset(hard), pods_revision=17)
    _open(ledgers, LedgerKey("gpus-0123456789", "team-a"), counted)
    assert ledgers.transact(LedgerKey("gpus-0123456789", "team-a"), Take("u1", 2), soon())
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


def test_a_deleted_ledger_stays_in_force_until_it_is_let_go_and_then_promises_nothing(
    cluster: Cluster, namespace: str, replica: Callable[..., BatchedLedgers]
) -> None:
    ledgers, key = replica(), _key()
    _open(ledgers, key, room(_ROOM))
    name = f"capledger/{get_object_name(key)}"
    assert cluster.kubectl("delete", name, "-n", namespace, "--wait=false").returncode == 0
    assert ledgers.transact(key, Take("u1"), soon())
    assert "deletionTimestamp" in cluster.kubectl("get", name, "-n", namespace, "-o", "yaml").stdout
    let_go = cluster.kubectl("patch", name, "-n", namespace, "--type=merge", "-p", _WITHOUT_FINALIZERS)
    assert let_go.returncode == 0, let_go.stderr
    creates = _Creates([ledgers], key)
    creates.begin(3)
    assert [len(each) for each in creates.end()] == [0, 0, 3]
    assert _now(ledgers, key).initializer


def test_the_largest_ledger_that_is_sent_is_one_that_etcd_takes(cluster: Cluster, namespace: str) -> None:
    store, key = _store(cluster, namespace), _key()
    row = Reservation(
        "team-a",
        "p" * 253,
        Amounts(),
        Amounts({GPU: 8}),
        "0123456789abcdef-fffff",
        single_attempt=True,
        operation=Operation.CREATE,
    )

    def of(count: int) -> Ledger:
        return room(4).with_reservations((f"{each:036}", row) for each in range(count))

    def size(ledger: Ledger) -> int:
        return len(encode_ledger(key, ledger, namespace, None, datetime.now(UTC)).body)

    one = size(of(2)) - size(of(1))
    ledger = of((MAX_OBJECT_BYTES - 1000) // one)
    assert MAX_OBJECT_BYTES - 10_000 < size(ledger) <= MAX_OBJECT_BYTES
    version = store.write(key, room(4), None, 30.0)
    assert store.write(key, ledger, version, 30.0)
    found = store.read(key, 30.0)
    assert found is not None
    assert found.ledger == ledger


def test_a_field_that_the_definition_lacks_is_told_and_not_dropped(cluster: Cluster, namespace: str) -> None:
    key = _key()
    body = json.loads(encode_ledger(key, room(4), namespace, None, datetime.now(UTC)).body)
    body["status"]["lease"] = "x"
    path = f"/apis/tallygate.dev/v1alpha1/namespaces/{namespace}/capledgers"
    client = ApiClient(load_kubeconfig(cluster.kubeconfig))
    answer = client.create(path, json.dumps(body).encode(), {"fieldValidation": "Strict"}, timeout=30.0)
    assert answer.status == 400
    assert b'unknown field \\"status.lease\\"' in answer.body


def test_a_state_of_another_object_of_the_same_name_is_a_conflict(cluster: Cluster, namespace: str) -> None:
    store, key = _store(cluster, namespace), _key()
    version = store.write(key, room(4), None, 30.0)
    assert version is not None
    assert store.write(key, room(5), None, 30.0) is None
    assert store.write(key, room(5), StoredVersion.parse(version)._replace(uid=f"{uuid4()}").to_text(), 30.0) is None
    assert store.write(key, room(5), version, 30.0)
    assert store.write(key, room(6), version, 30.0) is None


def test_without_the_namespace_it_is_said_what_is_missing(cluster: Cluster) -> None:
    store = _store(cluster, "nowhere")
    assert store.read(_key(), 30.0) is None
    with pytest.raises(StoreUnavailableError, match="there must be a namespace nowhere"):
        store.write(_key(), room(4), None, 30.0)
