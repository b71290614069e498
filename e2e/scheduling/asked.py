"""A case that was asked, and the file that cases are kept in: one JSON object a line, beside its result."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.scheduling.api import Object


@dataclass(frozen=True, slots=True)
class Result:
    """What the scheduler said at its first attempt; `nominated` is the node where it made room, of the `victims`.

    `feasible` are the nodes that would have done; it does not say so of a pod whose volumes are still to be bound.
    """

    scheduled: bool
    node: str = ""
    nominated: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()
    feasible: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The cluster as the API server returned it, the pod as it was stored, and what became of it."""

    nodes: list[Object]
    pods: list[Object]
    objects: list[Object]
    pod: Object
    result: Result

    def line(self, name: str) -> Object:
        """As it is written, under the seed and number that it was drawn from."""
        result = {key: value for key, value in asdict(self.result).items() if value is not None}
        return {"case": name, **asdict(self), "result": result}


@contextmanager
def writing(file: Path) -> Iterator[Callable[[Object], None]]:
    """What writes a line of JSON; the file is there when all are written, and not before."""
    beside = file.with_name(f"{file.name}.part")
    try:
        with beside.open("w") as lines:
            yield lambda line: print(json.dumps(line, separators=(",", ":")), file=lines)
        beside.rename(file)
    finally:
        beside.unlink(missing_ok=True)


def read(file: Path) -> Iterator[tuple[str, Asked]]:
    """The cases of a file, by name; those that have none are called by their line."""
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            case = json.loads(line)
            result = Result(**case["result"])
            parts = (case["nodes"], case["pods"], case.get("objects", []), case["pod"])
            yield case.get("case", f"line {number}"), Asked(*parts, result)
