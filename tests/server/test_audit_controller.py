"""Audits on a schedule: by the replica that leads, again and again, and of no harm where something is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.cli.usage.clusters import GPU, namespace, pod
from tests.kube.kubeconfig import kubeconfig
from tests.server.building import Log
from tests.server.process import eventually
from tests.server.small_cluster import SmallCluster, small_cluster
from webhook.cli.sources.options import load_usable_policies
from webhook.kube.config import load_kubeconfig
from webhook.server.controllers import audit_controller
from webhook.server.controllers.audit_controller import AuditController, AuditSchedule
from webhook.server.controllers.informers import GateInformers
from webhook.server.lifecycle import ServeError
from webhook.server.serve import serve
from webhook.server.settings.table import Settings
from webhook.server.telemetry.controller_metrics import AuditMetrics

DEPLOYMENTS = "/apis/apps/v1/deployments"
OWN = "tallygate-system"


class Replica:
    """One that audits a small cluster; it leads until it is told otherwise."""

    def __init__(self, there: SmallCluster, folder: Path, every: float) -> None:
        self.log = Log()
        self.leads = True
        self.looks = 0
        self.registry = CollectorRegistry()
        self.figures = AuditMetrics(self.registry, self.is_leading, every)
        access = load_kubeconfig(kubeconfig(folder, there.server))
        self._cluster = GateInformers(access, self.log.logger)
        policies = load_usable_policies(())
        order = AuditSchedule(every, lambda: policies, self.is_leading, OWN)
        self.audits = AuditController(access, self._cluster, order, self.log.logger, self.figures)

    @contextmanager
    def running(self) -> Iterator["Replica"]:
        """It follows and audits for as long as the block runs."""
        self._cluster.start()
        self.audits.worker.start()
        try:
            yield self
        finally:
            self.audits.worker.stop()
            self._cluster.stop()

    def is_leading(self) -> bool:
        """Whether it leads; how often that was asked is counted."""
        self.looks += 1
        return self.leads

    def ended(self, result: str) -> float:
        """How many audits ended so."""
        return self.registry.get_sample_value("tallygate_audit_runs_total", {"result": result}) or 0.0

    def events(self) -> list[str]:
        """What was logged of audits."""
        return [line["event"] for line in self.log.lines if "audit" in line["event"]]


@pytest.fixture(autouse=True)
def _seconds_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_controller, "_POLL_SECONDS", 0.02)


@pytest.fixture
def halves() -> Iterator[SmallCluster]:
    """A cluster with a pod that asks for half a GPU, in a team's namespace and in two where the gate is not asked."""
    names = ("team-a", "kube-system", OWN)
    pods = [pod("half", {GPU: "500m"}, where) for where in names]
    with small_cluster(namespaces=[namespace(name) for name in names], pods=pods) as there:
        yield there


def test_the_replica_that_leads_audits_again_and_again(halves: SmallCluster, tmp_path: Path) -> None:
    with Replica(halves, tmp_path, 0.1).running() as replica:
        assert eventually(lambda: replica.ended("completed") >= 2)
        last = replica.figures.last_audit
        assert last is not None
        assert last.outcome.findings.list_namespaces() == ["team-a"]
        assert last.outcome.findings.list_all() == []  # what was found stands in reports, and takes no memory here
        assert dict(last.outcome.coverage.excluded) == {"kube-system": 1, OWN: 1}
        detail = replica.audits.worker.check().detail
        assert detail["audits"] is True
        assert "endedAt" in detail
        # Without definitions of reports it says so once, and tells by metrics and the log.
        assert "no reports are written" in str(detail["reports"])
        assert replica.events().count("audit-reports-not-written") == 1
        assert replica.events().count("audited") >= 2
    assert "/api/v1/nodes" in halves.asked
    assert DEPLOYMENTS in halves.asked


def test_one_that_does_not_lead_audits_nothing_until_it_does(halves: SmallCluster, tmp_path: Path) -> None:
    waiting = Replica(halves, tmp_path, 3600.0)
    waiting.leads = False
    with waiting.running() as replica:
        assert eventually(lambda: replica.looks >= 2)
        assert DEPLOYMENTS not in halves.asked
        replica.leads = True
        assert eventually(lambda: replica.ended("completed") == 1)


def test_one_that_leads_no_more_breaks_off(halves: SmallCluster, tmp_path: Path) -> None:
    halves.refused[DEPLOYMENTS] = 503  # which is waited for
    with Replica(halves, tmp_path, 3600.0).running() as replica:
        assert eventually(lambda: DEPLOYMENTS in halves.asked)
        replica.leads = False
        assert eventually(lambda: replica.ended("aborted") == 1)
        assert replica.figures.last_audit is None
        assert replica.events() == []


def test_a_right_that_is_missing_is_said_once_and_mended(halves: SmallCluster, tmp_path: Path) -> None:
    halves.refused[DEPLOYMENTS] = 403
    with Replica(halves, tmp_path, 0.1).running() as replica:
        assert eventually(lambda: replica.ended("failed") >= 2)
        assert replica.events() == ["audit-failed"]
        assert "the audit must be allowed to list it" in str(replica.audits.worker.check().detail["failure"])
        assert replica.audits.worker.check().ready
        del halves.refused[DEPLOYMENTS]
        assert eventually(lambda: replica.ended("completed") >= 1)
        assert eventually(lambda: "failure" not in replica.audits.worker.check().detail)


def test_one_that_was_never_started_can_be_stopped(halves: SmallCluster, tmp_path: Path) -> None:
    Replica(halves, tmp_path, 1.0).audits.worker.stop()


def test_without_a_cluster_there_is_nothing_to_audit() -> None:
    with pytest.raises(ServeError, match="what is stored can be audited only where there is a cluster"):
        serve(Settings(audit_interval=60.0))
