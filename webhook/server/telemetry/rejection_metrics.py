"""Metrics of rejections by caps, by cap and reason."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from webhook.admission.cap_index import get_cap_name
from webhook.admission.rule_codes import (
    NO_LIMIT_UNDER_CAP,
    OVER_CAP,
    WORKLOAD_OVER_CAP,
    WORKLOAD_OVER_FREE,
    WORKLOAD_ROLLOUT,
)
from webhook.errors import TallygateError
from webhook.gate.charging import ChargeMode, TrackedReservation
from webhook.gate.decisions import DecisionRecord
from webhook.server.telemetry.labels import OTHER, CapLabels
from webhook.state.ledger.reserve import Deferred, Prerequisite
from webhook.state.ports import (
    LedgerFullError,
    LedgerKey,
    Ledgers,
    RetryLaterError,
    StoreUnavailableError,
    T,
    Transition,
)

_REASON_BY_CODE: Final[Mapping[str, str]] = {
    OVER_CAP.number: "excess",
    NO_LIMIT_UNDER_CAP.number: "no-limit",
    WORKLOAD_OVER_CAP.number: "workload",
    WORKLOAD_OVER_FREE.number: "workload",
    WORKLOAD_ROLLOUT.number: "workload",
}
_REASON_BY_PREREQUISITE: Final[Mapping[Prerequisite, str]] = {
    Prerequisite.ACTIVATE: "converging",
    Prerequisite.CATCH_UP: "behind",
    Prerequisite.COUNT_RESOURCES: "uncounted-names",
    Prerequisite.COUNT_NAMESPACES: "uncounted-namespaces",
    Prerequisite.COUNT_PODS: "uncounted-pods",
    Prerequisite.SETTLE_NAMESPACE: "namespace-share",
    Prerequisite.SETTLE_RESERVATIONS: "rows-full",
}
_REASON_BY_ERROR: Final = (
    (LedgerFullError, "bytes-full"),
    (RetryLaterError, "busy"),
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
            "tallygate_cap_refusals",
            "Requests that a cap did not let through, by the reason why.",
            ("cap", "reason"),
            registry=registry,
        )
        self._exceeded = Counter(
            "tallygate_cap_exceeded", "Pods with which a privileged user went over a cap.", ("cap",), registry=registry
        )

    def count_decision(self, record: DecisionRecord) -> None:
        """Count one decision. If a cap denied, every denying policy of the record is a cap, since rules come first."""
        if record.dry_run:
            return
        for cap in record.exceeded:
            self.count_exceeded(cap)
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


class CountedLedgers:
    """`Ledgers` that count each reservation that was deferred or that failed with an error.

    Both end the review, so that each cap is counted once for it: a reservation follows only after all checks passed.
    """

    def __init__(self, ledgers: Ledgers, rejections: RejectionMetrics) -> None:
        self._ledgers = ledgers
        self._rejections = rejections

    @property
    def is_standalone(self) -> bool:
        """`is_standalone` of the wrapped ledgers."""
        return self._ledgers.is_standalone

    def transact(self, key: LedgerKey, transition: Transition[T], deadline: float) -> T:
        """Apply a transition to a ledger, and count the rejection if a reservation is deferred or fails.

        Raises:
            RetryLaterError: as raised by the wrapped ledgers.
            StoreUnavailableError: as raised by the wrapped ledgers.
        """
        if not _is_charge(transition):
            return self._ledgers.transact(key, transition, deadline)
        try:
            result = self._ledgers.transact(key, transition, deadline)
        except TallygateError as error:
            self._rejections.count_rejection(get_cap_name(key.cap), _find_reason(error))
            raise
        if isinstance(result, Deferred):
            self._rejections.count_rejection(
                get_cap_name(key.cap), _REASON_BY_PREREQUISITE.get(result.prerequisite, OTHER)
            )
        return result


def _is_charge(transition: object) -> bool:
    """Return whether the transition charges a pod and is not a dry run."""
    return isinstance(transition, TrackedReservation) and transition.mode is not ChargeMode.DRY_RUN


def _find_reason(error: TallygateError) -> str:
    return next((reason for kind, reason in _REASON_BY_ERROR if isinstance(error, kind)), OTHER)
