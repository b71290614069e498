"""What caps grant beside what nodes have, compared with all ways to share small amounts."""

from collections.abc import Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tallygate.answers.capacity_report import (
    CAPACITIES,
    CapacityRecord,
    Grant,
    list_capacities,
    list_ledger_capacities,
    sum_grants,
)
from tallygate.answers.usage_report import LedgerChoice, compute_usage_of_caps
from tallygate.server.telemetry.controller_metrics import CapacityMetrics
from tallygate.state.ledger.ledger import Ledger
from tests.answers.asked_clusters import NOW, Object, build_state, read_policies
from tests.answers.test_answer_json import create_stored_pod
from tests.answers.test_overviews import GPU, create_node

NAMES = "abcd"
GRANTS = st.lists(
    st.builds(Grant, st.frozensets(st.sampled_from(NAMES)), st.integers(0, 3), st.just(False)),  # noqa: FBT003
    max_size=5,
)
_CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: teams}
spec: {namespaces: {include: ["team-*"]}, hard: {nvidia.com/gpu: 6, limits.memory: 1Gi}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: all-teams}
spec: {namespaces: {include: ["team-*"]}, shared: true, hard: {nvidia.com/gpu: 10}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: batch}
spec:
  namespaces: {include: [batch]}
  hard: {nvidia.com/gpu: 3, example.com/licence: 5}
  pods: {priorityClasses: [low]}
