"""Every metric of a server, as Prometheus names its series, with the labels each has."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from tests.admission.case import policies
from tests.gate.scene import CAP
from tests.server.audits import last
from tests.server.building import Log
from tests.state.ledger.ledgers import empty, gpus, granted, wants
from webhook.admission.capping import CapIndex
from webhook.admission.change import Phase
from webhook.cli.certificate_figures import CertificateFigures
from webhook.server.auditing.figures import AuditFigures
from webhook.server.caps.metrics import CapMetrics
from webhook.server.events.series import Event
from webhook.server.events.telling import OwnerEvents
from webhook.server.following.figures import Figures
from webhook.server.relaying.asking import Relay
from webhook.server.relaying.ports import Answered, Asked, Patience
from webhook.server.reporting.metrics import Build, Metrics
from webhook.server.voice import Voice
from webhook.state.ports import LedgerKey, LedgerWrite, WriteResult
from webhook.state.watch.failure import Reason
from webhook.state.watch.runner import Followed


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
    metrics = Metrics(Build("1.2.3"))
    log, caps = Log().logger, CapIndex(policies(CAP))
    told = CapMetrics(metrics.registry, metrics.refusals, log)
    told.tell(lambda: caps, alone=False)
    pods = Followed("pods", 7, 1, 2.5, None, {Reason.RESET: 3}, 1, None)
    figures = Figures(metrics.registry, lambda: [pods], told.seen, lambda: True)
    OwnerEvents(_Nowhere(), "one", metrics.registry, log)
    AuditFigures(metrics.registry, lambda: True, 3600.0).last = last()
    CertificateFigures(metrics.registry)
    Relay(_nobody, None, Voice(log, metrics), "one")
    _happen(metrics, figures)
    _write(told, LedgerKey(caps.all()[0].key, "team-a"))
    return metrics.registry


def _nobody(asked: Asked, _: Patience) -> Answered:
    """A gate that is never asked."""
    raise AssertionError(asked)


class _Nowhere:
    """Where events are written to by one that is never started."""

    def write(self, event: Event) -> bool:
        raise AssertionError(event)


def _happen(metrics: Metrics, figures: Figures) -> None:
    """Something of everything, so that each metric has a series."""
    metrics.decided(Phase.VALIDATING, "CREATE", "Pod", "deny", 0.1)
    metrics.problem("TG201")
    metrics.failed("crash")
    metrics.policies_reloaded(success=True)
    metrics.certificate_reloaded(success=True)
    metrics.refusals.refused("gpus", "excess")
    metrics.refusals.exceeded("gpus")
    figures.visited("written")
    figures.expired(1)


def _write(told: CapMetrics, key: LedgerKey) -> None:
    """A ledger is written, and again with a pod that came past the gate."""
    before = granted(empty(), wants())
    for ledger in (before, granted(empty(used=gpus(3)), wants("u2"))):
        told.in_cluster.record_write(LedgerWrite(key, before, ledger, 1, 0.1, WriteResult.STORED))
