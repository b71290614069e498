"""Caps without a hard limit reject nothing, whatever the state of their ledgers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tallygate.accounting.amounts import Amounts
from tallygate.admission.request import Phase
from tallygate.cluster.usage_lister import UsageLister
from tallygate.gate.gate import Gate
from tallygate.review.view import ClusterView
from tallygate.state.informers.pod_store import PodStore
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ledger.reserve import MAX_RESERVATIONS
from tallygate.state.ports import (
    LedgerFullError,
    RetryLaterError,
    StoreUnavailableError,
    StoreUnreachableError,
    UnknownOutcomeError,
)
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, response
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.gate.test_unavailable_ledgers import FailingLedgers

SOFT = CAP.replace("hard:", "soft:")
MIXED = CAP + "  soft: {requests.cpu: 1}\n"
TWO_CAPS = CAP + "---" + SOFT.replace("gpus", "a-soft")
ONE = Amounts({GPU: 1})


def change_ledger(replica: ReplicaFixture, **fields: Any) -> None:
    """Change fields of the only ledger."""
    replica.change_ledger(**fields)


def lose(replica: ReplicaFixture) -> None:
    """Delete the ledger as a user would."""
    replica.delete_ledger(replica.get_ledger_key())


def count_other_namespaces(replica: ReplicaFixture) -> None:
    """Let another replica count the ledger with other and newer namespaces."""
    change_ledger(replica, namespaces_hash="other", namespaces_revision=10**9)


def count_newer_pods(replica: ReplicaFixture) -> None:
    """Let another replica count the ledger from newer pods, without the names."""
    change_ledger(replica, resources=frozenset(), pods_revision=10**9)


def fill_rows(replica: ReplicaFixture) -> None:
    """Give the ledger as many reservations as it may have."""
    row = Reservation("team-a", "p", Amounts(), ONE, "other", True, Operation.CREATE)  # noqa: FBT003  # as in the codec
    rows = {f"full-{number}": row for number in range(MAX_RESERVATIONS)}
    change_ledger(replica, **_get_fields(replica.read_ledger().with_reservations(rows.items())))


def _get_fields(ledger: Ledger) -> dict[str, Any]:
    return {name: getattr(ledger, name) for name in ("reservations", "reserved", "reserved_by_namespace")}


@pytest.mark.parametrize(
    "change",
    [
        lose,
        lambda replica: change_ledger(replica, initializer="n"),
        count_other_namespaces,
        count_newer_pods,
        fill_rows,
    ],
    ids=["lost", "initializing", "newer namespaces", "newer pods", "full of reservations"],
)
def test_a_cap_with_a_soft_limit_alone_admits_in_every_state_of_its_ledger(
    change: Callable[[ReplicaFixture], None],
) -> None:
    replica = create_active_replica(SOFT)
    assert replica.request_pod("u1") == 200
    change(replica)
    assert replica.request_pod("u2") == 200
    assert replica.request_pod("u3", dryRun=True) == 200


def test_a_cap_with_a_soft_limit_alone_admits_before_its_first_count() -> None:
    replica = ReplicaFixture(SOFT)
    body = json.loads(replica.admit(pod("u1", 9), namespace="team-a").body)["response"]
    assert body["allowed"]
    assert "cap gpus was not evaluated, and has no hard limit on this request" in body["warnings"][0]


def test_a_cap_with_a_soft_limit_alone_admits_before_pods_are_listed_and_in_an_unknown_namespace() -> None:
    replica = create_active_replica(SOFT)
    unlisted = UsageLister(PodStore(), replica.namespaces, lambda: replica.now, lambda: None)
    assert replica.request_pod("u1", namespace="team-unknown") == 200
    replica.gate = Gate(
        policies=lambda: replica.policies,
        view=ClusterView(namespaces=replica.namespaces, usage_lister=unlisted),
        ledgers=replica.ledgers,
        monotonic=lambda: replica.now,
        nonce=lambda: "n",
        unix_time=lambda: replica.now,
    )
    assert replica.request_pod("u2") == 200


@pytest.mark.parametrize(
    "failure",
    [
        RetryLaterError("others were in the way"),
        LedgerFullError("too large"),
        StoreUnavailableError("not allowed"),
        StoreUnreachableError("connection refused"),
        UnknownOutcomeError("connection reset"),
    ],
    ids=lambda failure: type(failure).__name__,
)
@pytest.mark.parametrize("is_written", [False, True])
def test_a_cap_with_a_soft_limit_alone_admits_when_its_ledger_fails(failure: Any, is_written: bool) -> None:  # noqa: FBT001  # a table
    fixture = GateFixture(SOFT, ledgers=FailingLedgers("gpus", failure, written=is_written))
    decision = fixture.create(1)
    assert response(decision)["allowed"]
    assert decision.record.unknown == (f"cap gpus was not evaluated, and has no hard limit on this request: {failure}",)


def test_a_soft_cap_that_fails_neither_delays_nor_releases_a_hard_one() -> None:
    fixture = GateFixture(TWO_CAPS, ledgers=FailingLedgers("a-soft", StoreUnavailableError("not allowed")))
    assert response(fixture.create(3))["allowed"]
    assert fixture.read_reserved("gpus") == {GPU: 3}
    denied = response(fixture.create(2, name="other"))
    assert (denied["allowed"], denied["status"]["code"]) == (False, 403)
    assert fixture.read_reserved("a-soft") == {}, "a pod that another cap rejects is not reserved"


def test_a_decision_under_soft_limits_alone_needs_no_time() -> None:
    fixture = GateFixture(SOFT)
    fixture.now = 5.0
    assert response(fixture.create(1))["allowed"]


def test_a_name_with_a_soft_limit_alone_rejects_nothing_under_a_cap_with_hard_limits() -> None:
    replica = create_active_replica(MIXED)
    change_ledger(replica, initializer="n")
    amounts = {"requests": {"cpu": "1"}}
    object_ = {
        "kind": "Pod",
        "metadata": {"uid": "u1", "name": "p"},
        "spec": {"containers": [{"name": "c", "resources": amounts}]},
    }
    assert response(replica.admit(object_, Phase.VALIDATING))["allowed"]
    assert replica.request_pod("u2") == 429


def test_a_missing_limit_under_a_soft_limit_is_a_warning() -> None:
    text = SOFT.replace("{nvidia.com/gpu: 4}", "{limits.memory: 1Gi}")
    answer = response(GateFixture(text).create(1))
    assert answer["allowed"]
    assert any("cap gpus counts limits.memory" in each for each in answer["warnings"])
    assert not response(GateFixture(text.replace("soft:", "hard:")).create(1))["allowed"]


def test_a_workload_without_a_limit_under_a_soft_limit_is_never_denied() -> None:
    text = SOFT.replace("{nvidia.com/gpu: 4}", "{limits.memory: 1Gi}\n  workloads: deny")
    template = {"spec": {"containers": [{"name": "c"}]}}
    deployment = {
        "kind": "Deployment",
        "metadata": {"uid": "d", "name": "d"},
        "spec": {"replicas": 1, "template": template},
    }
    kind = {"group": "apps", "kind": "Deployment"}
    assert response(GateFixture(text).admit(deployment, kind=kind))["allowed"]


def test_a_soft_cap_that_selects_by_unknown_labels_rejects_nothing() -> None:
    text = SOFT.replace('include: ["team-*"]', "selector: {matchLabels: {gpu: 'yes'}}")
    decision = GateFixture(text).create(1)
    assert response(decision)["allowed"]
    assert "it selects namespaces by label" in decision.record.unknown[0]
