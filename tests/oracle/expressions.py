"""Random expressions over devices, and devices for them; some expressions have mistakes."""

import random
import re
from pathlib import Path
from typing import Any

_MAX_DEPTH = 5
_WRONG_TYPES = 0.03
_WRAPPED = 0.08
_MUTATED = 0.06
_CHARACTERS = "()[]{}.,?:!-+*/%<>=&|\"'0123456789axe \n`\\@"

_KINDS = {
    *("bool", "attribute", "inner", "int", "small", "uint", "double", "string", "ints"),
    *("strings", "map", "optional", "quantity", "version", "bytes", "ip", "cidr", "pattern", "any"),
}
_HEADING = re.compile(r"\[(\w+)\]")


def _read_templates() -> dict[str, list[str]]:
    """Return the templates by type: `<int>` stands for an int, and `<int[x:int]>` for one that can use a name."""
    templates: dict[str, list[str]] = {}
    kind = ""
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading is not None and heading[1] in _KINDS:
            kind = heading[1]
            templates[kind] = []
        elif line or kind == "":
            templates[kind].append(line)
    return templates


_TEMPLATES = _read_templates()
_SIMPLE = {kind: [each for each in found if "<" not in each or "<n>" in each] for kind, found in _TEMPLATES.items()}
_SIMPLE["any"] = ["1", '"a"', "null", "1.0", "1u", "true"]
_SIMPLE["optional"] = ["optional.none()", "optional.of(1)"]

_VALUES: tuple[dict[str, Any], ...] = (
    *({"string": "h100"}, {"string": "a100"}, {"string": ""}, {"int": 3}, {"int": -1}, {"int": 9223372036854775807}),
    *(
        {"bool": True},
        {"bool": False},
        {"version": "1.10.2"},
        {"version": "1.9.0-rc.1"},
        {"ints": [1, 2, 3]},
        {"ints": []},
    ),
    *({"strings": ["a", "h100"]}, {"bools": [True]}, {"versions": ["1.0.0"]}),
)
_AMOUNTS = ("40Gi", "80Gi", "1", "3000m", "0", "1e3", "9223372036854775807", "1.5", "12345678901234567890123")


class _Drawer:
    """A source of expressions, with the names that are in scope and their types."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: list[tuple[str, str]] = []

    def draw(self, kind: str, depth: int) -> str:
        rng = self._rng
        if rng.random() < _WRONG_TYPES:
            kind = rng.choice(sorted(_TEMPLATES)) if kind != "small" else kind
        local = [name for name, each in self._names if each in {kind, "any"} or kind == "any"]
        if local and rng.random() < 0.4:
            return rng.choice(local)
        template = rng.choice(_TEMPLATES[kind] if depth else _SIMPLE[kind])
        text = re.sub(r"<(\w+)(?:\[(\w):(\w+)\])?>", lambda match: self._fill(match, depth), template)
        if rng.random() < _WRAPPED:
            return f"dyn({text})"
        return f"({text})" if " " in text and not text.startswith(('"', "'")) else text

    def _fill(self, match: re.Match[str], depth: int) -> str:
        kind, name, name_kind = match.groups()
        if kind not in _TEMPLATES:
            return match[0]
        if name is None:
            return self.draw(kind, max(depth - 1, 0))
        self._names.append((name, name_kind))
        text = self.draw(kind, max(depth - 1, 0))
        self._names.pop()
        return text


def _mutate(rng: random.Random, text: str) -> str:
    """Return the text with a character inserted, removed or changed."""
    place = rng.randint(0, len(text))
    return text[:place] + rng.choice(["", rng.choice(_CHARACTERS)]) + text[place + rng.randint(0, 1) :]


def _draw_device(rng: random.Random) -> dict[str, Any]:
    """Return a device as a ResourceSlice has it, with the name of its driver."""
    names = ("model", "index", "driver-version", "other.io/flag", "ints", "strings", "versions", "gpu.example.com/a")
    device: dict[str, Any] = {
        "driver": rng.choice(["gpu.example.com", "gpu.example.com", "other.io"]),
        "attributes": {name: rng.choice(_VALUES) for name in names if rng.random() < 0.6},
        "capacity": {
            name: {"value": rng.choice(_AMOUNTS)} for name in ("memory", "other.io/slots") if rng.random() < 0.7
        },
    }
    if rng.random() < 0.5:
        device["attributes"] |= {"model": {"string": "h100"}, "driver-version": {"version": "1.10.2-rc.1+b"}}
        device["attributes"] |= {"ints": {"ints": [1, 2, 3]}, "strings": {"strings": ["a", "b"]}, "index": {"int": 3}}
    if rng.random() < 0.5:
        device["allowMultipleAllocations"] = rng.random() < 0.5
    return device


def draw_question(rng: random.Random) -> dict[str, Any]:
    """Return an expression and three devices."""
    text = _Drawer(rng).draw("bool", rng.randint(1, _MAX_DEPTH))
    if text.startswith("(") and text.endswith(")") and rng.random() < 0.5:
        text = text[1:-1]
    if rng.random() < _MUTATED:
        text = _mutate(rng, text)
    return {"expression": text, "devices": [_draw_device(rng) for _ in range(3)]}
