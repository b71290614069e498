"""Drawn clusters of pods, claims, allocations and claims of the scheduler: a snapshot equals a plain sum over them."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.amounts import Amounts
from tallygate.kube.resource_codec import Replaced
from tallygate.state.ledger.ledger import Ledger, Operation, Reservation
from tallygate.state.ports import LedgerKey
from tests.accounting.claims import CLASS, Object, claim_object, exactly, first_available, result
from tests.calls import count_calls
from tests.effort import examples
from tests.gate.claim_replica import ClaimReplica
from tests.gate.gate_fixture import GPU, SHARED
from tests.state.informers.claims import scheduler_claim
from tests.state.informers.pods import pod as stored_pod

NAMESPACES = ("team-a", "team-b", "other")
OTHER = "other.example.com"


@dataclass(frozen=True)
class DrawnPod:
    """A pod, and the scheduler's claim for it: none, one that is not named yet, or one that is named."""

    namespace: str
    gpus: int
    has_ended: bool
    claim: str

    def sum_used(self) -> int:
        """Return the GPUs of the pod and of its claim: once, as long as the pod runs and its status names the claim."""
        if self.namespace not in {"team-a", "team-b"}:
            return 0
        pod = 0 if self.has_ended else self.gpus
        if not self.claim:
            return pod
        return pod if self.claim == "named" and not self.has_ended else pod + self.gpus


@dataclass(frozen=True)
class DrawnClaim:
    """A claim of a user: its requests, and the number of its allocated devices by request; None if it has none."""

    namespace: str
    requests: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]
    choices: tuple[int, ...] | None

    def sum_used(self) -> int:
        """Return the devices that the claim has, or may get."""
        if self.namespace not in {"team-a", "team-b"}:
            return 0
        if self.choices is None:
            return min(sum(max(_count(each) for each in alternatives) for _, alternatives in self.requests), 32)
        return sum(
            _count(alternatives[choice]) for (_, alternatives), choice in zip(self.requests, self.choices, strict=True)
        )


def _count(alternative: tuple[str, int]) -> int:
    return alternative[1] if alternative[0] == CLASS else 0


pods = st.lists(
    st.builds(
        DrawnPod,
        st.sampled_from(NAMESPACES),
        st.integers(1, 4),
        st.booleans(),
        st.sampled_from(["", "unnamed", "named"]),
    ),
    max_size=8,
)
alternatives = st.lists(st.tuples(st.sampled_from([CLASS, OTHER]), st.integers(1, 4)), min_size=1, max_size=3)


@st.composite
def claims(draw: st.DrawFn) -> DrawnClaim:
    """Draw a claim with up to three requests."""
    listed = draw(st.lists(alternatives.map(tuple), max_size=3))
    requests = tuple((f"r{index}", each) for index, each in enumerate(listed))
    is_allocated = draw(st.booleans())
    choices = tuple(draw(st.integers(0, len(each) - 1)) for _, each in requests) if is_allocated else None
    return DrawnClaim(draw(st.sampled_from(NAMESPACES)), requests, choices)


def create_pod(index: int, pod: DrawnPod) -> Object:
    """Return the pod as the API server sends it."""
    status: dict[str, Any] = {"phase": "Succeeded" if pod.has_ended else "Running"}
    if pod.claim == "named":
        status["extendedResourceClaimStatus"] = {"resourceClaimName": f"claim-s{index}"}
    return stored_pod(f"p{index}", index + 1, str(pod.gpus), pod.namespace, status=status)


def create_scheduler_claim(index: int, pod: DrawnPod) -> Object:
    """Return the claim that the scheduler made for the pod."""
    claim = scheduler_claim(f"s{index}", index + 1, f"p{index}", pod.gpus)
    claim["metadata"]["namespace"] = pod.namespace
    return claim


def create_claim(index: int, claim: DrawnClaim) -> Object:
    """Return the claim as the API server sends it."""
    requests, results = [], []
    for number, (name, listed) in enumerate(claim.requests):
        only = len(listed) == 1
        requests.append(exactly(listed[0][1], listed[0][0], name) if only else first_available(*listed, name=name))
        if claim.choices is not None:
            choice = claim.choices[number]
            path = name if only else f"{name}/choice-{choice}"
            results += [result(path) for _ in range(listed[choice][1])]
    identity = {"name": f"claim-c{index}", "namespace": claim.namespace, "uid": f"c{index}"}
    return claim_object(*requests, results=None if claim.choices is None else results, **identity)


@settings(max_examples=examples(200))
@given(pods, st.lists(claims(), max_size=8))
def test_what_is_counted_equals_a_plain_sum(drawn_pods: list[DrawnPod], drawn_claims: list[DrawnClaim]) -> None:
    replica = ClaimReplica(f"{SHARED}  guarantee: [{{namespaces: ['team-*'], amounts: {{nvidia.com/gpu: 1}}}}]\n")
    for name in NAMESPACES:
        replica.label_namespace(name)
    listed = [create_pod(index, pod) for index, pod in enumerate(drawn_pods)]
    stored = [create_scheduler_claim(index, pod) for index, pod in enumerate(drawn_pods) if pod.claim]
    stored += [create_claim(index, claim) for index, claim in enumerate(drawn_claims)]
    for store, items in ((replica.pods, listed), (replica.claims, stored)):
        body = json.dumps({"metadata": {"resourceVersion": "300"}, "items": items}).encode()
        store.apply(Replaced(store.codec.decode_page(body).items, 300))
    (cap,) = replica.caps.list_caps()
    snapshot = replica.usage_lister.take_snapshot(cap, LedgerKey(cap.key, ""), Ledger(cap.hard))
    assert snapshot is not None
    expected = sum(pod.sum_used() for pod in drawn_pods) + sum(claim.sum_used() for claim in drawn_claims)
    assert snapshot.used.get(GPU, 0) == expected
    drawn: list[DrawnPod | DrawnClaim] = [*drawn_pods, *drawn_claims]
    assert {name: used.get(GPU, 0) for name, used in snapshot.used_by_namespace.items()} == {
        name: sum(each.sum_used() for each in drawn if each.namespace == name) for name in ("team-a", "team-b")
    }
    unnamed = [pod for pod in drawn_pods if pod.claim and pod.namespace != "other"]
    unconfirmed = sum(pod.gpus for pod in unnamed if pod.has_ended or pod.claim == "unnamed")
    assert snapshot.unconfirmed.get(GPU, 0) == unconfirmed


def test_the_work_of_a_snapshot_does_not_grow_with_the_reservations() -> None:
    def count(number: int) -> int:
        replica = ClaimReplica(SHARED)
        replica.label_namespace("team-a")
        for store in (replica.pods, replica.claims):
            store.apply(Replaced([], 300))
        (cap,) = replica.caps.list_caps()
        reservation = Reservation(
            "team-a", "p", Amounts(), Amounts({GPU: 1}), "n", single_attempt=True, operation=Operation.CREATE
        )
        ledger = Ledger(cap.hard).with_reservations((f"u{each}", reservation) for each in range(number))
        replica.usage_lister.take_snapshot(cap, LedgerKey(cap.key, ""), ledger)
        return count_calls(lambda: replica.usage_lister.take_snapshot(cap, LedgerKey(cap.key, ""), ledger))

    assert count(2_000) < count(20) + 100
