"""Failover between gates: the local one first, a peer when that one does not answer, and so on while there is time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, get_args

from prometheus_client import Counter

from tallygate.webhook.errors import TallygateError
from tallygate.webhook.server.telemetry.json_log import FailureLog, Logger
from tallygate.webhook.server.telemetry.metrics import Telemetry

RELAY_HEADER: Final = "Tallygate-Relayed"
"""The header with the relay's name in a request to a peer: a relay that gets it asks its local gate only."""


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """A review to pass on; `relayed_by` is the name of the relay that sent it, empty for the API server."""

    path: str
    body: bytes
    relayed_by: str = ""


@dataclass(frozen=True, slots=True)
class RelayResponse:
    """The response of a gate, as JSON: a decision, or the reason why there is no decision.

    `retry_after` are the seconds after which the gate asks for a retry, empty if it does not.
    """

    status: int
    body: bytes
    retry_after: str = ""


class UnreachableError(TallygateError):
    """No answer came; the text gives the reason. The upstream may have decided all the same."""


class SlowUpstreamError(UnreachableError):
    """The time for an answer is over; other kinds of silence are known at once."""


@dataclass(frozen=True, slots=True)
class UpstreamTimeout:
    """The seconds until an answer must have come.

    `allows_unready` is set when little time is left: the answer of a gate that is not ready is better than none.
    """

    seconds: float
    allows_unready: bool = False


SendToUpstream = Callable[[RelayRequest, UpstreamTimeout], RelayResponse]
"""Asks one gate, once; raises UnreachableError if it does not answer."""


@dataclass(frozen=True, slots=True)
class PeerService:
    """The address of another replica: a name that its certificate is for, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`."""
        return f"{self.host}:{self.port}"


_RETRY_SECONDS: Final = 0.02  # before the same upstream is asked again: a gate takes half a second and more to restart
_MAX_PEER_ATTEMPTS: Final = 10  # before the local gate is asked again: a Service may lead back to this relay
_FALLBACK_SECONDS: Final = 1.5  # that a slow gate leaves for the next upstream; an answer takes a tenth of a second
_FALLBACK_SHARE: Final = 1 / 3  # of the remaining time, if that is more: a long timeout is set where gates are slow
_LAST_RESORT_SECONDS: Final = 1.0  # seconds before the end from which on a gate that is not ready is asked, too
_MIN_SECONDS: Final = 0.02  # seconds in which it is worth asking
_LATE_BACKOFF_SECONDS: Final = 5.0  # seconds in which a gate that was late is asked after another

UpstreamKind = Literal["local", "peer", "none"]


@dataclass(frozen=True, slots=True)
class RelayClock:
    """The monotonic clock in seconds, and a pause in seconds."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Relay:
    """A proxy that asks gates until one answers. Two may be asked about one review: reservations are keyed by UID.

    Args:
        send_to_local: asks the gate in the relay's own pod.
        send_to_peer: asks another replica; None without any. By chance the Service leads back to the relay itself.
        telemetry: logs when the local gate becomes unreachable and reachable, and counts the upstreams that answered.
        name: the name that this relay sends to its peers.
        clock: the clock.
    """

    def __init__(
        self,
        send_to_local: SendToUpstream,
        send_to_peer: SendToUpstream | None,
        telemetry: Telemetry,
        name: str,
        clock: RelayClock | None = None,
    ) -> None:
        self._send_to_local = send_to_local
        self._send_to_peer = send_to_peer
        self._name = name
        self._clock = clock or RelayClock()
        self._local_health = LocalHealth(telemetry.log, self._clock.monotonic)
        counter = Counter(
            "tallygate_relay_requests",
            "Reviews that a relay forwarded, by the upstream that answered.",
            ("upstream",),
            registry=telemetry.metrics.registry,
        )
        self._counters = {upstream: counter.labels(upstream) for upstream in get_args(UpstreamKind)}

    def forward(self, request: RelayRequest, deadline: float) -> RelayResponse:
        """Return the first response of a gate before the monotonic `deadline`.

        Raises:
            UnreachableError: if no gate answers; the text has the last reason of the local gate and of its peers.
        """
        reasons: dict[UpstreamKind, str] = {}
        for upstream, fallback_seconds in self._schedule_attempts(request, deadline):
            remaining = deadline - self._clock.monotonic()
            fallback = max(fallback_seconds, remaining * _FALLBACK_SHARE) if fallback_seconds else 0.0
            seconds = max(remaining - fallback, remaining / 2)
            try:
                response = self._send(upstream, request, UpstreamTimeout(seconds, remaining < _LAST_RESORT_SECONDS))
            except UnreachableError as error:
                # The error itself would keep this frame, and with it the review, in a reference cycle.
                reasons[upstream] = str(error)
            else:
                self._counters[upstream].inc()
                return response
        self._counters["none"].inc()
        raise UnreachableError("; ".join(reasons.values()) or "there is no gate to ask, or no time is left")

    def _schedule_attempts(self, request: RelayRequest, deadline: float) -> Iterator[tuple[UpstreamKind, float]]:
        """Yield the next upstream while there is time, and the seconds to leave for the one after it."""
        previous = ""
        for upstream, fallback_seconds in self._order_upstreams(request):
            if upstream == previous:
                self._clock.sleep(_RETRY_SECONDS)
            if deadline - self._clock.monotonic() < _MIN_SECONDS:
                return
            previous = upstream
            yield upstream, fallback_seconds

    def _order_upstreams(self, request: RelayRequest) -> Iterator[tuple[UpstreamKind, float]]:
        """Yield upstreams without end; a review from another relay goes to the local gate only, never in a circle."""
        if request.relayed_by:
            yield from () if request.relayed_by == self._name else (("local", 0.0),)
            return
        while True:
            if self._send_to_peer is None:
                yield "local", 0.0
            elif self._local_health.is_preferred():
                yield from (("local", _FALLBACK_SECONDS), ("peer", _FALLBACK_SECONDS), ("peer", _FALLBACK_SECONDS))
            else:
                yield from (("peer", _FALLBACK_SECONDS),) * _MAX_PEER_ATTEMPTS
                yield "local", 0.0

    def _send(self, upstream: UpstreamKind, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        if upstream == "peer" and self._send_to_peer:
            return self._send_to_peer(request, timeout)
        try:
            response = self._send_to_local(request, timeout)
        except UnreachableError as error:
            self._local_health.mark_unreachable(error)
            raise
        self._local_health.mark_reachable()
        return response


class LocalHealth:
    """The reachability of the local gate; a change is logged."""

    def __init__(self, log: Logger, monotonic: Callable[[], float]) -> None:
        self._failure_log = FailureLog(
            partial(log.warning, "upstream-unreachable"), partial(log.info, "upstream-reachable"), each_change=False
        )
        self._monotonic = monotonic
        self._backoff_until = 0.0
        self._is_late = False  # at the last request: to ask a deleted gate costs nothing, to ask a hanging one seconds

    def is_preferred(self) -> bool:
        """Return whether to ask it before a peer; a gate that was late is asked by one review every few seconds."""
        now = self._monotonic()
        if self._is_late and now < self._backoff_until:
            return False
        self._backoff_until = now + _LATE_BACKOFF_SECONDS
        return True

    def mark_unreachable(self, error: UnreachableError) -> None:
        """Record that it did not answer."""
        self._is_late = isinstance(error, SlowUpstreamError)
        self._backoff_until = self._monotonic() + _LATE_BACKOFF_SECONDS
        self._failure_log.update(str(error))

    def mark_reachable(self) -> None:
        """Record that it answered."""
        self._is_late = False
        self._failure_log.update("")
