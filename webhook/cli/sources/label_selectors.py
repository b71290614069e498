"""Label selectors as kubectl's `-l` takes them: `app=train,tier!=test,team in (a, b),!debug`.

The grammar is that of apimachinery, pkg/labels/selector.go, without the operators > and <.
"""

import re
from collections.abc import Iterator

import click

from tallygate.webhook.policy.model import LabelRequirement, Operator, PolicyLabelSelector

_SEPARATOR = re.compile(r",(?![^(]*\))")
_KEY = r"(?P<key>[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)"
_VALUE = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_FORMS = (
    (
        re.compile(rf"{_KEY}\s*(?P<operator>==?|!=)\s*(?P<value>(?:{_VALUE})?)"),
        {"=": Operator.IN, "!=": Operator.NOT_IN},
    ),
    (
        re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"),
        {"in": Operator.IN, "notin": Operator.NOT_IN},
    ),
    (re.compile(rf"(?P<operator>!?)\s*{_KEY}"), {"": Operator.EXISTS, "!": Operator.DOES_NOT_EXIST}),
)


def parse_label_selector(_: click.Context, __: click.Parameter, text: str | None) -> PolicyLabelSelector | None:
    """Parse the value of an option.

    Raises:
        click.BadParameter: if it is not a selector.
    """
    if text is None:
        return None
    requirements = [_parse_requirement(part.strip()) for part in _SEPARATOR.split(text)]
    if None in requirements:
        raise click.BadParameter(f"{text!r} is not a label selector; write one as in app=train,team in (a, b),!debug")
    return PolicyLabelSelector(match_expressions=tuple(filter(None, requirements)))


def _parse_requirement(text: str) -> LabelRequirement | None:
    for pattern, operators in _FORMS:
        if match := pattern.fullmatch(text):
            values = frozenset(_iterate_values(match.groupdict()))
            is_valid = all(not value or re.fullmatch(_VALUE, value) for value in values)
            operator = operators[match["operator"].replace("==", "=")]
            return LabelRequirement(match["key"], operator, values) if is_valid else None
    return None


def _iterate_values(groups: dict[str, str]) -> Iterator[str]:
    if "value" in groups:
        yield groups["value"]
    elif "values" in groups:
        yield from (value.strip() for value in groups["values"].split(","))
