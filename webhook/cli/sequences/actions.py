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
    Resize,
    Scale,
    StepTarget,
    Update,
    Wait,
)
from webhook.cli.sequences.objects import StepObjectError
from webhook.cli.sequences.plain import get_mapping, parse_count
from webhook.policy.lint_findings import LintFinding, Severity
from webhook.policy.model import SourceLocation
from webhook.policy.nodes import Node
from webhook.policy.policy_builder import Fields
from webhook.policy.policy_codes import MISSING_FIELD, UNKNOWN_FIELD
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


def build_action(node: Node, source: SourceLocation) -> Action:
    """The one thing that a step does.

    Raises:
        ObjectError: it does nothing or several things, or does not say to which object.
    """
    fields = Fields(node)
    names = [name for name in _ACTION_BUILDERS if fields.get_node(name) is not None]
    value = fields.get_node(names[0]) if len(names) == 1 else None
    if value is None:
        raise _create_error(source, *_describe_action_count(names))
    return _ACTION_BUILDERS[names[0]](fields, names[0], SourceLocation(source.file, value.line, value.column))


def _describe_action_count(names: list[str]) -> tuple[str, str]:
    """What to say of a step that does nothing, or two things."""
    if not names:
        return MISSING_FIELD, (
            f"a step does one thing, and this one does nothing; write one of {', '.join(_ACTION_BUILDERS)}"
        )
    return UNKNOWN_FIELD, f"a step does one thing, and this one does {' and '.join(names)}; write {len(names)} steps"


def _build_target(fields: Fields, source: SourceLocation) -> StepTarget:
    """The one object that is named."""
    kinds = [name for name in _KINDS if fields.get_node(name) is not None]
    if len(kinds) != 1:
        if kinds:
            raise _create_error(source, UNKNOWN_FIELD, f"{kinds[0]} and {kinds[1]} are two objects; name one")
        raise _create_error(source, MISSING_FIELD, "which object? name one by its kind, as in pod: trainer")
    return StepTarget(_KINDS[kinds[0]], fields.get_text(kinds[0]))


def _build_resize(fields: Fields, name: str, source: SourceLocation) -> Action:
    value = fields.get_fields(name)
    requests, limits = objects.get_requests_and_limits(value)
    return Resize(_build_target(value, source), value.get_text("container"), requests, limits)


def _build_label(fields: Fields, name: str, source: SourceLocation) -> Action:
    value = fields.get_fields(name)
    return Label(_build_target(value, source), get_mapping(value, "labels"))


_ACTION_BUILDERS: dict[str, Callable[[Fields, str, SourceLocation], Action]] = {
    "create": lambda fields, name, source: Create(objects.build_object(fields.get_fields(name), source)),
    "update": lambda fields, name, source: Update(objects.build_object(fields.get_fields(name), source)),
    "resize": _build_resize,
    "scale": lambda fields, name, source: Scale(
        _build_target(fields.get_fields(name), source), parse_count(fields.get_fields(name).get_node("replicas")) or 0
    ),
    "delete": lambda fields, name, source: Delete(_build_target(fields.get_fields(name), source)),
    "finish": lambda fields, name, source: End(_build_target(fields.get_fields(name), source), "Succeeded"),
    "fail": lambda fields, name, source: End(_build_target(fields.get_fields(name), source), "Failed"),
    "label": _build_label,
    "wait": lambda fields, name, _: Wait(parse_duration(fields.get_text(name)), fields.get_text(name)),
}


def _create_error(source: SourceLocation, code: str, message: str) -> StepObjectError:
    return StepObjectError(LintFinding.create(source, code, Severity.ERROR, message))
