"""What a step does: one of the actions, from its fields."""

from collections.abc import Callable
from typing import Final

from webhook.cli.sequences import objects
from webhook.cli.sequences.model import (
    Action,
    Create,
    Delete,
    End,
    Label,
    Named,
    Resize,
    Scale,
    Update,
    Wait,
)
from webhook.cli.sequences.objects import ObjectError
from webhook.cli.sequences.plain import mapping, number
from webhook.policy.build import Fields
from webhook.policy.codes import MISSING_FIELD, UNKNOWN_FIELD
from webhook.policy.finding import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.nodes import Node
from webhook.server.settings.value_types import parse_duration

_KINDS: Final = {
    "pod": "Pod",
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "job": "Job",
    "daemonset": "DaemonSet",
    "replicaset": "ReplicaSet",
    "namespace": "Namespace",
}


def action(node: Node, source: SourceLocation) -> Action:
    """The one thing that a step does.

    Raises:
        ObjectError: it does nothing or several things, or does not say to which object.
    """
    fields = Fields(node)
    named = [name for name in _ACTIONS if fields.get_node(name) is not None]
    below = fields.get_node(named[0]) if len(named) == 1 else None
    if below is None:
        raise _error(source, *_which(named))
    return _ACTIONS[named[0]](fields, named[0], SourceLocation(source.file, below.line, below.column))


def _which(named: list[str]) -> tuple[str, str]:
    """What to say of a step that does nothing, or two things."""
    if not named:
        return MISSING_FIELD, f"a step does one thing, and this one does nothing; write one of {', '.join(_ACTIONS)}"
    return UNKNOWN_FIELD, f"a step does one thing, and this one does {' and '.join(named)}; write {len(named)} steps"


def _target(fields: Fields, source: SourceLocation) -> Named:
    """The one object that is named."""
    named = [name for name in _KINDS if fields.get_node(name) is not None]
    if len(named) != 1:
        if named:
            raise _error(source, UNKNOWN_FIELD, f"{named[0]} and {named[1]} are two objects; name one")
        raise _error(source, MISSING_FIELD, "which object? name one by its kind, as in pod: trainer")
    return Named(_KINDS[named[0]], fields.get_text(named[0]))


def _resize(fields: Fields, name: str, source: SourceLocation) -> Action:
    below = fields.get_fields(name)
    requests, limits = objects.amounts(below)
    return Resize(_target(below, source), below.get_text("container"), requests, limits)


def _label(fields: Fields, name: str, source: SourceLocation) -> Action:
    below = fields.get_fields(name)
    return Label(_target(below, source), mapping(below, "labels"))


_ACTIONS: dict[str, Callable[[Fields, str, SourceLocation], Action]] = {
    "create": lambda fields, name, source: Create(objects.written(fields.get_fields(name), source)),
    "update": lambda fields, name, source: Update(objects.written(fields.get_fields(name), source)),
    "resize": _resize,
    "scale": lambda fields, name, source: Scale(
        _target(fields.get_fields(name), source), number(fields.get_fields(name).get_node("replicas")) or 0
    ),
    "delete": lambda fields, name, source: Delete(_target(fields.get_fields(name), source)),
    "finish": lambda fields, name, source: End(_target(fields.get_fields(name), source), "Succeeded"),
    "fail": lambda fields, name, source: End(_target(fields.get_fields(name), source), "Failed"),
    "label": _label,
    "wait": lambda fields, name, _: Wait(parse_duration(fields.get_text(name)), fields.get_text(name)),
}


def _error(source: SourceLocation, code: str, message: str) -> ObjectError:
    return ObjectError(LintFinding.create(source, code, Severity.ERROR, message))
