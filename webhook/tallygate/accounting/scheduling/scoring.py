"""The scores of nodes for a pod, from their resources, by NodeResourcesFit and NodeResourcesBalancedAllocation.

Each score is from 0 to 100. Source: plugins/noderesources (resource_allocation.go, least_allocated.go,
most_allocated.go, requested_to_capacity_ratio.go, balanced_allocation.go) and plugins/helper/shape_score.go, v1.36.
Balance is a float there, and so it is here; no reservation and no verdict depends on it.

`ScoreLookahead` computes the scores of a node for its next copies in one call. A score of one node takes as long as
that of a hundred, and a node that has just taken one copy will soon take more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.cluster.columns import IntegerColumn, NodeIndices
from tallygate.accounting.cluster.pod_info import SchedulingGroup
from tallygate.accounting.names import is_scheduler_scalar
from tallygate.accounting.scheduling.device_scores import score_devices
from tallygate.accounting.scheduling.incoming_pod import IncomingPod

Scores = NDArray[np.int64]
"""One score for each of some nodes."""

ExactIntegerArray = NDArray[Any]
"""Integers: int64, or Python's where one is too large for int64."""

MAX_SCORE = 100
_EXACT = 1 << 56  # a smaller number can be multiplied by MAX_SCORE in 64 bits
_TWO_RESOURCES = 2
_DEFAULT_WEIGHTS: Mapping[str, int] = MappingProxyType({"cpu": 1, "memory": 1})


class ScoringStrategy(StrEnum):
    """The scheduler's preference: nodes with most free, with least free, or with a given utilization."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


@dataclass(frozen=True, slots=True)
class Scoring:
    """`scoringStrategy` of a scheduler's NodeResourcesFitArgs: `weights` by resource, `shape` by rising utilization.

    A point of the shape is a utilization (0 to 100) and its score (0 to 10).
    """

    strategy: ScoringStrategy = ScoringStrategy.LEAST_ALLOCATED
    weights: Mapping[str, int] = field(default_factory=lambda: _DEFAULT_WEIGHTS)
    shape: Sequence[tuple[int, int]] = ((0, 0), (100, 10))


DEFAULT_SCORING = Scoring()


class AssumedCopies(NamedTuple):
    """Pods of a group that count as placed already: `counts` has their number on each evaluated node."""

    group: SchedulingGroup
    counts: NDArray[np.int64]


_LOOKAHEAD = 16


class ScoreLookahead:
    """The scores of nodes by resources for one more copy, while the caller places copies of this pod only."""

    def __init__(self, pod: IncomingPod, group: SchedulingGroup, cluster: Cluster, scoring: Scoring) -> None:
        self._pod, self._group, self._cluster, self._scoring = pod, group, cluster, scoring
        self._upcoming: dict[int, list[int]] = {}

    def score(self, nodes: NodeIndices) -> Scores:
        return score_resources(self._pod, self._cluster, nodes, self._scoring)

    def score_next(self, node_index: int) -> int:
        """Return the score of a node that has just taken a copy."""
        upcoming = self._upcoming.get(node_index)
        if not upcoming:
            assumed = AssumedCopies(self._group, np.arange(_LOOKAHEAD))
            upcoming_scores = score_resources(
                self._pod, self._cluster, np.full(_LOOKAHEAD, node_index), self._scoring, assumed
            )
            upcoming = self._upcoming[node_index] = upcoming_scores.tolist()[::-1]
        return upcoming.pop()


def score_nodes(pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, scoring: Scoring = DEFAULT_SCORING) -> Scores:
    """Return the scores of these nodes: the sum of the scheduler's plugins that depend on resources and devices."""
    return score_resources(pod, cluster, nodes, scoring) + score_devices(pod, cluster, nodes)


