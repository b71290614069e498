"""All metrics of a server, as Prometheus names their series, with their labels."""

from collections.abc import Mapping

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import CapSources
from tallygate.admission.capacity_limits import Capacity
from tallygate.admission.request import Phase
from tallygate.answers.capacity_report import CapacityRecord
from tallygate.cli.serve.certificate_controller import CertificateMetrics
from tallygate.kube.api_errors import ApiErrorReason
from tallygate.kube.informer import InformerStatus
from tallygate.server.events.event_recorder import EventRecorder
from tallygate.server.notify.receiver_sender import NotificationMetrics
from tallygate.server.telemetry.controller_metrics import AuditMetrics, CapacityMetrics, LedgerControllerMetrics
from tallygate.server.telemetry.ledger_metrics import CapMetrics
from tallygate.server.telemetry.metrics import AskedMetrics, ServerMetrics
from tallygate.server.telemetry.node_resource_metrics import NodeResourceMetrics
from tallygate.state.ledger.guarantees import create_guarantees
from tallygate.state.ports import LedgerKey, LedgerWrite, WriteResult
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import CAP, GPU
from tests.server.app_harness import Log
from tests.server.last_audit import create_last_audit
from tests.state.ledger.ledger_builders import create_request, empty_ledger, expect_reserved, gpus


def list_metrics() -> Mapping[str, frozenset[str]]:
    """Return each name of a series of the gate and its labels, without those of the process and of Python."""
    return {
        sample.name: frozenset(sample.labels)
        for family in create_registry().collect()
        for sample in family.samples
        if sample.name.startswith("tallygate_")
    }


def create_registry() -> CollectorRegistry:
    """Return the registry of a gate, with a series of each metric."""
    metrics = ServerMetrics("1.2.3")
    log, sources = Log().logger, CapSources(capacities={"gpus": {GPU: Capacity(8)}})
    caps = CapIndex(parse_policies(CAP), None, sources)
    cap_metrics = CapMetrics(metrics.registry, log)
    cap_metrics.register(lambda: caps, is_standalone=False)
    pods = InformerStatus("pods", 7, 1, 2.5, None, {ApiErrorReason.RESET: 3}, 1, None)
    controller_metrics = LedgerControllerMetrics(
        metrics.registry, lambda: [pods], cap_metrics.observed_ledgers, lambda: True
    )
    EventRecorder(lambda _: True, lambda _namespace, _owner: True, "one", metrics.registry, log)
    AskedMetrics(metrics.registry, lambda: {"every-pod": 1})
    AuditMetrics(metrics.registry, lambda: True, 3600.0).last_audit = create_last_audit()
    CertificateMetrics(metrics.registry)
    NodeResourceMetrics(metrics.registry, lambda: True)
    NotificationMetrics(metrics.registry, ["platform"])
    record = CapacityRecord("nvidia.com/gpu", 8, 10, 2, 4, 6, 0)
    CapacityMetrics(metrics.registry, lambda: [record], lambda: True, lambda: 0.0)
    _count_events(metrics, controller_metrics)
    _write_ledger(cap_metrics, LedgerKey(caps.list_caps()[0].key, "team-a"))
    return metrics.registry


def _count_events(metrics: ServerMetrics, controller_metrics: LedgerControllerMetrics) -> None:
    """Count one event of each kind, so that each metric has a series."""
    metrics.count_decision(Phase.VALIDATING, "CREATE", "Pod", "deny", 0.1)
    metrics.count_closed_connections("late", 1)
    metrics.count_problem("TG201")
    metrics.count_failure("crash")
    metrics.rejections.count_rejection("gpus", "excess")
    metrics.rejections.count_exceeded("gpus")
    controller_metrics.count_reconcile("written")
    controller_metrics.count_expired(1)


def _write_ledger(cap_metrics: CapMetrics, key: LedgerKey) -> None:
    """Write a ledger, and again with a pod that bypassed the gate."""
    before = expect_reserved(empty_ledger(), create_request())
    guaranteed = create_guarantees({"team-b": gpus(2)}, {"team-b": gpus(0)})
    after = replace(expect_reserved(empty_ledger(used=gpus(3)), create_request("u2")), guarantees=guaranteed)
    for ledger in (before, after):
        cap_metrics.cluster_observer.record_write(LedgerWrite(key, before, ledger, 1, 0.1, WriteResult.STORED))
