"""Every metric of a server, as Prometheus names its series, with the labels each has."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from tests.admission.case import policies
from tests.gate.scene import CAP
from tests.server.audits import last
from tests.server.building import Log
from tests.state.ledger.ledgers import empty, gpus, granted, wants
from webhook.admission.cap_index import CapIndex
from webhook.admission.request import Phase
from webhook.cli.serve.certificate_controller import CertificateMetrics
from webhook.kube.api_errors import ApiErrorReason
from webhook.kube.informer import InformerStatus
from webhook.server.events.event_recorder import EventRecorder
from webhook.server.relay.failover import Relay, RelayRequest, RelayResponse, UpstreamTimeout
from webhook.server.telemetry.controller_metrics import AuditMetrics, LedgerControllerMetrics
from webhook.server.telemetry.ledger_metrics import CapMetrics
from webhook.server.telemetry.metrics import ServerMetrics, Telemetry
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult


def every_metric() -> Mapping[str, frozenset[str]]:
    """Each name that a series of the gate can have, and its labels; those of process and Python are left out."""
    return {
        sample.name: frozenset(sample.labels)
        for family in everything().collect()
        for sample in family.samples
        if sample.name.startswith("tallygate_")
    }


def everything() -> CollectorRegistry:
    """All that a gate and a relay can tell, with a series of each."""
    metrics = ServerMetrics("1.2.3")
    log, caps = Log().logger, CapIndex(policies(CAP))
    told = CapMetrics(metrics.registry, log)
    told.register(lambda: caps, is_standalone=False)
    pods = InformerStatus("pods", 7, 1, 2.5, None, {ApiErrorReason.RESET: 3}, 1, None)
    figures = LedgerControllerMetrics(metrics.registry, lambda: [pods], told.observed_ledgers, lambda: True)
    EventRecorder(lambda _: True, "one", metrics.registry, log)
    AuditMetrics(metrics.registry, lambda: True, 3600.0).last_audit = last()
    CertificateMetrics(metrics.registry)
    Relay(_nobody, None, Telemetry(log, metrics), "one")
    _happen(metrics, figures)
    _write(told, LedgerKey(caps.list_caps()[0].key, "team-a"))
    return metrics.registry


def _nobody(asked: RelayRequest, _: UpstreamTimeout) -> RelayResponse:
    """A gate that is never asked."""
    raise AssertionError(asked)


def _happen(metrics: ServerMetrics, figures: LedgerControllerMetrics) -> None:
    """Something of everything, so that each metric has a series."""
    metrics.count_decision(Phase.VALIDATING, "CREATE", "Pod", "deny", 0.1)
    metrics.count_problem("TG201")
    metrics.count_failure("crash")
    metrics.count_policy_reload(success=True)
    metrics.count_certificate_reload(success=True)
    metrics.rejections.count_rejection("gpus", "excess")
    metrics.rejections.count_exceeded("gpus")
    figures.count_reconcile("written")
    figures.count_expired(1)


def _write(told: CapMetrics, key: LedgerKey) -> None:
    """A ledger is written, and again with a pod that came past the gate."""
    before = granted(empty(), wants())
    for ledger in (before, granted(empty(used=gpus(3)), wants("u2"))):
        told.cluster_observer.record_write(LedgerWrite(key, before, ledger, 1, 0.1, WriteResult.STORED))
