"""The parts of a drawn case."""

from dataclasses import dataclass

from e2e.scheduling.draw.names import Json


@dataclass(frozen=True)
class DrawnCase:
    """The objects in an order in which they can be created, the pods on nodes, and the incoming pod."""

    objects: list[Json]
    nodes: list[Json]
    pods: list[Json]
    pod: Json
