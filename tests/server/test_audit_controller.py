"""Scheduled audits: by the leader, repeatedly, and harmless when something fails."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tallygate.admission.capacity_limits import NO_CAPACITIES, Capacity, CapCapacities
from tallygate.cli.sources.options import load_usable_policies
from tallygate.kube.config import load_kubeconfig
from tallygate.policy.model import PolicySet
from tallygate.server.controllers import audit_controller
from tallygate.server.controllers.audit_controller import AuditController, AuditSchedule
from tallygate.server.controllers.informers import GateInformers
from tallygate.server.lifecycle import ServeError
from tallygate.server.serve import serve
from tallygate.server.settings.table import Settings
from tallygate.server.telemetry.controller_metrics import AuditMetrics
from tests.accounting.claims import claim_object, exactly, result
from tests.admission.case import parse_policies
from tests.cli.usage.clusters import GPU, namespace, pod
from tests.gate.gate_fixture import CAP
from tests.kube.kubeconfig import write_kubeconfig
from tests.server.app_harness import Log
from tests.server.process import eventually
from tests.server.small_cluster import SmallCluster, run_small_cluster
from tests.state.informers.slices import DRIVER, POOL, create_device, create_slice

DEPLOYMENTS = "/apis/apps/v1/deployments"
OWN = "tallygate-system"
CLAIMS, SLICES = (f"/apis/resource.k8s.io/v1/{name}" for name in ("resourceclaims", "resourceslices"))


class Replica:
    """A replica that audits a small cluster; it is the leader while `is_leading` is set."""

    def __init__(self, cluster: SmallCluster, folder: Path, interval: float, policies: PolicySet | None = None) -> None:
        self.log = Log()
        self.is_leading = True
        self.capacities: CapCapacities = NO_CAPACITIES
        self.leader_checks = 0
        self.registry = CollectorRegistry()
        self.metrics = AuditMetrics(self.registry, self.check_leader, interval)
        config = load_kubeconfig(write_kubeconfig(folder, cluster.server))
        self._cluster = GateInformers(config, self.log.logger)
        active = policies or load_usable_policies(())
        schedule = AuditSchedule(interval, lambda: active, self.check_leader, OWN)
        self.audits = AuditController(
            config,
            self._cluster,
            schedule,
            self.log.logger,
            self.metrics,
            get_cap_sources=lambda: self._cluster.state.get_cap_sources()._replace(capacities=self.capacities),
        )

    @contextmanager
    def run(self) -> Iterator["Replica"]:
        """Run the informers and the audits until the block ends."""
        self._cluster.start()
        self.audits.worker.start()
        try:
            yield self
        finally:
            self.audits.worker.stop()
            self._cluster.stop()

    def check_leader(self) -> bool:
        """Return whether the replica is the leader, and count the call."""
        self.leader_checks += 1
        return self.is_leading

    def count_runs(self, result: str) -> float:
        """Return the number of audits with this result."""
        return self.registry.get_sample_value("tallygate_audit_runs_total", {"result": result}) or 0.0

    def describe_last_audit(self) -> tuple[int, list[str]] | None:
        """Return the number of findings of the last audit, and its remarks as logged."""
        audited = [each for each in self.log.lines if each["event"] == "audited"]
        return (sum(audited[-1]["findings"].values()), audited[-1].get("remarks", [])) if audited else None

    def list_events(self) -> list[str]:
        """Return the logged events of audits."""
        return [line["event"] for line in self.log.lines if "audit" in line["event"]]


@pytest.fixture(autouse=True)
def _shorten_poll_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_controller, "_POLL_SECONDS", 0.02)


@pytest.fixture
def cluster_with_findings() -> Iterator[SmallCluster]:
    """Yield a cluster with pods that request half a GPU, in one namespace of a team and in two excluded ones."""
    names = ("team-a", "kube-system", OWN)
    pods = [pod("half", {GPU: "500m"}, where) for where in names]
    with run_small_cluster(namespaces=[namespace(name) for name in names], pods=pods) as cluster:
        yield cluster


def test_the_leader_audits_at_each_interval(cluster_with_findings: SmallCluster, tmp_path: Path) -> None:
    with Replica(cluster_with_findings, tmp_path, 0.1).run() as replica:
        assert eventually(lambda: replica.count_runs("completed") >= 2)
        last = replica.metrics.last_audit
        assert last is not None
        assert last.outcome.findings.list_namespaces() == ["team-a"]
        assert last.outcome.findings.list_all() == []  # the findings are in reports, and take no memory here
        assert dict(last.outcome.coverage.excluded) == {"kube-system": 1, OWN: 1}
        detail = replica.audits.worker.check().detail
        assert detail["audits"] is True
        assert "endedAt" in detail
        # Without definitions of reports it logs so once, and reports by metrics and the log.
        assert "no reports are written" in str(detail["reports"])
        assert replica.list_events().count("audit-reports-not-written") == 1
        assert replica.list_events().count("audited") >= 2
    assert "/api/v1/nodes" in cluster_with_findings.paths
    assert DEPLOYMENTS in cluster_with_findings.paths


@pytest.mark.parametrize(
    ("statuses", "excess", "remarks"),
    [
        pytest.param({}, 1, [], id="slices-are-counted"),
        pytest.param(
            {SLICES: 403},
            0,
            ["allocated devices were not counted under h100: the ResourceSlices are not listed"],
            id="slices-may-not-be-listed",
        ),
    ],
)
def test_caps_by_what_is_allocated_are_audited_or_a_remark(
    tmp_path: Path, statuses: dict[str, int], excess: int, remarks: list[str]
) -> None:
    policies = parse_policies(CAP.replace("{nvidia.com/gpu: 4}", "{h100: 1}\n  devices: {h100: {selector: 'true'}}"))
    with run_small_cluster(namespaces=[namespace("team-a")]) as cluster:
        results = [result(driver=DRIVER, pool=POOL, device=each) for each in ("h-0", "h-1")]
        cluster.objects |= {
            CLAIMS: [claim_object(exactly(2), results=results)],
            SLICES: [create_slice(10, create_device("h-0"), create_device("h-1"))],
        }
        cluster.error_statuses |= statuses
        with Replica(cluster, tmp_path, 0.1, policies).run() as replica:
            assert eventually(lambda: replica.describe_last_audit() == (excess, remarks))


@pytest.mark.parametrize(("capacity", "excess"), [(8, 0), (4, 1)])
def test_a_percentage_is_audited_by_the_capacity_that_the_gate_has_settled(
    tmp_path: Path, capacity: int, excess: int
) -> None:
    """Compare with the limit of requests: there is no node, and what there was acts for a while."""
    policies = parse_policies(CAP.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 25%"))
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("two", {GPU: "2"}, "team-a")]) as cluster:
        replica = Replica(cluster, tmp_path, 0.1, policies)
        replica.capacities = {"gpus": {GPU: Capacity(capacity)}}
        with replica.run():
            assert eventually(lambda: replica.describe_last_audit() == (excess, []))


@pytest.mark.parametrize(
    ("labels", "excess"), [pytest.param({"gpu": "yes"}, 1, id="three-nodes"), pytest.param({}, 0, id="no-node")]
)
def test_a_daemon_set_is_audited_with_its_pods_on_the_watched_nodes(
    tmp_path: Path, labels: dict[str, str], excess: int
) -> None:
    nodes = [
        {"metadata": {"name": f"n{each}", "uid": f"n{each}", "resourceVersion": "9", "labels": labels}}
        for each in range(3)
    ]
    spec = pod("agent", {GPU: "2"})["spec"] | {"nodeSelector": {"gpu": "yes"}, "nodeName": None}
    daemon_set = {
        "metadata": {"name": "agent", "namespace": "team-a", "uid": "agent", "resourceVersion": "9"},
        "spec": {"template": {"spec": spec}},
    }
    with run_small_cluster(namespaces=[namespace("team-a")], nodes=nodes) as cluster:
        cluster.objects["/apis/apps/v1/daemonsets"] = [daemon_set]
        with Replica(cluster, tmp_path, 0.1, parse_policies(CAP)).run() as replica:
            assert eventually(lambda: replica.describe_last_audit() == (excess, []))


_ADVERTISED = """\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: served, annotations: {tallygate.dev/why: a typo waits for ever}}
spec: {resources: ["nvidia.com/*"], checks: {advertised: true}}
"""
NODE_POOLS = "/apis/karpenter.sh/v1/nodepools"


@pytest.mark.parametrize(
    ("statuses", "findings"),
    [
        pytest.param({}, 1, id="all-are-known"),
        pytest.param({NODE_POOLS: 403}, 1, id="pools-may-not-be-listed"),
        pytest.param({NODE_POOLS: 500}, 0, id="pools-are-not-known"),
        pytest.param({"/api/v1/nodes": 403}, None, id="nodes-may-not-be-listed"),
    ],
)
def test_the_first_audit_compares_pods_with_the_watched_nodes(
    tmp_path: Path, statuses: dict[str, int], findings: int | None
) -> None:
    """Wait for the first list of the nodes and their pools, unless it fails."""
    node = {"metadata": {"name": "n", "uid": "n", "resourceVersion": "9"}, "status": {"allocatable": {GPU: "8"}}}
    spec = pod("typo", {f"{GPU}s": "1"})["spec"] | {"nodeName": None}
    deployment = {
        "metadata": {"name": "typo", "namespace": "team-a", "uid": "typo", "resourceVersion": "9"},
        "spec": {"template": {"spec": spec}},
    }
    with run_small_cluster(namespaces=[namespace("team-a")], nodes=[node]) as cluster:
        cluster.objects[DEPLOYMENTS] = [deployment]
        cluster.error_statuses |= statuses
        with Replica(cluster, tmp_path, 3600.0, parse_policies(_ADVERTISED)).run() as replica:
            assert eventually(lambda: replica.count_runs("failed" if findings is None else "completed") == 1)
            assert (replica.describe_last_audit() or (None,))[0] == findings


def test_a_kind_of_another_project_that_may_not_be_listed_is_a_remark(tmp_path: Path) -> None:
    name, path = "jobsets.jobset.x-k8s.io", "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
    with run_small_cluster(namespaces=[namespace("team-a")], pods=[pod("half", {GPU: "500m"})]) as cluster:
        cluster.objects[path] = []
        cluster.error_statuses[path] = 403
        remark = f"{name} may not be listed by this account, so JobSet was not evaluated: grant list on {name}"
        with Replica(cluster, tmp_path, 0.1).run() as replica:
            assert eventually(lambda: replica.describe_last_audit() == (1, [remark]))


def test_a_replica_audits_nothing_until_it_is_the_leader(cluster_with_findings: SmallCluster, tmp_path: Path) -> None:
    waiting = Replica(cluster_with_findings, tmp_path, 3600.0)
    waiting.is_leading = False
    with waiting.run() as replica:
        assert eventually(lambda: replica.leader_checks >= 2)
        assert DEPLOYMENTS not in cluster_with_findings.paths
        replica.is_leading = True
        assert eventually(lambda: replica.count_runs("completed") == 1)


def test_a_replica_that_loses_leadership_aborts_its_audit(cluster_with_findings: SmallCluster, tmp_path: Path) -> None:
    cluster_with_findings.error_statuses[DEPLOYMENTS] = 503  # which is retried
    with Replica(cluster_with_findings, tmp_path, 3600.0).run() as replica:
        assert eventually(lambda: DEPLOYMENTS in cluster_with_findings.paths)
        replica.is_leading = False
        assert eventually(lambda: replica.count_runs("aborted") == 1)
        assert replica.metrics.last_audit is None
        assert replica.list_events() == []


def test_a_missing_permission_is_logged_once_until_it_is_granted(
    cluster_with_findings: SmallCluster, tmp_path: Path
) -> None:
    cluster_with_findings.error_statuses[DEPLOYMENTS] = 403
    with Replica(cluster_with_findings, tmp_path, 0.1).run() as replica:
        assert eventually(lambda: replica.count_runs("failed") >= 2)
        assert replica.list_events() == ["audit-failed"]
        assert "the audit must be allowed to list it" in str(replica.audits.worker.check().detail["failure"])
        assert replica.audits.worker.check().ready
        del cluster_with_findings.error_statuses[DEPLOYMENTS]
        assert eventually(lambda: replica.count_runs("completed") >= 1)
        assert eventually(lambda: "failure" not in replica.audits.worker.check().detail)


def test_a_controller_that_never_started_can_be_stopped(cluster_with_findings: SmallCluster, tmp_path: Path) -> None:
    Replica(cluster_with_findings, tmp_path, 1.0).audits.worker.stop()


def test_an_audit_without_a_cluster_is_an_error() -> None:
    with pytest.raises(ServeError, match="what is stored can be audited only where there is a cluster"):
        serve(Settings(audit_interval=60.0))
