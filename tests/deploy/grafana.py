"""The types of Grafana dashboards, as Grafana's makers generate them from its schema: a check of deploy/grafana.

The classes accept any value for a known name and drop unknown names: a name that is unknown is missing in the output,
and a value of a wrong type is found by its type hint.
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


def parse_dashboard(content: Mapping[str, Any]) -> Dashboard:
    """Return a dashboard as Grafana knows it, with the options of its panels and the queries of its data sources."""
    plugins.register_default_plugins()
    return Dashboard.from_json(dict(content))


def serialize_dashboard(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard as JSON, with every default value."""
    serialized: dict[str, Any] = json.loads(json.dumps(dashboard, cls=JSONEncoder))
    return serialized


def find_lost_fields(before: object, after: object, path: str = "") -> Iterator[str]:
    """Yield the fields that are missing or different afterwards."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            within = f"{path}.{name}" if path else name
            if name in after:
                yield from find_lost_fields(value, after[name], within)
            else:
                yield f"{within} is unknown"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from find_lost_fields(one, other, f"{path}[{index}]")
    elif before != after:
        yield f"{path} becomes {after!r}"


def find_type_errors(value: object, hint: Any = object, path: str = "") -> Iterator[str]:
    """Yield the values that are not of the type of their field."""
    if not _fits(value, hint):
        yield f"{path} is {value!r}"
    elif isinstance(value, list):
        (each,) = next(get_args(one) for one in _choices(hint) if get_origin(one) is list)
        for index, item in enumerate(value):
            yield from find_type_errors(item, each, f"{path}[{index}]")
    elif type(value).__module__.startswith("grafana_foundation_sdk."):
        for name, wanted in get_type_hints(type(value)).items():
            yield from find_type_errors(getattr(value, name), wanted, f"{path}.{name}" if path else name)


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of a type, apart from its content."""
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
