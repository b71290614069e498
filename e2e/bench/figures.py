"""What the rounds say: latencies, their ratios, and what each variant adds to a create that nobody is asked about."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.bench.measure import Round, Way
from e2e.bench.variants import FLASK, NONE, QUOTA, Variant

_MILLI = 1000.0


@dataclass(frozen=True, slots=True)
class Over:
    """A figure that every round gave: their median, the least and the greatest.

    Within a round neighbours meet all variants alike; from round to round they come and go.
    """

    middle: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One variant, created in one way.

    Times are in milliseconds, ratios to the variant without a webhook. `added` is what the median is longer than
    there, `added_ratio` that beside what the trivial webhook adds, which is called once as a gate is, and `quota_ratio`
    beside what a ResourceQuota adds, over the rounds in which that added something; None where there is nothing to
    compare. `per_second_of_quota` is the ratio to the creates a second under a ResourceQuota. `calls` and `call` are
    the API server's own count of calls for each create, and its own mean of one.
    """

    clients: int
    seldom: bool
    variant: str
    p50: float
    p99: float
    per_second: float
    p50_ratio: float
    p99_ratio: float
    per_second_ratio: float
    added: Over | None
    added_ratio: Over | None
    quota_ratio: Over | None
    per_second_of_quota: float | None
    calls: float
    call: float


def figures(rounds: Sequence[Round], way: Way) -> list[Figure]:
    """The figures of all variants, from the rounds in which it was created that way."""
    return [_figure(rounds, way, variant) for variant in rounds[0]]


def _figure(rounds: Sequence[Round], way: Way, variant: Variant) -> Figure:
    p50, p99, per_second = (of(rounds, variant) for of in (_median, _p99, _per_second))
    taken = [each[variant] for each in rounds]
    number = sum(each.calls.number for each in taken)
    return Figure(
        way.clients,
        way.seldom,
        variant.name,
        p50=p50,
        p99=p99,
        per_second=per_second,
        p50_ratio=p50 / _median(rounds, NONE),
        p99_ratio=p99 / _p99(rounds, NONE),
        per_second_ratio=per_second / _per_second(rounds, NONE),
        added=None if variant is NONE else _over(_added(each, variant) for each in rounds),
        added_ratio=_added_ratio(rounds, variant, FLASK),
        quota_ratio=_added_ratio(rounds, variant, QUOTA),
        per_second_of_quota=per_second / _per_second(rounds, QUOTA) if QUOTA in rounds[0] else None,
        calls=number / sum(len(each.latencies) for each in taken),
        call=sum(each.calls.seconds for each in taken) * _MILLI / max(number, 1),
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """What it takes one variant to refuse a pod, in milliseconds; `p50_ratio` is that to ResourceQuota's refusal."""

    seldom: bool
    variant: str
    p50: float
    p99: float
    p50_ratio: Over


def refusal_figures(rounds: Sequence[Round], way: Way) -> list[Refusal]:
    """The figures of all variants that refuse, by one client."""
    return [
        Refusal(
            way.seldom,
            variant.name,
            _median(rounds, variant),
            _p99(rounds, variant),
            _over(_median([each], variant) / _median([each], QUOTA) for each in rounds),
        )
        for variant in rounds[0]
    ]


def _added(taken: Round, variant: Variant) -> float:
    return _median([taken], variant) - _median([taken], NONE)


def _added_ratio(rounds: Sequence[Round], variant: Variant, other: Variant) -> Over | None:
    telling = [each for each in rounds if other in each and _added(each, other) > 0]
    if variant is NONE or not telling:
        return None
    return _over(_added(each, variant) / _added(each, other) for each in telling)


def _over(single: Iterable[float]) -> Over:
    figures = list(single)
    return Over(statistics.median(figures), min(figures), max(figures))


def _median(rounds: Sequence[Round], variant: Variant) -> float:
    return statistics.median(_latencies(rounds, variant)) * _MILLI


def _p99(rounds: Sequence[Round], variant: Variant) -> float:
    """The nearest rank: the smallest that 99 of 100 do not pass."""
    ranked = sorted(_latencies(rounds, variant))
    return ranked[math.ceil(len(ranked) * 0.99) - 1] * _MILLI


def _per_second(rounds: Sequence[Round], variant: Variant) -> float:
    """Creates over the time in which they were made; one client's time is the sum of its creates."""
    taken = [each[variant] for each in rounds]
    return sum(len(each.latencies) for each in taken) / sum(each.elapsed for each in taken)


def _latencies(rounds: Iterable[Round], variant: Variant) -> list[float]:
    return [seconds for each in rounds for seconds in each[variant].latencies]
