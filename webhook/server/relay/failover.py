"""What is passed on, what is heard, and what asking comes to.

Who is asked: the gate beside the relay, another when that one is silent, and so on while there is time.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from webhook.errors import TallygateError
from webhook.server.telemetry.json_log import Logger
from webhook.server.telemetry.metrics import Telemetry

RELAY_HEADER: Final = "Tallygate-Relayed"
"""The header of what one relay asks another, with its name: that one asks nobody but the gate beside it."""


@dataclass(frozen=True, slots=True)
class RelayRequest:
    """A review to pass on; `relayed`: by which relay already, empty when by none."""

    path: str
    body: bytes
    relayed_by: str = ""


@dataclass(frozen=True, slots=True)
class RelayResponse:
    """What a gate says, as JSON: a decision, or why there is none."""

    status: int
    body: bytes


class UnreachableError(TallygateError):
    """There is no answer; the text says why. Whoever was asked may have decided all the same."""


class SlowUpstreamError(UnreachableError):
    """The time for an answer went by. Elsewhere silence is told at once."""


@dataclass(frozen=True, slots=True)
class UpstreamTimeout:
    """So many seconds may go by until an answer is there.

    It `insists` when time runs out: then one that is not ready is better than none.
    """

    seconds: float
    allows_unready: bool = False

    @property
    def announced_seconds(self) -> float:
        """What the gate is told that it may take: less, so that it is heard when it says that it was too busy.

        Else that would be taken for hanging, and the gate be spared while others get its share.
        """
        return max(self.seconds - 0.1, self.seconds / 2)


SendToUpstream = Callable[[RelayRequest, UpstreamTimeout], RelayResponse]
"""Asks one gate, once. Raises SilentError."""


@dataclass(frozen=True, slots=True)
class PeerService:
    """Where another replica answers: a name that its certificate is for, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """`host:port`."""
        return f"{self.host}:{self.port}"


_RETRY_SECONDS: Final = (
    0.02  # seconds until the same is asked again: a gate that is started anew takes half a second and more
)
_MAX_PEER_ATTEMPTS: Final = (
    10  # that a Service leads to another than this relay itself, before the own gate is waited for
)
_FALLBACK_SECONDS: Final = (
    1.5  # seconds that a gate which takes its time leaves for another; a tenth of one is an answer's
)
_FALLBACK_SHARE: Final = 1 / 3  # of the remaining time, if that is more: a long timeout is set where gates are slow
_LAST_RESORT_SECONDS: Final = 1.0  # seconds before the end from which on a gate that is not ready is asked, too
_MIN_SECONDS: Final = 0.02  # seconds in which it is worth asking
_LATE_BACKOFF_SECONDS: Final = 5.0  # seconds in which a gate that was late is asked after another

UpstreamKind = Literal["own", "another", "nobody"]


@dataclass(frozen=True, slots=True)
class RelayClock:
    """Monotonic seconds, and a pause of so many."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Relay:
    """Asks gates until one answers. To ask two about one review does no harm: what a cap promises, it promises by UID.

    Args:
        own: the gate beside it.
        others: another replica's, whichever; None when there is none to ask. By chance it is the relay itself.
        voice: told when the own gate falls silent and when it answers again; counts who answered.
        name: what this relay calls itself where it asks others.
        clock: what time is.
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
        self._counters = _create_counters(telemetry.metrics.registry)

    def forward(self, request: RelayRequest, deadline: float) -> RelayResponse:
        """What a gate says before the monotonic `deadline`.

        Raises:
            SilentError: none said anything; the text is of the last that was asked.
        """
        reason = "there is none to ask, or no time"
        for upstream, fallback_seconds in self._schedule_attempts(request, deadline):
            remaining = deadline - self._clock.monotonic()
            fallback = max(fallback_seconds, remaining * _FALLBACK_SHARE) if fallback_seconds else 0.0
            seconds = max(remaining - fallback, remaining / 2)
            try:
                response = self._send(upstream, request, UpstreamTimeout(seconds, remaining < _LAST_RESORT_SECONDS))
            except UnreachableError as error:
                reason = str(error)  # the error itself would hold this frame, and with it the review, in a circle
            else:
                self._counters[upstream].inc()
                return response
        self._counters["nobody"].inc()
        raise UnreachableError(reason)

    def _schedule_attempts(self, request: RelayRequest, deadline: float) -> Iterator[tuple[UpstreamKind, float]]:
        """Who is to be asked next, while there is time, and the seconds to be left for who comes after."""
        previous = ""
        for upstream, fallback_seconds in self._order_upstreams(request):
            if upstream == previous:
                self._clock.sleep(_RETRY_SECONDS)
            if deadline - self._clock.monotonic() < _MIN_SECONDS:
                return
            previous = upstream
            yield upstream, fallback_seconds

    def _order_upstreams(self, request: RelayRequest) -> Iterator[tuple[UpstreamKind, float]]:
        """Endless, but for a review that came from a relay: that is sent to no other, and not in a circle."""
        if request.relayed_by:
            yield from () if request.relayed_by == self._name else (("own", 0.0),)
            return
        while True:
            if self._send_to_peer is None:
                yield "own", 0.0
            elif self._local_health.is_preferred():
                yield from (("own", _FALLBACK_SECONDS), ("another", _FALLBACK_SECONDS), ("another", _FALLBACK_SECONDS))
            else:
                yield from (("another", _FALLBACK_SECONDS),) * _MAX_PEER_ATTEMPTS
                yield "own", 0.0

    def _send(self, upstream: UpstreamKind, request: RelayRequest, timeout: UpstreamTimeout) -> RelayResponse:
        if upstream == "another" and self._send_to_peer:
            return self._send_to_peer(request, timeout)
        try:
            response = self._send_to_local(request, timeout)
        except UnreachableError as error:
            self._local_health.mark_unreachable(error)
            raise
        self._local_health.mark_reachable()
        return response


class LocalHealth:
    """What is known of the gate beside the relay. Whether it answers is logged when that changes."""

    def __init__(self, log: Logger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._is_reachable = True
        self._backoff_until = 0.0
        self._is_late = (
            False  # when it was asked last; to ask one that is gone costs nothing, one that is held up seconds
        )

    def is_preferred(self) -> bool:
        """Whether before another. One that was late is for one review only, every few seconds, that finds out."""
        now = self._monotonic()
        if self._is_late and now < self._backoff_until:
            return False
        self._backoff_until = now + _LATE_BACKOFF_SECONDS
        return True

    def mark_unreachable(self, error: UnreachableError) -> None:
        """It did not answer."""
        self._is_late = isinstance(error, SlowUpstreamError)
        self._backoff_until = self._monotonic() + _LATE_BACKOFF_SECONDS
        if self._is_reachable:
            self._is_reachable = False
            self._log.warning("gate-silent", message=str(error))

    def mark_reachable(self) -> None:
        """It did."""
        self._is_late = False
        if not self._is_reachable:
            self._is_reachable = True
            self._log.info("gate-answers")


def _create_counters(registry: CollectorRegistry) -> dict[UpstreamKind, Counter]:
    counter = Counter(
        "tallygate_relayed", "Reviews that a relay passed on, by who answered.", ("by",), registry=registry
    )
    upstreams: tuple[UpstreamKind, ...] = ("own", "another", "nobody")
    return {upstream: counter.labels(upstream) for upstream in upstreams}
