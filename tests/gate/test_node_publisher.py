"""The publication of amounts on one node: what is written, retained, left alone and given up for a while."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import msgspec

from tallygate.gate.node_publisher import NodePublisher, NodeResult
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.policy.node_resources import NodeResource
from tallygate.policy.parse import parse
from tests.cli.advertise.published_node import SEAT, Object, create_node

_MANAGER = "tallygate-node-resources"
_PORT = "example.com/port"
_FOUR = {SEAT: "4"}


def _define(text: str) -> tuple[NodeResource, ...]:
    head = "apiVersion: tallygate.dev/v1alpha1\nkind: NodeResource\nmetadata: {name: p}\n"
    parsed = parse([("a.yaml", f"{head}spec: {{resources: {text}}}".encode())])
    assert parsed.is_usable, parsed.findings
    return parsed.policies.node_resources


@dataclass
class _Cluster:
    """A writer that records what is written, the used amounts, and a clock."""

    used: dict[str, int] = field(default_factory=dict)
    is_changed_meanwhile: bool = False
    now: float = 1000.0
    written: list[tuple[Mapping[str, int], Collection[str]]] = field(default_factory=list)
    reads: int = 0

    def apply(self, node: OwnedNode, amounts: Mapping[str, int], *, without: Collection[str] = ()) -> OwnedNode | None:
        """Record a write."""
        self.written.append((dict(amounts), list(without)))
        return None if self.is_changed_meanwhile else node

    def read_used(self, _: str, names: Collection[str]) -> Mapping[str, int]:
        """Return the used amounts of these names."""
        self.reads += 1
        return {name: self.used.get(name, 0) for name in names}

    def create_publisher(self) -> NodePublisher:
        """Return a publisher on this cluster."""
        return NodePublisher(self, self.read_used, _MANAGER, lambda: self.now)


def _reconcile(cluster: _Cluster, node: Object, definitions: str, publisher: NodePublisher | None = None) -> NodeResult:
    stored = msgspec.json.decode(msgspec.json.encode(node), type=OwnedNode)
    wanted = _define(definitions) if definitions else ()
    return (publisher or cluster.create_publisher()).reconcile(stored, wanted)


def test_a_missing_amount_is_written_once() -> None:
    cluster = _Cluster()
    result = _reconcile(cluster, create_node(), f"{{{SEAT}: 4, {_PORT}: 2}}")
    assert (result.published, result.calls) == (2, 1)
    assert cluster.written == [({SEAT: 4, _PORT: 2}, [])]


def test_what_is_so_is_not_written() -> None:
    cluster = _Cluster()
    node = create_node(capacity=_FOUR, managers={_MANAGER: [SEAT]})
    assert _reconcile(cluster, node, f"{{{SEAT}: 4}}") == NodeResult(published=1)
    assert (cluster.written, cluster.reads) == ([], 0)


def test_allocatable_without_a_kubelet_is_written_too() -> None:
    cluster = _Cluster()
    _reconcile(cluster, create_node(capacity=_FOUR, allocatable={}, managers={_MANAGER: [SEAT]}), f"{{{SEAT}: 4}}")
    assert cluster.written == [({SEAT: 4}, [])]


def test_an_amount_is_lowered_to_the_used_one_and_further_when_pods_end() -> None:
    cluster = _Cluster(used={SEAT: 3})
    publisher = cluster.create_publisher()
    result = _reconcile(cluster, create_node(capacity=_FOUR, managers={_MANAGER: [SEAT]}), f"{{{SEAT}: 1}}", publisher)
    assert (result.retained, cluster.written) == ({SEAT: 3}, [({SEAT: 3}, [])])
    retained = create_node(capacity={SEAT: "3"}, managers={_MANAGER: [SEAT]})
    again = _reconcile(cluster, retained, f"{{{SEAT}: 1}}", publisher)
    assert (again.retained, again.writes, again.reads) == ({SEAT: 3}, 0, 1)
    cluster.used = {}
    assert _reconcile(cluster, retained, f"{{{SEAT}: 1}}", publisher).published == 1
    assert cluster.written[1:] == [({SEAT: 1}, [])]


def test_a_policy_that_is_taken_away_withdraws_its_own_amounts_alone() -> None:
    cluster = _Cluster(used={SEAT: 5})
    node = create_node(capacity={SEAT: "4", _PORT: "2", "example.com/z": "1"}, managers={_MANAGER: [SEAT, _PORT]})
    result = _reconcile(cluster, node, "")
    assert result.retained == {SEAT: 5}
    assert cluster.written == [({}, [_PORT])]


def test_a_device_plugin_is_left_alone_and_a_reset_is_repaired() -> None:
    cluster = _Cluster()
    plugin = create_node(capacity={SEAT: "8"}, managers={"kubelet": [SEAT]})
    result = _reconcile(cluster, plugin, f"{{{SEAT}: 4}}")
    assert "a device plugin publishes 8 of it" in result.problems[SEAT]
    assert cluster.written == []
    _reconcile(cluster, create_node(capacity={SEAT: "0"}, managers={"kubelet": [SEAT]}), f"{{{SEAT}: 4}}")
    assert cluster.written == [({SEAT: 4}, [])]


def test_a_problem_of_one_name_stops_no_other_and_changes_nothing() -> None:
    cluster = _Cluster()
    node = create_node(capacity=_FOUR, managers={_MANAGER: [SEAT]})
    node["metadata"]["labels"] = {"l": "many"}
    result = _reconcile(cluster, node, f"{{{SEAT}: {{fromLabel: l}}, {_PORT}: 2}}")
    assert list(result.problems) == [SEAT]
    assert cluster.written == [({_PORT: 2}, [])]


def test_a_node_that_changed_meanwhile_is_no_correction() -> None:
    cluster = _Cluster(is_changed_meanwhile=True)
    publisher = cluster.create_publisher()
    for _ in range(10):
        assert _reconcile(cluster, create_node(), f"{{{SEAT}: 4}}", publisher).is_conflict
    assert len(cluster.written) == 10


def test_another_client_is_corrected_ever_more_seldom() -> None:
    """Allow three corrections at once, then wait for a minute, two, and so on up to an hour; then begin again."""
    cluster, edited = _Cluster(), create_node(capacity={SEAT: "5"}, managers={"kubectl-edit": [SEAT]})
    publisher = cluster.create_publisher()

    def try_again() -> NodeResult:
        return _reconcile(cluster, edited, f"{{{SEAT}: 4}}", publisher)

    assert [try_again().writes for _ in range(6)] == [1, 1, 1, 1, 0, 0]
    assert "another client has changed it 3 times" in try_again().problems[SEAT]
    for seconds in (60.0, 120.0, 240.0):
        cluster.now += seconds - 1
        assert try_again().writes == 0
        cluster.now += 1
        assert try_again().writes == 1
    assert _reconcile(cluster, edited, f"{{{SEAT}: 6}}", publisher).writes == 1, "a changed policy is no correction"
    cluster.now += 7200.0
    assert [try_again().writes for _ in range(5)] == [1, 1, 1, 1, 0]
    publisher.forget("u-n1")
    assert try_again().writes == 1


def test_after_a_changed_policy_another_client_is_corrected_ever_more_seldom_too() -> None:
    cluster, edited = _Cluster(), create_node(capacity={SEAT: "5"}, managers={"kubectl-edit": [SEAT]})
    publisher = cluster.create_publisher()
    _reconcile(cluster, edited, f"{{{SEAT}: 4}}", publisher)
    writes = [_reconcile(cluster, edited, f"{{{SEAT}: 6}}", publisher).writes for _ in range(6)]
    assert writes == [1, 1, 1, 1, 0, 0]