def score_resources(
    pod: IncomingPod,
    cluster: Cluster,
    nodes: NodeIndices,
    scoring: Scoring = DEFAULT_SCORING,
    assumed: AssumedCopies | None = None,
) -> Scores:
    fit_scores = score_allocation(pod, cluster, nodes, scoring, assumed)
    return fit_scores + score_balance(pod, cluster, nodes, assumed=assumed)


def score_allocation(
    pod: IncomingPod,
    cluster: Cluster,
    nodes: NodeIndices,
    scoring: Scoring = DEFAULT_SCORING,
    assumed: AssumedCopies | None = None,
) -> Scores:
    """Return the score of NodeResourcesFit for each node."""
    if scoring.strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
        return _score_by_ratio(pod, cluster, nodes, scoring, assumed)
    total, weights = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
    for name, weight in scoring.weights.items():
        capacity, used = _read_columns(pod, cluster, nodes, name, assumed, is_non_zero=True)
        is_counted = capacity > 0
        is_within = used <= capacity
        if scoring.strategy is ScoringStrategy.LEAST_ALLOCATED:
            part = np.where(is_within, capacity - used, 0)
        else:
            part = np.where(is_within, used, capacity)
        share = (part * MAX_SCORE) // np.where(is_counted, capacity, 1)
        total += np.where(is_counted, share * weight, 0).astype(np.int64)
        weights += np.where(is_counted, weight, 0)
    return total // np.maximum(weights, 1)


def _score_by_ratio(
    pod: IncomingPod, cluster: Cluster, nodes: NodeIndices, scoring: Scoring, assumed: AssumedCopies | None
) -> Scores:
    """Return the scores as `score_allocation` does, except that a resource with the score 0 has no weight."""
    total, weights = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
    utilizations, levels = zip(*((degree, height * 10) for degree, height in scoring.shape), strict=True)
    for name, weight in scoring.weights.items():
        capacity, used = _read_columns(pod, cluster, nodes, name, assumed, is_non_zero=True)
        is_counted = capacity > 0
        utilization = np.where(
            used > capacity, MAX_SCORE, (used * MAX_SCORE) // np.where(is_counted, capacity, 1)
        ).astype(np.int64)
        share = np.array([_interpolate(int(percent), utilizations, levels) for percent in utilization], dtype=np.int64)
        is_counted &= share > 0
        total += np.where(is_counted, share * weight, 0)
        weights += np.where(is_counted, weight, 0)
    # math.Round of the quotient: halves are rounded up.
    return (2 * total + weights) // np.maximum(2 * weights, 1)


def _read_columns(  # noqa: PLR0913  # the inputs of a column
    pod: IncomingPod,
    cluster: Cluster,
    nodes: NodeIndices,
    name: str,
    assumed: AssumedCopies | None,
    *,
    is_non_zero: bool,
) -> tuple[ExactIntegerArray, ExactIntegerArray]:
    """Return the allocatable amounts, and the used ones with the pod; zeros where the resource does not count."""
    columns = cluster.nodes
    requested = (pod.get_non_zero_requests(cluster.version) if is_non_zero else pod.requests).get(name, 0)
    allocatable = columns.find_allocatable_column(name)
    if allocatable is None or (not requested and is_scheduler_scalar(name)):
        return np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
    is_by_non_zero = is_non_zero and name in columns.non_zero_requests
    capacity, before = (
        _widen(allocatable, nodes),
        _widen(columns.non_zero_requests[name] if is_by_non_zero else columns.find_used_column(name), nodes),
    )
    if assumed is not None:
        group = assumed.group
        before = _add_copies(
            before, assumed.counts, (group.non_zero_requests if is_by_non_zero else group.requests).get(name, 0)
        )
    return capacity, np.where(capacity > 0, _add(before, requested), 0)


def _widen(column: IntegerColumn | None, nodes: NodeIndices) -> ExactIntegerArray:
    """Return the numbers of a column, in a type in which they can be multiplied."""
    if column is None:
        return np.zeros(len(nodes), dtype=np.int64)
    numbers = column.array[nodes]
    return numbers.astype(object) if len(numbers) and numbers.max() >= _EXACT else numbers


