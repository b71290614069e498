"""How well nodes suit a pod: what the scheduler thinks of their resources, from 0 to 100.

Source: plugins/noderesources (resource_allocation.go, least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go, balanced_allocation.go) and plugins/helper/shape_score.go, v1.36. Balance is a float
there, and so it is here; nothing is promised or refused by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.cluster import Cluster
from webhook.accounting.cluster.columns import IntegerColumn
from webhook.accounting.cluster.pod_info import SchedulingGroup
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.rejection import Places
from webhook.accounting.names import is_scheduler_scalar

Scores = NDArray[np.int64]
"""One score for each of some places."""

Numbers = NDArray[Any]
"""Whole numbers: int64, or Python's where one is too large for that."""

MOST = 100
_EXACT = 1 << 56  # a number below it can be multiplied by MOST in 64 bits
_BOTH = 2
_DEFAULT: Mapping[str, int] = MappingProxyType({"cpu": 1, "memory": 1})


class Strategy(StrEnum):
    """What the scheduler prefers: nodes with much left, with little left, or filled to a certain degree."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


@dataclass(frozen=True, slots=True)
class Scoring:
    """`scoringStrategy` of a scheduler's NodeResourcesFitArgs: `weights` by resource, `shape` by rising utilization.

    A point of the shape is a utilization (0 to 100) and the score there (0 to 10).
    """

    strategy: Strategy = Strategy.LEAST_ALLOCATED
    weights: Mapping[str, int] = field(default_factory=lambda: _DEFAULT)
    shape: Sequence[tuple[int, int]] = ((0, 0), (100, 10))


DEFAULT = Scoring()


class Copies(NamedTuple):
    """Pods of a shape that are thought to be there already: so many at each of the places that are asked about."""

    shape: SchedulingGroup
    numbers: NDArray[np.int64]


def allocation(
    pod: Incoming, cluster: Cluster, places: Places, scoring: Scoring = DEFAULT, copies: Copies | None = None
) -> Scores:
    """The score of NodeResourcesFit at each place."""
    if scoring.strategy is Strategy.REQUESTED_TO_CAPACITY_RATIO:
        return _by_ratio(pod, cluster, places, scoring, copies)
    total, weights = np.zeros(len(places), dtype=np.int64), np.zeros(len(places), dtype=np.int64)
    for name, weight in scoring.weights.items():
        capacity, used = _columns(pod, cluster, places, name, copies, weighed=True)
        counts = capacity > 0
        within = used <= capacity
        if scoring.strategy is Strategy.LEAST_ALLOCATED:
            part = np.where(within, capacity - used, 0)
        else:
            part = np.where(within, used, capacity)
        share = (part * MOST) // np.where(counts, capacity, 1)
        total += np.where(counts, share * weight, 0).astype(np.int64)
        weights += np.where(counts, weight, 0)
    return total // np.maximum(weights, 1)


def balance(
    pod: Incoming,
    cluster: Cluster,
    places: Places,
    resources: Sequence[str] = tuple(_DEFAULT),
    copies: Copies | None = None,
) -> Scores:
    """The score of NodeResourcesBalancedAllocation at each place: 0 everywhere for a pod that asks for none of them."""
    if not any(pod.requests.get(name) for name in resources):
        return np.zeros(len(places), dtype=np.int64)
    after = [_columns(pod, cluster, places, name, copies, weighed=False) for name in resources]
    before = [
        (capacity, _changed(used, -pod.requests.get(name, 0)))
        for name, (capacity, used) in zip(resources, after, strict=True)
    ]
    return MOST // 2 + _halved(MOST // 2 + _evenness(after) - _evenness(before))


def _by_ratio(pod: Incoming, cluster: Cluster, places: Places, scoring: Scoring, copies: Copies | None) -> Scores:
    """As `allocation`, where a resource with the score 0 has no weight."""
    total, weights = np.zeros(len(places), dtype=np.int64), np.zeros(len(places), dtype=np.int64)
    degrees, heights = zip(*((degree, height * 10) for degree, height in scoring.shape), strict=True)
    for name, weight in scoring.weights.items():
        capacity, used = _columns(pod, cluster, places, name, copies, weighed=True)
        counts = capacity > 0
        degree = np.where(used > capacity, MOST, (used * MOST) // np.where(counts, capacity, 1)).astype(np.int64)
        share = np.array([_broken_line(int(each), degrees, heights) for each in degree], dtype=np.int64)
        counts &= share > 0
        total += np.where(counts, share * weight, 0)
        weights += np.where(counts, weight, 0)
    # math.Round of the quotient: halves go up.
    return (2 * total + weights) // np.maximum(2 * weights, 1)


def _broken_line(at: int, degrees: Sequence[int], heights: Sequence[int]) -> int:
    """The height there of a line through these points; Go's division drops what is left over."""
    for index, degree in enumerate(degrees):
        if at <= degree:
            if index == 0:
                return heights[0]
            rise, run = heights[index] - heights[index - 1], degree - degrees[index - 1]
            gone = rise * (at - degrees[index - 1])
            return heights[index - 1] + (gone // run if gone >= 0 else -(-gone // run))
    return heights[-1]


def _columns(  # noqa: PLR0913  # what a column is made from
    pod: Incoming, cluster: Cluster, places: Places, name: str, copies: Copies | None, *, weighed: bool
) -> tuple[Numbers, Numbers]:
    """What nodes have of a resource, and what would be used of it with the pod; zeros where it does not count."""
    nodes, asked = cluster.nodes, (pod.weight if weighed else pod.requests).get(name, 0)
    has = nodes.find_allocatable_column(name)
    if has is None or (not asked and is_scheduler_scalar(name)):
        return np.zeros(len(places), dtype=np.int64), np.zeros(len(places), dtype=np.int64)
    by_weight = weighed and name in nodes.non_zero_requests
    capacity, before = (
        _roomy(has, places),
        _roomy(nodes.non_zero_requests[name] if by_weight else nodes.find_used_column(name), places),
    )
    if copies is not None:
        shape = copies.shape
        before = _with_copies(
            before, copies.numbers, (shape.non_zero_requests if by_weight else shape.requests).get(name, 0)
        )
    return capacity, np.where(capacity > 0, _changed(before, asked), 0)


def _with_copies(numbers: Numbers, copies: NDArray[np.int64], each: int) -> Numbers:
    """What is used with so many copies of so much each, in a type in which it can be multiplied."""
    most = int(numbers.max(initial=0)) + int(copies.max(initial=0)) * each
    return numbers + copies * each if most < _EXACT else numbers.astype(object) + copies.astype(object) * each


def _changed(numbers: Numbers, by: int) -> Numbers:
    """So much more, or less, in a type that holds it."""
    return numbers + by if abs(by) < _EXACT else numbers.astype(object) + by


def _roomy(column: IntegerColumn | None, places: Places) -> Numbers:
    """A column's numbers, in a type in which they can be multiplied."""
    if column is None:
        return np.zeros(len(places), dtype=np.int64)
    numbers = column.array[places]
    return numbers.astype(object) if len(numbers) and numbers.max() >= _EXACT else numbers


def _evenness(columns: Sequence[tuple[Numbers, Numbers]]) -> Scores:
    """100 where all resources are used to the same degree, less the standard deviation (balancedResourceScore)."""
    counts = np.array([capacity > 0 for capacity, _ in columns])
    shares = np.array([_share(capacity, used) for capacity, used in columns])
    number = np.maximum(counts.sum(axis=0), 1)
    mean = np.where(counts, shares, 0.0).sum(axis=0) / number
    squares = np.where(counts, (shares - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.sqrt(squares / number)
    if len(columns) >= _BOTH:
        first, second = _two(counts, shares)
        deviation = np.where(number == _BOTH, np.abs((first - second) / 2), deviation)
    return np.asarray((1 - deviation) * float(MOST)).astype(np.int64)


def _two(counts: NDArray[np.bool_], shares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first and the last resource that counts at each place."""
    indices = np.arange(counts.shape[1])
    return shares[counts.argmax(axis=0), indices], shares[len(counts) - 1 - counts[::-1].argmax(axis=0), indices]


def _share(capacity: Numbers, used: Numbers) -> NDArray[np.float64]:
    share = used.astype(np.float64) / np.where(capacity > 0, capacity, 1).astype(np.float64)
    return np.asarray(np.minimum(share, 1.0), dtype=np.float64)


def _halved(score: Scores) -> Scores:
    """Half of it, without what is left over; it is never negative here."""
    return score // 2
