"""How a scheduler likes nodes by their resources, as its configuration writes it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.accounting.scheduling.scoring import DEFAULT_SCORING, Scoring, ScoringStrategy
from webhook.cli.command import UsageError
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.to_json import to_json

_SYNTAX = (
    "write a strategy, as in MostAllocated, or what a scheduler's configuration says behind scoringStrategy, as in "
    '"{type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}]}"'
)


class _ResourceWeight(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class _ShapePoint(msgspec.Struct, forbid_unknown_fields=True):
    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


class _CapacityRatio(msgspec.Struct, forbid_unknown_fields=True):
    shape: Annotated[list[_ShapePoint], Meta(min_length=1)]


class _ScoringConfig(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """ScoringStrategy of k8s.io/kube-scheduler/config/v1, with the bounds of ValidateNodeResourcesFitArgs, v1.36."""

    type: ScoringStrategy
    resources: list[_ResourceWeight] = []
    requested_to_capacity_ratio: _CapacityRatio | None = None


def parse_scoring(option_value: str | None, limits: Bounds) -> Scoring:
    """What is meant: a strategy by its name, or a `scoringStrategy`; the default profile's if nothing is written.

    Raises:
        Misuse: it is neither.
    """
    if option_value is None:
        return DEFAULT_SCORING
    if option_value in set(ScoringStrategy) - {ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO}:
        return Scoring(ScoringStrategy(option_value))
    try:
        (document,) = documents(option_value, limits)
        config = msgspec.json.decode(to_json(document.root, limits.expanded), type=_ScoringConfig)
    except (Fault, ValueError) as error:
        raise UsageError(f"--scoring {option_value}: {error}; {_SYNTAX}") from error
    weights = {resource.name: resource.weight for resource in config.resources}
    return Scoring(config.type, weights or DEFAULT_SCORING.weights, _parse_shape(option_value, config))


def _parse_shape(option_value: str, config: _ScoringConfig) -> tuple[tuple[int, int], ...]:
    ratio = config.requested_to_capacity_ratio
    if (config.type is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO) is (ratio is None):
        raise UsageError(
            f"--scoring {option_value}: requestedToCapacityRatio, with a shape, goes with the type of that name"
        )
    points = tuple((point.utilization, point.score) for point in ratio.shape) if ratio else tuple(DEFAULT_SCORING.shape)
    utilizations = [utilization for utilization, _ in points]
    if utilizations != sorted(set(utilizations)):
        raise UsageError(
            f"--scoring {option_value}: the utilization of each point must be above that of the one before it"
        )
    return points
