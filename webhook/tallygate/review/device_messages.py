"""Messages about device classes that do not exist, and about conditions that no published device passes."""

from collections.abc import Collection, Iterable
from itertools import islice

from tallygate.accounting.devices.conditions import ATTRIBUTES, CAPACITY, DRIVER, Comparison, FieldValue
from tallygate.accounting.devices.unpassed_conditions import UnpassedCondition
from tallygate.policy.suggest import find_nearest

_MAX_LENGTH = 100
_MAX_SHOWN = 5
_MAX_COMPARED = 200
_LIMITS = {">=": ("at least", True), ">": ("more than", True), "<=": ("at most", False), "<": ("less than", False)}
_KINDS = {ATTRIBUTES: "an attribute", CAPACITY: "a capacity"}


def describe_missing_class(name: str, class_names: Iterable[str]) -> str:
    """Return the message that a class does not exist, with the nearest class or some that exist."""
    known = sorted(class_names)
    subject = f"no DeviceClass {shorten(name)}"
    nearest = find_nearest(name, islice(known, _MAX_COMPARED), cutoff=0.7)
    if nearest is not None:
        return f"{subject}: did you mean {nearest}?"
    return f"{subject}: there {_list_existing(known)}" if known else f"{subject}: the cluster has no DeviceClass"


def describe_condition(class_name: str, found: UnpassedCondition) -> str:
    """Return the message that no published device passes a condition, with what the devices have."""
    class_name = shorten(class_name)
    if found.selector is None:
        message = f"no ResourceSlice publishes a device of class {class_name}"
        return f"{message}: {_describe('no device', found)}" if found.text else message
    if not found.text:
        return f"no device of class {class_name} passes the selectors of the request"
    return _describe(f"no device of class {class_name}", found)


def shorten(text: str) -> str:
    """Return a text, cut where it is long."""
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def _describe(subject: str, found: UnpassedCondition) -> str:
    if found.is_narrowed:
        subject = f"{subject} that passes the conditions before it"
    if found.comparison is None:
        return f"{subject} passes selector `{shorten(found.text)}`"
    if not found.values:
        return _describe_missing_field(subject, found.comparison, found.names)
    return _describe_values(subject, found.comparison, found)


def _describe_missing_field(subject: str, comparison: Comparison, names: Collection[str]) -> str:
    field = comparison.field
    message = (
        f"{subject} has {_KINDS.get(field.group, 'a field')} {shorten(field.name)} in domain {shorten(field.domain)}"
    )
    nearest = find_nearest(field.name, islice(names, _MAX_COMPARED), cutoff=0.7)
    if nearest is not None:
        return f"{message}: did you mean {nearest}?"
    return f"{message}; there {_list_existing(names)}" if names else message


def _describe_values(subject: str, comparison: Comparison, found: UnpassedCondition) -> str:
    values = found.values
    noun = "driver" if comparison.field.group == DRIVER else shorten(comparison.field.name or comparison.field.group)
    constants = comparison.constants
    is_mixed = len({type(constant.order) for constant in (*constants, *values)}) > 1
    quoted = " or ".join(_quote(constant, is_mixed=is_mixed) for constant in constants[:_MAX_SHOWN])
    existing = _list_existing(
        [_quote(value, is_mixed=is_mixed) for value in _sort(values)], is_all=found.has_all_values
    )
    if comparison.operator in _LIMITS:
        phrase, is_least = _LIMITS[comparison.operator]
        message = f"{subject} has {noun} of {phrase} {quoted}"
        if is_mixed or not found.has_all_values:
            return f"{message}; there {existing}"
        extreme = _sort(values)[-1 if is_least else 0]
        return f"{message}; the {'largest' if is_least else 'smallest'} has {shorten(extreme.text)}"
    if comparison.operator == "has":
        return f"{subject} has {noun}; there {existing}"
    constant = f"a {noun} other than {quoted}" if comparison.operator == "!=" else f"{noun} {quoted}"
    return f"{subject} has {constant}; there {existing}"


def _sort(values: Iterable[FieldValue]) -> list[FieldValue]:
    """Return the values of each type in their order."""
    by_type: dict[str, list[FieldValue]] = {}
    for item in values:
        by_type.setdefault(type(item.order).__name__, []).append(item)
    return [
        each
        for _, same in sorted(by_type.items())
        for each in sorted(same, key=lambda value: value.order)  # type: ignore[arg-type,return-value]  # of one type
    ]


def _quote(value: FieldValue, *, is_mixed: bool) -> str:
    """Return a value as text; a string has quotes if it is empty or values of other types stand beside it."""
    text = shorten(value.text)
    return f'"{text}"' if isinstance(value.order, str) and (is_mixed or not text) else text


def _list_existing(names: Collection[str], *, is_all: bool = True) -> str:
    """Return the verb and the first of these names, as examples unless they are all."""
    shown = list(islice(map(shorten, names), _MAX_SHOWN))
    if not is_all:
        return f"are {', '.join(shown)} and others"
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(shown)}{more}"
