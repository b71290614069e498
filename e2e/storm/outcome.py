"""What came of a storm: figures, and what should have been and was not."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from e2e.storm.clients import NO_ANSWER, Attempt
from e2e.storm.holding import Holding

_REMEMBERED_SECONDS = 1.0  # a refusal may be as old as that (docs/caps.md, rule 9)


@dataclass(slots=True)
class Outcome:
    """Of one storm. `room` says in words after how many seconds there was room again; `unmet` what failed."""

    title: str
    seconds: float
    stored: int
    refused: int
    busy: int
    errors: Counter[str]
    most: float
    hard: float
    room: str = ""
    unmet: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether more was held at any moment than the cap allows."""
        return self.most > self.hard


def outcome(title: str, attempts: Sequence[Attempt], holding: Holding) -> Outcome:
    """The figures of the attempts, and of what was counted meanwhile."""
    last = {each.name: each for each in attempts}
    return Outcome(
        title,
        seconds=max(each.ended for each in attempts) - min(each.begun for each in attempts),
        stored=len(holding.uids()),
        refused=sum(each.status == HTTPStatus.FORBIDDEN for each in attempts),
        busy=sum(each.status == HTTPStatus.TOO_MANY_REQUESTS for each in attempts),
        errors=Counter(_errors(attempts)),
        most=holding.most,
        hard=holding.limit.hard,
        unmet=[f"{each.name} has no final answer but {each.status}" for each in last.values() if not each.is_final],
    )


def unfounded(attempts: Sequence[Attempt], hard: int, bound: float) -> list[Attempt]:
    """The refusals that cannot have been true: when less than `hard` can have been promised, of one unit each.

    An attempt may hold room from when it was sent: for good if it was stored, for `bound` seconds after its end if
    nobody knows. Only right where nothing is deleted.
    """
    claims = [each for each in attempts if each.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)]

    def claimed(refusal: Attempt) -> int:
        since = refusal.begun - _REMEMBERED_SECONDS - bound
        return sum(each.begun <= refusal.ended and (each.is_done or each.ended >= since) for each in claims)

    refused = [each for each in attempts if each.status == HTTPStatus.FORBIDDEN]
    return [each for each in refused if claimed(each) < hard]


def _errors(attempts: Iterable[Attempt]) -> Iterator[str]:
    for each in attempts:
        if each.status == NO_ANSWER:
            yield "no answer"
        elif not each.is_final and each.status != HTTPStatus.TOO_MANY_REQUESTS:
            yield str(each.status)
