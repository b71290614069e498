"""All metrics of caps of one server, put together."""

import math
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from webhook.admission.capping import CapIndex
from webhook.server.caps.drifts import Drifts
from webhook.server.caps.figures import LedgerFigures
from webhook.server.caps.refusals import CountedLedgers, Refusals
from webhook.server.caps.seen import SeenLedgers
from webhook.server.caps.writes import Writes
from webhook.server.reporting.logs import Logger
from webhook.state.ledger.reserve import MAX_RESERVATIONS
from webhook.state.ports import Ledgers, LedgerWrite, WriteObserver


class Together:
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
        refusals: Refusals,
        log: Logger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._refusals = refusals
        self.seen = SeenLedgers(monotonic)
        self._drifts = Drifts(registry, log)
        self.in_memory: WriteObserver = Together(self.seen, self._drifts)
        self.in_cluster: WriteObserver = Together(self.in_memory, Writes(registry))

    def counted(self, ledgers: Ledgers) -> Ledgers:
        """The ledgers for who charges: what they do not promise is counted."""
        return CountedLedgers(ledgers, self._refusals)

    def tell(self, caps: Callable[[], CapIndex], *, alone: bool) -> None:
        """Tell of the ledgers of the caps in force from now on; `alone` is that of the ledgers."""
        self._registry.register(LedgerFigures(self.seen, caps, self._drifts.expect, visited=not alone))
        limit = Gauge("tallygate_cap_rows_limit", "Promises that one ledger takes.", registry=self._registry)
        limit.set(math.inf if alone else MAX_RESERVATIONS)
