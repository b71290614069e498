"""The figures of the rounds: latencies, their ratios, and the time that each variant adds to a create."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from e2e.bench.measure import Load, Round
from e2e.bench.variants import FLASK, KEPT, NONE, QUOTA, Variant

_MILLI = 1000.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of every round: median, minimum and maximum.

    Other load on the machine affects all variants of a round alike, and differs between rounds.
    """

    median: float
    minimum: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Figure:
    """The figures of one variant under one load.

    Times are in milliseconds, ratios to the variant without a webhook. `added` is the median minus the median
    there, `added_ratio` its ratio to that of the trivial webhook, which is called once as a gate is, `quota_ratio`
    its ratio to that of a ResourceQuota, and `empty_ratio` its ratio to that of a cap with an empty ledger in the
    cluster, over the rounds in which that added time; None if there is nothing to compare. `per_second_of_quota` is the
    ratio to the creates a second under a ResourceQuota. `calls` and `call` are the API server's own count of calls for
    each create, and its own mean of one.
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
    added: Spread | None
    added_ratio: Spread | None
    quota_ratio: Spread | None
    empty_ratio: Spread | None
    per_second_of_quota: float | None
    calls: float
    call: float


def compute_figures(rounds: Sequence[Round], load: Load) -> list[Figure]:
    """Return the figures of all variants from the rounds of one load."""
    return [_figure(rounds, load, variant) for variant in rounds[0]]


def _figure(rounds: Sequence[Round], load: Load, variant: Variant) -> Figure:
    p50, p99, per_second = (compute(rounds, variant) for compute in (_median, _p99, _per_second))
    samples = [each[variant] for each in rounds]
    number = sum(each.calls.number for each in samples)
    return Figure(
        load.clients,
        load.seldom,
        variant.name,
        p50=p50,
        p99=p99,
        per_second=per_second,
        p50_ratio=p50 / _median(rounds, NONE),
        p99_ratio=p99 / _p99(rounds, NONE),
        per_second_ratio=per_second / _per_second(rounds, NONE),
        added=None if variant is NONE else _spread(_compute_added(each, variant) for each in rounds),
        added_ratio=_compare_added(rounds, variant, FLASK),
        quota_ratio=_compare_added(rounds, variant, QUOTA),
        empty_ratio=_compare_added(rounds, variant, KEPT),
        per_second_of_quota=per_second / _per_second(rounds, QUOTA) if QUOTA in rounds[0] else None,
        calls=number / sum(len(each.latencies) for each in samples),
        call=sum(each.calls.seconds for each in samples) * _MILLI / max(number, 1),
    )


@dataclass(frozen=True, slots=True)
class RejectionFigure:
    """The time of a rejection by one variant in milliseconds; `p50_ratio` is the ratio to ResourceQuota."""

    seldom: bool
    variant: str
    p50: float
    p99: float
    p50_ratio: Spread


def compute_rejection_figures(rounds: Sequence[Round], load: Load) -> list[RejectionFigure]:
    """Return the rejection figures of all variants, for one client."""
    return [
        RejectionFigure(
            load.seldom,
            variant.name,
            _median(rounds, variant),
            _p99(rounds, variant),
            _spread(_median([each], variant) / _median([each], QUOTA) for each in rounds),
        )
        for variant in rounds[0]
    ]


def _compute_added(samples: Round, variant: Variant) -> float:
    return _median([samples], variant) - _median([samples], NONE)


def _compare_added(rounds: Sequence[Round], variant: Variant, other: Variant) -> Spread | None:
    usable = [each for each in rounds if other in each and _compute_added(each, other) > 0]
    if variant is NONE or not usable:
        return None
    return _spread(_compute_added(each, variant) / _compute_added(each, other) for each in usable)


def _spread(values: Iterable[float]) -> Spread:
    ordered = sorted(values)
    return Spread(statistics.median(ordered), ordered[0], ordered[-1])


def _median(rounds: Sequence[Round], variant: Variant) -> float:
    return statistics.median(_latencies(rounds, variant)) * _MILLI


def _p99(rounds: Sequence[Round], variant: Variant) -> float:
    """Return the 99th percentile by nearest rank, in milliseconds."""
    ranked = sorted(_latencies(rounds, variant))
    return ranked[math.ceil(len(ranked) * 0.99) - 1] * _MILLI


def _per_second(rounds: Sequence[Round], variant: Variant) -> float:
    """Return the creates per second; the time of one client is the sum of its creates."""
    samples = [each[variant] for each in rounds]
    return sum(len(each.latencies) for each in samples) / sum(each.elapsed for each in samples)


def _latencies(rounds: Iterable[Round], variant: Variant) -> list[float]:
    return [seconds for each in rounds for seconds in each[variant].latencies]
