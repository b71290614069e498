"""The edits of one object in one step, as JSON patches there and back."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tallygate.cli.migrate.old_name_uses import MigrationStep, OldNameUse, UseForm, list_uses

Rename = Callable[[str], str]
"""Returns a text with the new names, empty if one of its names has none."""

Operation = dict[str, Any]
"""One operation of a JSON patch."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit of one use: the new name is added, if it `adds`, and the old one removed, if it `removes`."""

    use: OldNameUse
    new: str
    adds: bool
    removes: bool


@dataclass(frozen=True, slots=True)
class StepPatch:
    """The JSON patch of an object in a step, the patch that reverts it, and the object afterwards."""

    forward: tuple[Operation, ...]
    back: tuple[Operation, ...]
    content: dict[str, Any]


def find_next_step(use: OldNameUse, content: Mapping[str, Any], rename: Rename) -> MigrationStep | None:
    """Return the next step that edits a use, None if it is edited by hand."""
    if use.form is UseForm.TEXT:
        return None
    if use.steps.add is None or _has_new(use, content, rename(use.old)):
        return use.steps.remove
    return use.steps.add


def list_edits(content: Mapping[str, Any], step: MigrationStep, rename: Rename) -> list[Edit]:
    """Return the edits of an object in a step."""
    edits = []
    for use in list_uses(content):
        if use.form is UseForm.TEXT or step not in {use.steps.add, use.steps.remove}:
            continue
        new = rename(use.old)
        if not new:
            continue
        has_new = _has_new(use, content, new)
        if step is use.steps.remove:
            edits.append(Edit(use, new, adds=not has_new, removes=True))
        elif not has_new:
            edits.append(Edit(use, new, adds=True, removes=False))
    return edits


def create_step_patch(content: Mapping[str, Any], edits: list[Edit]) -> StepPatch:
    """Return the patch of these edits; each operation is preceded by a test of what it changes.

    The last items of a list are edited first, so that the indices of the others stay.
    """
    changed = deepcopy(dict(content))
    forward: list[Operation] = []
    back: list[Operation] = []
    for edit in reversed(edits):
        there, reverted = _create_item_patch(edit) if edit.use.form is UseForm.ITEM else _create_key_patch(edit)
        _apply(changed, edit)
        forward += there
        back[:0] = reverted
    return StepPatch(tuple(forward), tuple(back), changed)


def find_parent(content: Mapping[str, Any], use: OldNameUse) -> Any:
    """Return the mapping or list in which a use is."""
    parent: Any = content
    for step in use.path[:-1]:
        parent = parent[step]
    return parent


def _has_new(use: OldNameUse, content: Mapping[str, Any], new: str) -> bool:
    return bool(new) and new in find_parent(content, use)


def _create_key_patch(edit: Edit) -> tuple[list[Operation], list[Operation]]:
    old, new = format_pointer(*edit.use.path), format_pointer(*edit.use.path[:-1], edit.new)
    forward: list[Operation] = [{"op": "test", "path": old, "value": edit.use.value}]
    back: list[Operation] = []
    if edit.removes:
        back += [{"op": "add", "path": old, "value": edit.use.value}]
    if edit.adds:
        forward += [{"op": "add", "path": new, "value": edit.use.value}]
        back += [{"op": "test", "path": new, "value": edit.use.value}, {"op": "remove", "path": new}]
    if edit.removes:
        forward += [{"op": "remove", "path": old}]
    return forward, back


def _create_item_patch(edit: Edit) -> tuple[list[Operation], list[Operation]]:
    *parent, index = edit.use.path
    old = format_pointer(*edit.use.path)
    test: Operation = {"op": "test", "path": old, "value": edit.use.old}
    if edit.adds and edit.removes:
        undo_test = {"op": "test", "path": old, "value": edit.new}
        return (
            [test, {"op": "replace", "path": old, "value": edit.new}],
            [undo_test, {"op": "replace", "path": old, "value": edit.use.old}],
        )
    if edit.removes:
        return [test, {"op": "remove", "path": old}], [{"op": "add", "path": old, "value": edit.use.old}]
    new = format_pointer(*parent, int(index) + 1)
    return (
        [test, {"op": "add", "path": new, "value": edit.new}],
        [{"op": "test", "path": new, "value": edit.new}, {"op": "remove", "path": new}],
    )


def _apply(content: dict[str, Any], edit: Edit) -> None:
    parent, last = find_parent(content, edit.use), edit.use.path[-1]
    if edit.adds and edit.use.form is UseForm.ITEM:
        parent.insert(int(last) + 1, edit.new)
    elif edit.adds:
        parent[edit.new] = edit.use.value
    if edit.removes:
        del parent[last]


def format_pointer(*path: str | int) -> str:
    """Return a path as RFC 6901 writes it."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
