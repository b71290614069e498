"""How a scheduler likes nodes by their resources, as its configuration writes it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from webhook.accounting.scheduling.scoring import DEFAULT_SCORING, Scoring, ScoringStrategy
from webhook.cli.command import Misuse
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.to_json import to_json

_LIKE = (
    "write a strategy, as in MostAllocated, or what a scheduler's configuration says behind scoringStrategy, as in "
    '"{type: MostAllocated, resources: [{name: nvidia.com/gpu, weight: 5}]}"'
)


class _Resource(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    weight: Annotated[int, Meta(ge=1, le=100)] = 1


class _Point(msgspec.Struct, forbid_unknown_fields=True):
    utilization: Annotated[int, Meta(ge=0, le=100)]
    score: Annotated[int, Meta(ge=0, le=10)]


class _Ratio(msgspec.Struct, forbid_unknown_fields=True):
    shape: Annotated[list[_Point], Meta(min_length=1)]


class _Written(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """ScoringStrategy of k8s.io/kube-scheduler/config/v1, with the bounds of ValidateNodeResourcesFitArgs, v1.36."""

    type: ScoringStrategy
    resources: list[_Resource] = []
    requested_to_capacity_ratio: _Ratio | None = None


def scoring(written: str | None, bounds: Bounds) -> Scoring:
    """What is meant: a strategy by its name, or a `scoringStrategy`; the default profile's if nothing is written.

    Raises:
        Misuse: it is neither.
    """
    if written is None:
        return DEFAULT_SCORING
    if written in set(ScoringStrategy) - {ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO}:
        return Scoring(ScoringStrategy(written))
    try:
        (document,) = documents(written, bounds)
        found = msgspec.json.decode(to_json(document.root, bounds.expanded), type=_Written)
    except (Fault, ValueError) as error:
        raise Misuse(f"--scoring {written}: {error}; {_LIKE}") from error
    weights = {each.name: each.weight for each in found.resources}
    return Scoring(found.type, weights or DEFAULT_SCORING.weights, _shape(written, found))


def _shape(written: str, found: _Written) -> tuple[tuple[int, int], ...]:
    ratio = found.requested_to_capacity_ratio
    if (found.type is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO) is (ratio is None):
        raise Misuse(f"--scoring {written}: requestedToCapacityRatio, with a shape, goes with the type of that name")
    points = tuple((each.utilization, each.score) for each in ratio.shape) if ratio else tuple(DEFAULT_SCORING.shape)
    degrees = [degree for degree, _ in points]
    if degrees != sorted(set(degrees)):
        raise Misuse(f"--scoring {written}: the utilization of each point must be above that of the one before it")
    return points
