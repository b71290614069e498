"""The comparison of placed pods takes any implementation, and can fail in every part of its answer."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.schedule import comparing


@dataclass(frozen=True)
class _Said:
    nodes: tuple[str, ...] = ()
    nominated: tuple[str, ...] = ()
    message: str = ""


FULL = "0/1 nodes are available: 1 Too many pods."
PLACED = {"scheduled": True, "node": "n1", "nominated": "", "message": ""}
WAITING = {"scheduled": False, "node": "", "nominated": "n0", "message": FULL}
REFUSED = {"scheduled": False, "node": "", "message": FULL}


def _differences(result: dict[str, Any], said: _Said) -> tuple[str, ...]:
    case = {"nodes": None, "pods": None, "pod": {}, "result": result}
    return comparing(lambda *_: said)(case).differences


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (PLACED, _Said(nodes=("n0", "n1"))),
        (PLACED | {"feasible": 2}, _Said(nodes=("n0", "n1"))),
        (WAITING, _Said(nominated=("n0", "n2"), message=FULL)),
        (REFUSED, _Said(message=FULL)),
    ],
)
def test_any_node_that_would_do_agrees(result: dict[str, Any], said: _Said) -> None:
    assert _differences(result, said) == ()


@pytest.mark.parametrize(
    ("result", "said", "part"),
    [
        pytest.param(PLACED, _Said(), "scheduled", id="it fits somewhere"),
        pytest.param(REFUSED, _Said(nodes=("n0",), message=FULL), "scheduled", id="it fits nowhere"),
        pytest.param(PLACED, _Said(nodes=("n0", "n2")), "node", id="it does not fit there"),
        pytest.param(PLACED | {"feasible": 2}, _Said(nodes=("n1",)), "feasible", id="another fits too"),
        pytest.param(WAITING, _Said(nominated=("n1",), message=FULL), "nominated", id="another node"),
        pytest.param(WAITING, _Said(message=FULL), "nominated", id="no node"),
        pytest.param(REFUSED, _Said(nominated=("n0",), message=FULL), "nominated", id="a node where there is none"),
        pytest.param(REFUSED, _Said(message=FULL + " "), "message", id="a space too many"),
        pytest.param(PLACED, _Said(nodes=("n1",), message=FULL), "message", id="a message where there is none"),
    ],
)
def test_each_part_can_differ(result: dict[str, Any], said: _Said, part: str) -> None:
    (difference,) = _differences(result, said)
    assert difference.startswith(f"{part}: ")


def test_the_implementation_is_given_the_whole_case() -> None:
    given: list[object] = []

    def answering(*parts: object) -> _Said:
        given.extend(parts)
        return _Said(message=FULL)

    case = {"nodes": [{"n": 1}], "pods": [{"p": 1}], "objects": [{"o": 1}], "pod": {"new": 1}, "result": REFUSED}
    assert comparing(answering)(case).differences == ()
    assert given == [[{"n": 1}], [{"p": 1}], [{"o": 1}], {"new": 1}]
