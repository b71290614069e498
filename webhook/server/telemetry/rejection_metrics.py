"""Metrics of rejections by caps, by cap and reason."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from webhook.admission.rule_codes import (
    NO_LIMIT_UNDER_CAP,
    OVER_CAP,
    WORKLOAD_OVER_CAP,
    WORKLOAD_OVER_FREE,
    WORKLOAD_ROLLOUT,
)
from webhook.gate.charging import CapObstacle
from webhook.gate.decisions import DecisionRecord
from webhook.server.telemetry.labels import OTHER, CapLabels
from webhook.state.ledger.reserve import Prerequisite
from webhook.state.ports import LedgerFullError, RetryLaterError, StoreUnavailableError

_REASON_BY_CODE: Final[Mapping[str, str]] = {
    OVER_CAP.number: "excess",
    NO_LIMIT_UNDER_CAP.number: "no-limit",
    WORKLOAD_OVER_CAP.number: "workload",
    WORKLOAD_OVER_FREE.number: "workload",
    WORKLOAD_ROLLOUT.number: "workload",
}
_REASON_BY_PREREQUISITE: Final[Mapping[Prerequisite, str]] = {
    Prerequisite.ACTIVATE: "initializing",
    Prerequisite.CATCH_UP: "stale-namespaces",
    Prerequisite.COUNT_RESOURCES: "uncounted-resources",
    Prerequisite.COUNT_NAMESPACES: "uncounted-namespaces",
    Prerequisite.COUNT_PODS: "uncounted-pods",
    Prerequisite.SETTLE_NAMESPACE: "namespace-share",
    Prerequisite.SETTLE_RESERVATIONS: "too-many-reservations",
}
_REASON_BY_ERROR: Final = (
    (LedgerFullError, "object-too-large"),
    (RetryLaterError, "contention"),
    (StoreUnavailableError, "unavailable"),
)

REASONS: Final = frozenset(
    {*_REASON_BY_CODE.values(), *_REASON_BY_PREREQUISITE.values(), *(reason for _, reason in _REASON_BY_ERROR), OTHER}
)
"""Every value of the label `reason`."""


class RejectionMetrics:
    """Counters of requests that caps rejected, and of pods of privileged users that exceed a cap; without dry runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._cap_labels = CapLabels()
        self._rejections = Counter(
            "tallygate_cap_rejections",
            "Requests that a cap rejected, by reason.",
            ("cap", "reason"),
            registry=registry,
        )
        self._exceeded = Counter(
            "tallygate_cap_exceeded", "Pods with which a privileged user exceeded a cap.", ("cap",), registry=registry
        )

    def count_decision(self, record: DecisionRecord) -> None:
        """Count one decision. If a cap denied, every denying policy of the record is a cap, since rules come first."""
        if record.dry_run:
            return
        for cap in record.exceeded:
            self.count_exceeded(cap)
        self.count_obstacles(record.obstacles)
        reason = next((_REASON_BY_CODE[code] for code in record.codes if code in _REASON_BY_CODE), None)
        if reason is None:
            return
        for cap in record.rules:
            self.count_rejection(cap, reason if record.kind == "Pod" else "workload")

    def count_exceeded(self, cap: str) -> None:
        """Count a pod of a privileged user that exceeds the cap."""
        self._exceeded.labels(self._cap_labels.get_label(cap)).inc()

    def count_rejection(self, cap: str, reason: str) -> None:
        """Count one request that the cap rejected for the reason."""
        self._rejections.labels(self._cap_labels.get_label(cap), reason).inc()

    def count_obstacles(self, obstacles: Iterable[CapObstacle]) -> None:
        """Count each cap that gave no result on a pod: its ledger had a prerequisite, or the store failed."""
        for obstacle in obstacles:
            self.count_rejection(obstacle.cap, _find_reason(obstacle))


def _find_reason(obstacle: CapObstacle) -> str:
    if isinstance(obstacle.cause, Prerequisite):
        return _REASON_BY_PREREQUISITE.get(obstacle.cause, OTHER)
    return next((reason for kind, reason in _REASON_BY_ERROR if isinstance(obstacle.cause, kind)), OTHER)
