"""The outcome of a stress test: figures, and unmet expectations."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from e2e.stress.clients import NO_ANSWER, Attempt
from e2e.stress.pod_usage import Usage

_NO_AMOUNTS: Mapping[str, int] = {}
_REMEMBERED_SECONDS = 1.0  # a rejection may be as old as that (docs/design/caps.md, rule 9)


@dataclass(slots=True)
class Outcome:
    """The outcome of one test. `room` says after how many seconds the cap was free again; `unmet` what failed."""

    title: str
    seconds: float
    stored: int
    refused: int
    busy: int
    errors: Counter[str]
    peak: float
    hard: float
    room: str = ""
    unmet: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether more than the cap was used at any moment."""
        return self.peak > self.hard


def compute_outcome(title: str, attempts: Sequence[Attempt], usage: Usage) -> Outcome:
    """Return the figures of the attempts, and of the use that was counted meanwhile."""
    last = {each.name: each for each in attempts}
    return Outcome(
        title,
        seconds=max(each.ended for each in attempts) - min(each.begun for each in attempts),
        stored=len(usage.list_uids()),
        refused=sum(each.status == HTTPStatus.FORBIDDEN for each in attempts),
        busy=sum(each.status == HTTPStatus.TOO_MANY_REQUESTS for each in attempts),
        errors=Counter(_errors(attempts)),
        peak=usage.peak,
        hard=usage.limit.hard,
        unmet=[f"{each.name} has no final answer but {each.status}" for each in last.values() if not each.is_final],
    )


def find_unfounded(
    attempts: Sequence[Attempt], hard: int, bound: float, amounts: Mapping[str, int] = _NO_AMOUNTS
) -> list[Attempt]:
    """Return the rejections that cannot have been true: when enough of `hard` cannot have been reserved.

    `amounts` are the units of the objects by name, where that is not one. An attempt may be charged from when it was
    sent: for good if it was stored, for `bound` seconds after its end if the outcome is unknown. Only right where
    nothing is deleted.
    """
    claims = [each for each in attempts if each.status not in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)]

    def count_claims(refusal: Attempt) -> int:
        since = refusal.begun - _REMEMBERED_SECONDS - bound
        return sum(
            amounts.get(each.name, 1)
            for each in claims
            if each.begun <= refusal.ended and (each.is_done or each.ended >= since)
        )

    refused = [each for each in attempts if each.status == HTTPStatus.FORBIDDEN]
    return [each for each in refused if count_claims(each) + amounts.get(each.name, 1) <= hard]


def _errors(attempts: Iterable[Attempt]) -> Iterator[str]:
    for each in attempts:
        if each.status == NO_ANSWER:
            yield "no answer"
        elif not each.is_final and each.status != HTTPStatus.TOO_MANY_REQUESTS:
            yield str(each.status)
