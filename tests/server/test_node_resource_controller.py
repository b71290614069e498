"""The controller that publishes amounts on nodes: by the leader, within a limit of requests, and past errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tallygate.kube.config import load_kubeconfig
from tallygate.kube.informer import RunningClock
from tallygate.server.controllers import node_resource_controller
from tallygate.server.controllers.node_resource_controller import NodeResourceController, PublicationSchedule
from tallygate.server.telemetry.node_resource_metrics import NodeResourceMetrics
from tests.admission.case import parse_policies
from tests.cli.advertise.published_node import SEAT, Object, create_node
from tests.cli.usage.clusters import pod
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.app_harness import Log
from tests.server.process import eventually, remains
from tests.server.small_cluster import SmallCluster, run_small_cluster

_POLICY = (
    "apiVersion: tallygate.dev/v1alpha1\nkind: NodeResource\nmetadata: {name: seats}\n"
    f"spec: {{resources: {{{SEAT}: 4}}}}\n"
)
_OURS = "tallygate-node-resources"


class _Replica:
    """A replica on a small cluster; it leads while `is_leading` is set."""

    def __init__(self, cluster: SmallCluster, folder: Path, policies: str = _POLICY) -> None:
        self.log, self.registry, self.now, self.is_leading = Log(), CollectorRegistry(), 1000.0, True
        self.policies = parse_policies(policies)
        metrics = NodeResourceMetrics(self.registry, lambda: self.is_leading)
        schedule = PublicationSchedule(lambda: self.policies, lambda: self.is_leading, lambda: self.now)
        config = load_kubeconfig(write_kubeconfig(folder, cluster.server))
        self.controller = NodeResourceController(config, schedule, self.log.logger, metrics)

    @contextmanager
    def run(self) -> Iterator["_Replica"]:
        """Run the watch and the worker until the block ends."""
        self.controller.start()
        try:
            yield self
        finally:
            self.controller.stop()

    def count_writes(self, result: str) -> float:
        """Return the number of writes with a result."""
        return self.registry.get_sample_value("tallygate_node_resource_writes_total", {"result": result}) or 0.0

    def count_amounts(self, state: str) -> float | None:
        """Return the number of amounts in a state."""
        return self.registry.get_sample_value("tallygate_node_resource_amounts", {"state": state})


@pytest.fixture(autouse=True)
def _shorten_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_resource_controller, "_REST_SECONDS", 0.01)
    monkeypatch.setattr(node_resource_controller, "_INTERVAL_SECONDS", 0.02)


def _create_nodes(count: int) -> list[Object]:
    return [create_node(f"n{number:02}") for number in range(count)]


def _list_patched(cluster: SmallCluster) -> list[str]:
    return [path.split("/")[4] for path, _ in cluster.patches]


def test_each_node_gets_its_amount_once(tmp_path: Path) -> None:
    with run_small_cluster(nodes=_create_nodes(3)) as cluster, _Replica(cluster, tmp_path).run() as replica:
        assert eventually(lambda: replica.count_writes("written") == 3)
        assert _list_patched(cluster) == ["n00", "n01", "n02"]
        assert cluster.patches[0][1]["status"] == {"capacity": {SEAT: "4"}, "allocatable": {SEAT: "4"}}
        assert replica.count_amounts("published") == 3


def test_only_the_leader_writes(tmp_path: Path) -> None:
    with run_small_cluster(nodes=_create_nodes(1)) as cluster:
        replica = _Replica(cluster, tmp_path)
        replica.is_leading = False
        with replica.run():
            assert eventually(lambda: "/api/v1/nodes" in cluster.paths)
            assert remains(lambda: not cluster.patches)
            assert replica.controller.check().detail["leader"] is False
            assert replica.count_amounts("published") is None
            replica.is_leading = True
            assert eventually(lambda: _list_patched(cluster) == ["n00"])


def test_a_replica_that_leads_again_compares_every_node_at_once(tmp_path: Path) -> None:
    """Let no time pass meanwhile: the pass of each minute is not due."""
    with run_small_cluster(nodes=_create_nodes(2)) as cluster, _Replica(cluster, tmp_path).run() as replica:
        assert eventually(lambda: replica.count_amounts("published") == 2)
        replica.is_leading = False
        assert eventually(lambda: replica.controller.check().detail["leader"] is False)
        assert replica.count_amounts("published") is None
        replica.is_leading = True
        assert eventually(lambda: replica.count_amounts("published") == 2)
        assert _list_patched(cluster) == ["n00", "n01"] * 2, "the cluster keeps no patch"


def test_a_leader_with_a_stale_watch_writes_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed_seconds, now = 0.0, RunningClock.now
    monkeypatch.setattr(RunningClock, "now", lambda clock: now(clock) + passed_seconds)
    with run_small_cluster(nodes=_create_nodes(1)) as cluster, _Replica(cluster, tmp_path).run() as replica:
        assert eventually(lambda: len(cluster.patches) == 1)
        passed_seconds = 3600.0
        replica.policies = parse_policies(_POLICY.replace("4", "5"))
        assert remains(lambda: len(cluster.patches) == 1)
        passed_seconds = 0.0
        assert eventually(lambda: len(cluster.patches) == 2)
        assert cluster.patches[1][1]["status"] == {"capacity": {SEAT: "5"}, "allocatable": {SEAT: "5"}}


def test_an_error_of_one_node_delays_this_node_alone(tmp_path: Path) -> None:
    with run_small_cluster(nodes=_create_nodes(3)) as cluster:
        cluster.error_statuses["/api/v1/nodes/n01/status"] = 403
        with _Replica(cluster, tmp_path).run() as replica:
            assert eventually(lambda: replica.count_writes("written") == 2)
            assert eventually(lambda: "node n01: the API server says 403" in str(replica.controller.check().detail))
            assert remains(lambda: _list_patched(cluster).count("n01") == 1)
            replica.now += 2.0
            assert eventually(lambda: _list_patched(cluster).count("n01") == 2)
            del cluster.error_statuses["/api/v1/nodes/n01/status"]
            replica.now += 3.9
            assert remains(lambda: _list_patched(cluster).count("n01") == 2)
            replica.now += 0.2
            assert eventually(lambda: replica.count_writes("written") == 3)
            assert replica.count_writes("failed") == 2


def test_a_run_sends_a_limited_number_of_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one run write five nodes, and rest for longer than the case then takes."""
    monkeypatch.setattr(node_resource_controller, "_MAX_CALLS", 5)
    monkeypatch.setattr(node_resource_controller, "_REST_SECONDS", 2.0)
    monkeypatch.setattr(node_resource_controller, "_INTERVAL_SECONDS", 2.0)
    with run_small_cluster(nodes=_create_nodes(12)) as cluster, _Replica(cluster, tmp_path).run() as replica:
        assert eventually(lambda: replica.count_writes("written") == 5)
        assert remains(lambda: replica.count_writes("written") == 5)
        assert eventually(lambda: replica.count_writes("written") == 12)
        assert _list_patched(cluster) == [f"n{number:02}" for number in range(12)]


def test_a_problem_and_what_pods_use_are_logged_and_described(tmp_path: Path) -> None:
    using = pod("p", {"example.com/port": "2"}, spec={"nodeName": "n1"})
    node = create_node(
        capacity={SEAT: "8", "example.com/port": "3"}, managers={"kubelet": [SEAT], _OURS: ["example.com/port"]}
    )
    with run_small_cluster(nodes=[node], pods=[using]) as cluster, _Replica(cluster, tmp_path).run() as replica:
        assert eventually(lambda: "retained" in replica.controller.check().detail)
        detail = replica.controller.check().detail
        assert detail["problems"][0].startswith(f"node n1: {SEAT}: a device plugin publishes 8 of it")
        assert detail["retained"] == ["node n1: example.com/port: 2 stay, since pods use them"]
        events = {(line["event"], line.get("resource")) for line in replica.log.lines}
        assert {("node-resource-problem", SEAT), ("node-resource-retained", "example.com/port")} <= events
        assert (replica.count_amounts("problem"), replica.count_amounts("retained")) == (1, 1)
