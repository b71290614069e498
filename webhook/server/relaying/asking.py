"""Who is asked: the gate beside the relay, another when that one is silent, and so on while there is time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from webhook.errors import TallygateError
from webhook.server.reporting.logs import Logger
from webhook.server.voice import Voice

_PAUSE: Final = 0.05  # seconds between two rounds: a gate that is started anew takes half a second and more
_KEPT: Final = 1.5  # seconds that a gate which takes its time leaves for another; a tenth of one is an answer's
_LEAST: Final = 0.02  # seconds in which it is worth asking
_SPARED: Final = 5.0  # seconds in which a gate that was late is asked after another

By = Literal["own", "another", "nobody"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A review to pass on; `relayed`: by another relay already."""

    path: str
    body: bytes
    relayed: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """What a gate says: a decision, or why there is none."""

    status: int
    body: bytes
    content_type: str


class SilentError(TallygateError):
    """There is no answer; the text says why. Whoever was asked may have decided all the same."""


class LateError(SilentError):
    """The time for an answer went by. Elsewhere silence is told at once."""


@dataclass(frozen=True, slots=True)
class Patience:
    """So many seconds may go by until an answer is there, and the gate may say that it takes as many as `told`."""

    seconds: float
    told: float


Ask = Callable[[Asked, Patience], Answered]
"""Asks one gate, once. Raises SilentError."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic seconds, and a pause of so many."""

    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class Relay:
    """Asks gates until one answers. To ask two about one review does no harm: what a cap promises, it promises by UID.

    Args:
        own: the gate beside it.
        others: another replica's, whichever; None when there is none to ask.
        voice: told when the own gate falls silent and when it answers again; counts who answered.
        clock: what time is.
    """

    def __init__(self, own: Ask, others: Ask | None, voice: Voice, clock: Clock | None = None) -> None:
        self._own = own
        self._others = others
        self._clock = clock or Clock()
        self._state = Own(voice.log, self._clock.monotonic)
        self._counted = _counter(voice.metrics.registry)

    def answer(self, asked: Asked, deadline: float) -> Answered:
        """What a gate says before the monotonic `deadline`.

        Raises:
            SilentError: none said anything; the text is of the last that was asked.
        """
        why = "there was no time to ask"
        for by, patience in self._turns(asked, deadline):
            try:
                answered = self._ask(by, asked, patience)
            except SilentError as error:
                why = str(error)  # the error itself would hold this frame, and with it the review, in a circle
            else:
                self._counted[by].inc()
                return answered
        self._counted["nobody"].inc()
        raise SilentError(why)

    def _turns(self, asked: Asked, deadline: float) -> Iterator[tuple[By, Patience]]:
        """Who is to be asked next, and how long to wait for him. Who was sent by a relay is sent to no other."""
        if asked.relayed or self._others is None:
            gates: tuple[By, ...] = ("own",)
        else:
            gates = ("own", "another") if self._state.is_first() else ("another", "own")
        while (left := deadline - self._clock.monotonic()) > _LEAST:
            for by in gates:
                if (left := deadline - self._clock.monotonic()) > _LEAST:
                    patience = max(left - _KEPT, left / 2) if len(gates) > 1 else left
                    yield by, Patience(patience, left)
            if asked.relayed:
                return
            self._clock.pause(min(_PAUSE, left))

    def _ask(self, by: By, asked: Asked, patience: Patience) -> Answered:
        if by == "another" and self._others:
            return self._others(asked, patience)
        try:
            answered = self._own(asked, patience)
        except SilentError as error:
            self._state.silent(error)
            raise
        self._state.answered()
        return answered


class Own:
    """What is known of the gate beside the relay. Whether it answers is logged when that changes."""

    def __init__(self, log: Logger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._answers = True
        self._spared_until = 0.0

    def is_first(self) -> bool:
        """Whether it is to be asked before another.

        To ask one that is gone costs nothing, one that is held up seconds: after that it is one review only that finds
        out, every few seconds, whether it still is.
        """
        now = self._monotonic()
        if now < self._spared_until:
            return False
        if not self._answers and self._spared_until:
            self._spared_until = now + _SPARED
        return True

    def silent(self, error: SilentError) -> None:
        """It did not answer."""
        self._spared_until = self._monotonic() + _SPARED if isinstance(error, LateError) else 0.0
        if self._answers:
            self._answers = False
            self._log.warning("gate-silent", message=str(error))

    def answered(self) -> None:
        """It did."""
        if not self._answers:
            self._answers = True
            self._spared_until = 0.0
            self._log.info("gate-answers")


def _counter(registry: CollectorRegistry) -> dict[By, Counter]:
    counter = Counter(
        "tallygate_relayed", "Reviews that a relay passed on, by who answered.", ("by",), registry=registry
    )
    every: tuple[By, ...] = ("own", "another", "nobody")
    return {by: counter.labels(by) for by in every}
