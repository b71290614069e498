"""The change of one node, and its refusals: use, other field managers, device plugins."""

import msgspec
import pytest

from tallygate.cli.advertise.change_run import FIELD_MANAGER, ChangeRequest, list_refusals
from tallygate.gate.node_publisher import compare_amounts
from tallygate.objects.core import Pod
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.state.kubernetes.node_usage import NodeUsage
from tests.cli.advertise.published_node import OURS, SEAT, Object, create_node

_CAREFUL = ChangeRequest("n1", "", {}, 60)
_BELOW_USE = ChangeRequest("n1", "", {}, 60, below_use=True)
_FORCED = ChangeRequest("n1", "", {}, 60, force_conflicts=True)
_FOUR = {SEAT: "4"}


def _count(*pods: Object) -> NodeUsage:
    usage = NodeUsage()
    for each in pods:
        usage.add(msgspec.convert(each, Pod), {SEAT})
    return usage


def _create_pod(name: str, seats: str, node: str = "n1", phase: str = "Running") -> Object:
    resources = {"limits": {SEAT: msgspec.Raw(msgspec.json.encode(seats))}}
    spec = {"nodeName": node, "containers": [{"name": "main", "resources": resources}]}
    return {"metadata": {"namespace": "team-a", "name": name}, "spec": spec, "status": {"phase": phase}}


def _refuse(node: Object, wanted: int | None, usage: NodeUsage, request: ChangeRequest = _CAREFUL) -> list[str]:
    stored = _decode(node)
    (change,) = compare_amounts(stored, {SEAT: wanted}, FIELD_MANAGER)
    return list(list_refusals(stored, change, usage, request))


def _decode(node: Object) -> OwnedNode:
    return msgspec.json.decode(msgspec.json.encode(node), type=OwnedNode)


@pytest.mark.parametrize(
    ("node", "wanted", "is_needed"),
    [
        (create_node(), 4, True),
        (create_node(), None, False),
        (create_node(capacity=_FOUR, managers={OURS: [SEAT]}), 4, False),
        (create_node(capacity={SEAT: "4k"}, managers={OURS: [SEAT]}), 4000, False),
        (create_node(capacity=_FOUR, managers={OURS: [SEAT]}), 5, True),
        (create_node(capacity=_FOUR, managers={OURS: [SEAT]}), None, True),
        (create_node(capacity=_FOUR, managers={"kubectl": [SEAT]}), 4, True),
        (create_node(capacity=_FOUR, allocatable={}, managers={OURS: [SEAT]}), 4, True),
        (create_node(capacity={}, allocatable=_FOUR, managers={OURS: []}), None, True),
        (create_node(capacity={SEAT: "what"}, managers={OURS: [SEAT]}), 4, True),
    ],
    ids=[
        "new",
        "none",
        "same",
        "same-as-4k",
        "more",
        "withdrawn",
        "other-owner",
        "not-allocatable",
        "rest",
        "unreadable",
    ],
)
def test_only_a_difference_is_written(node: Object, wanted: int | None, *, is_needed: bool) -> None:
    (change,) = compare_amounts(_decode(node), {SEAT: wanted}, FIELD_MANAGER)
    assert (change.is_needed, _refuse(node, wanted, _count())) == (is_needed, [])


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (create_node(capacity=_FOUR), 6),
        (create_node(capacity=_FOUR), None),
        (create_node(capacity=_FOUR, managers={OURS: [SEAT]}, followers={"kubelet": [SEAT]}), 6),
        (create_node(capacity=_FOUR, managers={OURS: [SEAT]}, followers={"kubelet": [SEAT]}), None),
        (create_node(capacity={SEAT: "0"}, managers={"kubelet": [SEAT]}), 6),
        (
            create_node(
                capacity={SEAT: "6"}, allocatable=_FOUR, managers={"kubectl": [SEAT]}, followers={OURS: [SEAT]}
            ),
            6,
        ),
    ],
    ids=["created-with-it", "withdrawn-as-created", "kubelet-follows", "withdrawn-followed", "kubelet-reset", "equal"],
)
def test_these_amounts_have_no_other_manager(node: Object, wanted: int | None) -> None:
    assert _refuse(node, wanted, _count()) == []


@pytest.mark.parametrize("wanted", [6, None])
def test_the_amount_of_another_manager_stays_unless_it_is_forced(wanted: int | None) -> None:
    node = create_node(capacity=_FOUR, managers={"kubectl-patch": [SEAT], OURS: [SEAT]})
    (refusal,) = _refuse(node, wanted, _count())
    assert refusal.startswith(f'node n1: {SEAT}: the amount 4 is managed by "kubectl-patch": ')
    assert "--force-conflicts" in refusal
    assert _refuse(node, wanted, _count(), _FORCED) == []


@pytest.mark.parametrize("wanted", [6, None])
@pytest.mark.parametrize("change_request", [_CAREFUL, _FORCED])
def test_the_amount_of_a_device_plugin_always_stays(wanted: int | None, change_request: ChangeRequest) -> None:
    (refusal,) = _refuse(create_node(capacity=_FOUR, managers={"kubelet": [SEAT]}), wanted, _count(), change_request)
    assert "a device plugin publishes 4 of it" in refusal


def test_what_pods_use_is_not_taken_away() -> None:
    """Count the pods that are on the node and have not ended, the largest first."""
    usage = _count(
        _create_pod("one", "1"),
        _create_pod("two", "2"),
        _create_pod("ended", "4", phase="Succeeded"),
        _create_pod("elsewhere", "4", node="n2"),
        _create_pod("none", "0"),
    )
    node = create_node(capacity=_FOUR, managers={OURS: [SEAT]})
    assert _refuse(node, 3, usage) == []
    for wanted in (2, None):
        (refusal,) = _refuse(node, wanted, usage)
        assert f"its pods use 3, and {wanted or 0} would be left: team-a/two (2), team-a/one (1). " in refusal
        assert _refuse(node, wanted, usage, _BELOW_USE) == []


def test_the_first_ten_pods_are_named() -> None:
    usage = _count(*(_create_pod(f"p{number:02}", "1") for number in range(12)))
    (refusal,) = _refuse(create_node(capacity={SEAT: "12"}), 1, usage)
    assert "team-a/p09 (1) and 2 more. " in refusal


def test_all_refusals_of_a_node_are_reported() -> None:
    node = create_node(capacity=_FOUR, managers={"kubectl": [SEAT]})
    assert len(_refuse(node, 1, _count(_create_pod("p", "2")))) == 2