def _add_copies(numbers: ExactIntegerArray, counts: NDArray[np.int64], amount: int) -> ExactIntegerArray:
    """Add `counts` times an amount, in a type in which the sums can be multiplied."""
    maximum = int(numbers.max(initial=0)) + int(counts.max(initial=0)) * amount
    return numbers + counts * amount if maximum < _EXACT else numbers.astype(object) + counts.astype(object) * amount


def _add(numbers: ExactIntegerArray, amount: int) -> ExactIntegerArray:
    """Add an amount, which may be negative, in a type that represents the sums exactly."""
    return numbers + amount if abs(amount) < _EXACT else numbers.astype(object) + amount


def _interpolate(utilization: int, utilizations: Sequence[int], levels: Sequence[int]) -> int:
    """Interpolate linearly between the points of the shape; like Go's division, round towards zero."""
    for index, limit in enumerate(utilizations):
        if utilization <= limit:
            if index == 0:
                return levels[0]
            rise, run = levels[index] - levels[index - 1], limit - utilizations[index - 1]
            numerator = rise * (utilization - utilizations[index - 1])
            return levels[index - 1] + (numerator // run if numerator >= 0 else -(-numerator // run))
    return levels[-1]


def score_balance(
    pod: IncomingPod,
    cluster: Cluster,
    nodes: NodeIndices,
    resources: Sequence[str] = tuple(_DEFAULT_WEIGHTS),
    assumed: AssumedCopies | None = None,
) -> Scores:
    """Return the score of NodeResourcesBalancedAllocation for each node: 0 for a pod without such requests."""
    if not any(pod.requests.get(name) for name in resources):
        return np.zeros(len(nodes), dtype=np.int64)
    after = [_read_columns(pod, cluster, nodes, name, assumed, is_non_zero=False) for name in resources]
    before = [
        (capacity, _add(used, -pod.requests.get(name, 0)))
        for name, (capacity, used) in zip(resources, after, strict=True)
    ]
    return MAX_SCORE // 2 + _halve(MAX_SCORE // 2 + _score_evenness(after) - _score_evenness(before))


def _halve(score: Scores) -> Scores:
    """Return half of the score, rounded down; it is never negative here."""
    return score // 2


def _score_evenness(columns: Sequence[tuple[ExactIntegerArray, ExactIntegerArray]]) -> Scores:
    """Return 100 where all resources have equal utilization, less the standard deviation (balancedResourceScore)."""
    is_counted = np.array([capacity > 0 for capacity, _ in columns])
    shares = np.array([_compute_utilization(capacity, used) for capacity, used in columns])
    counted_resources = np.maximum(is_counted.sum(axis=0), 1)
    mean = np.where(is_counted, shares, 0.0).sum(axis=0) / counted_resources
    squares = np.where(is_counted, (shares - mean) ** 2, 0.0).sum(axis=0)
    deviation = np.sqrt(squares / counted_resources)
    if len(columns) >= _TWO_RESOURCES:
        first, second = _select_shares(is_counted, shares)
        deviation = np.where(counted_resources == _TWO_RESOURCES, np.abs((first - second) / 2), deviation)
    return np.asarray((1 - deviation) * float(MAX_SCORE)).astype(np.int64)


def _compute_utilization(capacity: ExactIntegerArray, used: ExactIntegerArray) -> NDArray[np.float64]:
    share = used.astype(np.float64) / np.where(capacity > 0, capacity, 1).astype(np.float64)
    return np.asarray(np.minimum(share, 1.0), dtype=np.float64)


def _select_shares(
    is_counted: NDArray[np.bool_], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the shares of the first and of the last resource that counts on each node."""
    indices = np.arange(is_counted.shape[1])
    return shares[is_counted.argmax(axis=0), indices], shares[
        len(is_counted) - 1 - is_counted[::-1].argmax(axis=0), indices
    ]
