"""Grafana's own word on what deploy/grafana says: its types, as its makers generate them from its schema.

Their classes take in what they know, and do not look at it: names that they do not know are not there when they are
written again, and what is of another type stands where it was put.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

UNITS: Final = frozenset(value for name, value in vars(units).items() if name[0].isupper())
"""Every unit that a panel may have."""


def read(made: Mapping[str, Any]) -> Dashboard:
    """A dashboard as Grafana knows it, with the options of its panels and the queries of its data sources."""
    plugins.register_default_plugins()
    return Dashboard.from_json(dict(made))


def written(dashboard: Dashboard) -> dict[str, Any]:
    """The same as JSON, with all that whoever reads it takes for granted."""
    again: dict[str, Any] = json.loads(json.dumps(dashboard, cls=JSONEncoder))
    return again


def lost(before: object, after: object, path: str = "") -> Iterator[str]:
    """What was there and is not any more, or is another."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            within = f"{path}.{name}" if path else name
            if name in after:
                yield from lost(value, after[name], within)
            else:
                yield f"{within} is unknown"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from lost(one, other, f"{path}[{index}]")
    elif before != after:
        yield f"{path} becomes {after!r}"


def misfits(value: object, hint: Any = object, path: str = "") -> Iterator[str]:
    """What is not of the type that its place has."""
    if not _fits(value, hint):
        yield f"{path} is {value!r}"
    elif isinstance(value, list):
        (each,) = next(get_args(one) for one in _choices(hint) if get_origin(one) is list)
        for index, item in enumerate(value):
            yield from misfits(item, each, f"{path}[{index}]")
    elif type(value).__module__.startswith("grafana_foundation_sdk."):
        for name, wanted in get_type_hints(type(value)).items():
            yield from misfits(getattr(value, name), wanted, f"{path}.{name}" if path else name)


def _fits(value: object, hint: Any) -> bool:
    """Whether it is of a type, but for what is in it."""
    return any(_is_a(value, choice) for choice in _choices(hint))


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_a(value: object, choice: Any) -> bool:
    if get_origin(choice) is Literal:
        return value in get_args(choice)
    kind = get_origin(choice) or choice
    if issubclass(kind, Enum):
        return value in list(kind)
    if isinstance(value, bool):
        return kind in (bool, object)
    return isinstance(value, (int, float) if kind is float else kind)