"""


def _find_most(grants: Sequence[Grant]) -> int:
    """Return the most that the namespaces of some limits may have together, by trying all amounts."""
    covered = sorted(frozenset().union(*(grant.members for grant in grants)))
    best = 0
    for amounts in product(range(4), repeat=len(covered)):
        shares = dict(zip(covered, amounts, strict=True))
        if all(sum(shares[name] for name in each.members) <= (each.amount or 0) for each in grants):
            best = max(best, sum(amounts))
    return best


def _are_nested(grants: Sequence[Grant]) -> bool:
    sets = [grant.members for grant in grants]
    return all(one <= other or other <= one or not one & other for one in sets for other in sets)


@given(GRANTS)
def test_nested_limits_grant_the_most_that_can_be_had(grants: list[Grant]) -> None:
    """Compare with all ways to share the amounts; limits with a part in common may grant more, never less."""
    found, most = sum_grants(grants), _find_most(grants)
    assert found is not None
    assert found == most if _are_nested(grants) else found >= most


def test_an_unknown_amount_has_no_sum() -> None:
    assert sum_grants([Grant(frozenset("a"), 1), Grant(frozenset("b"), None)]) is None


def test_a_limit_for_some_pods_bounds_no_namespace() -> None:
    """Expect the amount of such a limit only where no other one has its namespaces."""
    outer, some, alone = (
        Grant(frozenset("ab"), 5),
        Grant(frozenset("a"), 1, is_partial=True),
        Grant(frozenset("c"), 2, is_partial=True),
    )
    assert sum_grants([outer, Grant(frozenset("b"), 1), some]) == 5
    assert sum_grants([outer, some, alone]) == 7


def _list_records(*pods: Object) -> dict[str, CapacityRecord]:
    namespaces = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "team-b", "batch", "free")]
    nodes: list[Object] = [create_node("n1", "8"), create_node("n2", "4", unschedulable=True)]
    state = build_state([*nodes, *namespaces, *pods])
    _, ledgers = compute_usage_of_caps(state, state.index_caps(read_policies(_CAPS), NOW), LedgerChoice())
    records = list_capacities(state, ledgers)
    return {record.name: record for record in records}


def test_each_resource_has_what_nodes_have_and_what_caps_grant() -> None:
    """Compare two teams of at most 6 GPUs each, 10 together, and some pods of a third namespace, with 12 GPUs."""
    records = _list_records(create_stored_pod("p", "team-a", "n1", {GPU: "4"}))
    gpus = records[GPU]
    assert (gpus.capacity, gpus.granted, gpus.committed_percent) == (12, 13, 109)
    assert gpus.without_cap == 2
    row = CAPACITIES.to_dict(gpus)
    assert {key: row[key] for key in ("freeOnNodes", "freeInCaps", "stranded", "unreachable")} == {
        "freeOnNodes": 8,
        "freeInCaps": 9,
        "stranded": 0,
        "unreachable": 1,
    }
    licences = CAPACITIES.to_dict(records["example.com/licence"])
    assert (licences["freeInCaps"], licences["stranded"], licences["unreachable"]) == (5, None, None)


def test_a_cap_above_its_limit_has_nothing_free() -> None:
    """Let a team have 11 GPUs of its 6, and of the 10 that it shares; 3 are free under the cap of a third namespace."""
    gpus = _list_records(create_stored_pod("p", "team-a", "n1", {GPU: "11"}))[GPU]
    assert (gpus.free_in_caps, gpus.free_on_nodes) == (3, 4)


def test_the_ledgers_of_a_gate_give_the_same_amounts_as_metrics() -> None:
    """Collect the metrics from ledgers with the amounts of the pods; another replica than the leader has none."""
    namespaces = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "team-b", "batch", "free")]
    pod = create_stored_pod("p", "team-a", "n1", {GPU: "4"})
    state = build_state([create_node("n1", "8"), create_node("n2", "4"), *namespaces, pod])
    caps = state.index_caps(read_policies(_CAPS), NOW)
    ledgers = {
        key: Ledger(cap.hard, used=state.count_usage(cap, state.get_membership(cap, key).names, None).used)
        for cap in state.list_caps(caps)
        for key in state.list_keys(cap)
    }
    found = list_ledger_capacities(state, caps, ledgers, state.require_columns())
    assert {record.name: record for record in found} == _list_records(pod)
    is_leader, registry = [True], CollectorRegistry()
    CapacityMetrics(registry, lambda: found, lambda: is_leader[0], lambda: 0.0)
    assert registry.get_sample_value("tallygate_capacity_granted", {"resource": GPU}) == 13
    assert registry.get_sample_value("tallygate_capacity_stranded", {"resource": "example.com/licence"}) is None
    is_leader[0] = False
    assert registry.get_sample_value("tallygate_capacity_granted", {"resource": GPU}) is None


def test_free_amounts_on_nodes_and_in_caps_are_compared_both_ways() -> None:
    record = CapacityRecord(GPU, 12, 10, 0, 8, 5, 0)
    assert (record.stranded, record.unreachable, record.describe()) == (3, 0, "")
    record = CapacityRecord(GPU, 12, 10, 14, 5, 8, 1)
    assert (record.stranded, record.unreachable) == (0, 3)
    assert record.describe() == "2 more guaranteed than nodes have; 1 namespace without a cap may use more"


_SHARED = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: pool}
spec:
  namespaces: {include: ["team-*"]}
  shared: true
  hard: {nvidia.com/gpu: 50%}
  guarantee:
  - {namespaces: [team-a], amounts: {nvidia.com/gpu: 3}}
  - {namespaces: ["team-*"], amounts: {nvidia.com/gpu: 25%}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: wide}
spec:
  namespaces: {include: ["*"]}
  shared: true
  hard: {nvidia.com/gpu: 30, cpu: 5}
  guarantee: [{namespaces: [team-a, batch], amounts: {nvidia.com/gpu: 10}}]
"""
_MEMBERS = [{"kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "team-b", "batch")]
_TWO_NODES = [create_node("n1", "8"), create_node("n2", "4")]
_NO_DEVICES: list[Object] = [{"kind": f"{kind}List", "items": []} for kind in ("DeviceClass", "ResourceSlice")]


def test_what_is_guaranteed_to_a_namespace_is_the_largest_of_its_guarantees() -> None:
    """Compare 12 GPUs with 10 for one team and the batch namespace each, and a quarter of 6 for the other team."""
    state = build_state([*_TWO_NODES, *_MEMBERS, *_NO_DEVICES])
    _, ledgers = compute_usage_of_caps(state, state.index_caps(read_policies(_SHARED), NOW), LedgerChoice())
    records = {record.name: record for record in list_capacities(state, ledgers)}
    assert (records[GPU].guaranteed, records["cpu"].guaranteed) == (10 + 10 + 1, 0)
    assert records[GPU].describe() == "9 more guaranteed than nodes have"


def test_an_unknown_capacity_leaves_what_is_granted_and_guaranteed_unknown() -> None:
    """Expect no sums, as by a snapshot without DeviceClasses, although the limit of another cap is known."""
    state = build_state([*_TWO_NODES, *_MEMBERS])
    caps = state.index_caps(read_policies(_SHARED), NOW)
    _, ledgers = compute_usage_of_caps(state, caps, LedgerChoice())
    stored = {key: Ledger(cap.hard) for cap in state.list_caps(caps) for key in state.list_keys(cap)}
    for found in (
        list_capacities(state, ledgers),
        list_ledger_capacities(state, caps, stored, state.require_columns()),
    ):
        records = {record.name: record for record in found}
        assert (records[GPU].granted, records[GPU].guaranteed, records[GPU].stranded) == (None, None, None)
        assert records["cpu"].granted == 5000


def test_what_is_not_on_nodes_has_no_capacity() -> None:
    """Expect unknown amounts for a licence that no node has, and for limits, which use nothing of a node."""
    records = _list_records()
    licence, memory = records["example.com/licence"], records["limits.memory"]
    assert (licence.capacity, licence.granted, licence.committed_percent, licence.stranded) == (None, 5, None, None)
    assert (memory.capacity, memory.free_on_nodes, memory.unreachable) == (128 * 2**30, None, None)
