"""A case with its result, and files of cases: one JSON object a line."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.scheduling.api import Object


@dataclass(frozen=True, slots=True)
class Result:
    """The result of the scheduler's first attempt; `nominated` is the node on which it preempted the `victims`.

    `feasible` is the number of feasible nodes; the scheduler does not log it for a pod with unbound volumes. `claims`
    has the devices that it allocated, by claim. `hold_reason` keeps the pod out of the scheduler's queue.
    """

    scheduled: bool
    node: str = ""
    nominated: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()
    feasible: int | None = None
    claims: dict[str, list[Object]] | None = None
    hold_reason: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """The cluster as the API server returned it, the pod as it was stored, and the result."""

    nodes: list[Object]
    pods: list[Object]
    objects: list[Object]
    pod: Object
    result: Result

    def to_line(self, name: str) -> Object:
        """Return the line of a file; the name has seed and number of the case."""
        result = {key: value for key, value in asdict(self.result).items() if value is not None}
        return {"case": name, **asdict(self), "result": result}


@contextmanager
def open_case_writer(file: Path) -> Iterator[Callable[[Object], None]]:
    """Yield a writer of lines of JSON; the file appears when all lines are written."""
    partial_file = file.with_name(f"{file.name}.part")
    try:
        with partial_file.open("w") as lines:
            yield lambda line: print(json.dumps(line, separators=(",", ":")), file=lines)
        partial_file.rename(file)
    finally:
        partial_file.unlink(missing_ok=True)


def read_cases(file: Path) -> Iterator[tuple[str, RecordedCase]]:
    """Yield the cases of a file by name; a case without a name is called by its line."""
    with file.open() as lines:
        for number, line in enumerate(lines, 1):
            case = json.loads(line)
            result = Result(**case["result"])
            parts = (case["nodes"], case["pods"], case.get("objects", []), case["pod"])
            yield case.get("case", f"line {number}"), RecordedCase(*parts, result)
