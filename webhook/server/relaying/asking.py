"""Who is asked: the gate beside the relay, another when that one is silent, and so on while there is time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter

from webhook.server.relaying.ports import Answered, Ask, Asked, LateError, Patience, SilentError
from webhook.server.reporting.logs import Logger
from webhook.server.voice import Voice

_PAUSE: Final = 0.02  # seconds until the same is asked again: a gate that is started anew takes half a second and more
_CHANCES: Final = 10  # that a Service leads to another than this relay itself, before the own gate is waited for
_KEPT: Final = 1.5  # seconds that a gate which takes its time leaves for another; a tenth of one is an answer's
_INSISTS: Final = 1.0  # seconds before the end from which on a gate that is not ready is asked, too
_LEAST: Final = 0.02  # seconds in which it is worth asking
_SPARED: Final = 5.0  # seconds in which a gate that was late is asked after another

By = Literal["own", "another", "nobody"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic seconds, and a pause of so many."""

    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


class Relay:
    """Asks gates until one answers. To ask two about one review does no harm: what a cap promises, it promises by UID.

    Args:
        own: the gate beside it.
        others: another replica's, whichever; None when there is none to ask. By chance it is the relay itself.
        voice: told when the own gate falls silent and when it answers again; counts who answered.
        name: what this relay calls itself where it asks others.
        clock: what time is.
    """

    def __init__(self, own: Ask, others: Ask | None, voice: Voice, name: str, clock: Clock | None = None) -> None:
        self._own = own
        self._others = others
        self._name = name
        self._clock = clock or Clock()
        self._state = Own(voice.log, self._clock.monotonic)
        self._counted = _counter(voice.metrics.registry)

    def answer(self, asked: Asked, deadline: float) -> Answered:
        """What a gate says before the monotonic `deadline`.

        Raises:
            SilentError: none said anything; the text is of the last that was asked.
        """
        why = "there is none to ask, or no time"
        for by, leaves in self._turns(asked, deadline):
            left = deadline - self._clock.monotonic()
            seconds = max(left - leaves, left / 2) if leaves else left
            try:
                answered = self._ask(by, asked, Patience(seconds, left < _INSISTS))
            except SilentError as error:
                why = str(error)  # the error itself would hold this frame, and with it the review, in a circle
            else:
                self._counted[by].inc()
                return answered
        self._counted["nobody"].inc()
        raise SilentError(why)

    def _turns(self, asked: Asked, deadline: float) -> Iterator[tuple[By, float]]:
        """Who is to be asked next, while there is time, and the seconds to be left for who comes after."""
        before = ""
        for by, leaves in self._order(asked):
            if by == before:
                self._clock.pause(_PAUSE)
            if deadline - self._clock.monotonic() < _LEAST:
                return
            before = by
            yield by, leaves

    def _order(self, asked: Asked) -> Iterator[tuple[By, float]]:
        """Endless, but for a review that came from a relay: that is sent to no other, and not in a circle."""
        if asked.relayed:
            yield from () if asked.relayed == self._name else (("own", 0.0),)
            return
        while True:
            if self._others is None:
                yield "own", 0.0
            elif self._state.is_asked_first():
                yield from (("own", _KEPT), ("another", _KEPT), ("another", _KEPT))
            else:
                yield from (("another", _KEPT),) * _CHANCES
                yield "own", 0.0

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
        self._is_late = (
            False  # when it was asked last; to ask one that is gone costs nothing, one that is held up seconds
        )

    def is_asked_first(self) -> bool:
        """Whether before another. One that was late is for one review only, every few seconds, that finds out."""
        now = self._monotonic()
        if self._is_late and now < self._spared_until:
            return False
        self._spared_until = now + _SPARED
        return True

    def silent(self, error: SilentError) -> None:
        """It did not answer."""
        self._is_late = isinstance(error, LateError)
        self._spared_until = self._monotonic() + _SPARED
        if self._answers:
            self._answers = False
            self._log.warning("gate-silent", message=str(error))

    def answered(self) -> None:
        """It did."""
        self._is_late = False
        if not self._answers:
            self._answers = True
            self._log.info("gate-answers")


def _counter(registry: CollectorRegistry) -> dict[By, Counter]:
    counter = Counter(
        "tallygate_relayed", "Reviews that a relay passed on, by who answered.", ("by",), registry=registry
    )
    every: tuple[By, ...] = ("own", "another", "nobody")
    return {by: counter.labels(by) for by in every}
