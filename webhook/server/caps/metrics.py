"""All metrics of caps of one server, put together."""

import math
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from webhook.admission.capping import CapIndex
from webhook.server.caps.drifts import DriftMetrics
from webhook.server.caps.figures import LedgerMetrics
from webhook.server.caps.refusals import CountedLedgers, RejectionMetrics
from webhook.server.caps.seen import ObservedLedgers
from webhook.server.caps.writes import WriteMetrics
from webhook.server.reporting.logs import Logger
from webhook.state.ledger.reserve import MAX_RESERVATIONS
from webhook.state.ports import Ledgers, LedgerWrite, WriteObserver


class _WriteObservers:
    """A `WriteObserver` that tells others."""

    def __init__(self, *observers: WriteObserver) -> None:
        self._observers = observers

    def record_write(self, write: LedgerWrite) -> None:
        """Tell each of them."""
        for observer in self._observers:
            observer.record_write(write)


class CapMetrics:
    """What there is to be told by who keeps the ledgers, `in_memory` or `in_cluster`. `monotonic` gives seconds."""

    def __init__(
        self,
        registry: CollectorRegistry,
        rejections: RejectionMetrics,
        log: Logger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._rejections = rejections
        self.observed_ledgers = ObservedLedgers(monotonic)
        self._drifts = DriftMetrics(registry, log)
        self.memory_observer: WriteObserver = _WriteObservers(self.observed_ledgers, self._drifts)
        self.cluster_observer: WriteObserver = _WriteObservers(self.memory_observer, WriteMetrics(registry))

    def wrap_ledgers(self, ledgers: Ledgers) -> Ledgers:
        """The ledgers for who charges: what they do not promise is counted."""
        return CountedLedgers(ledgers, self._rejections)

    def register(self, caps: Callable[[], CapIndex], *, is_standalone: bool) -> None:
        """Tell of the ledgers of the caps in force from now on; `alone` is that of the ledgers."""
        self._registry.register(
            LedgerMetrics(self.observed_ledgers, caps, self._drifts.register_cap, has_age=not is_standalone)
        )
        limit = Gauge("tallygate_cap_rows_limit", "Promises that one ledger takes.", registry=self._registry)
        limit.set(math.inf if is_standalone else MAX_RESERVATIONS)
