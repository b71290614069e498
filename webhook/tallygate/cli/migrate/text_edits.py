"""Edits of a text of manifests or policies by position, so that its comments and its layout stay as they are.

The edited text is read again and compared with the edits of the plain objects: a text whose layout is not known here is
reported, and not written.
"""

import json
from collections.abc import Mapping as Plain
from dataclasses import dataclass
from typing import Any

from tallygate.cli.migrate.old_name_uses import MigrationStep, OldNameUse, UseForm
from tallygate.cli.migrate.step_edits import Edit, Rename, create_step_patch, list_edits
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits, Mapping, Node, Position, Scalar, Sequence
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError

LIMITS = Limits()
_ITEMS = "items"


class TextEditError(TallygateError):
    """A text that cannot be edited by position; `position` is the place of the old name."""

    def __init__(self, position: Position, message: str) -> None:
        super().__init__(message)
        self.position = position


@dataclass(frozen=True, slots=True)
class TextObject:
    """An object of a text: its node and its plain value."""

    root: Mapping
    content: dict[str, Any]


def list_text_objects(text: str) -> list[TextObject]:
    """Return the objects of a text, those of lists one by one.

    Raises:
        DocumentError: if the text cannot be read.
    """
    objects = []
    for document in read_documents(text, LIMITS):
        roots = [document.root]
        if isinstance(document.root, Mapping) and isinstance(items := document.root.get(_ITEMS), Sequence):
            roots = items.items
        objects += [
            TextObject(root, json.loads(to_json(root, LIMITS.expanded))) for root in roots if isinstance(root, Mapping)
        ]
    return objects


def find_position(root: Mapping, use: OldNameUse) -> Position:
    """Return the position of a use, or of the nearest written node around it."""
    position, node = root.position, root
    current: Node = node
    for step in use.path:
        if isinstance(current, Mapping) and (entry := current.get_entry(str(step))) is not None:
            position, current = entry.key.position, entry.value
        elif isinstance(current, Sequence) and isinstance(step, int):
            current = current.items[step]
            position = current.position
        else:
            break
    return position


def edit_text(text: str, step: MigrationStep, rename: Rename) -> str:
    """Return the text after a step.

    Raises:
        DocumentError: if the text cannot be read.
        TextEditError: if an old name is written in a layout that cannot be edited by position.
    """
    lines = _Lines(text)
    expected: list[dict[str, Any]] = []
    pieces: dict[tuple[int, int], str] = {}
    first = Position(1, 1)
    for item in list_text_objects(text):
        edits = list_edits(item.content, step, rename)
        expected.append(create_step_patch(item.content, edits).content)
        for edit in edits:
            first = find_position(item.root, edit.use)
            start, end, replacement = lines.locate(item.root, edit)
            pieces[start, end] = replacement
    if not pieces:
        return text
    edited = text
    for (start, end), replacement in sorted(pieces.items(), reverse=True):
        edited = edited[:start] + replacement + edited[end:]
    if _read_contents(edited) != expected:
        raise TextEditError(first, "the layout around the old name cannot be edited by position")
    return edited


def _read_contents(text: str) -> list[Plain[str, Any]] | None:
    try:
        return [item.content for item in list_text_objects(text)]
    except DocumentError:
        return None


class _Lines:
    """The positions of a text as offsets."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _get_offset(self, position: Position) -> int:
        return self._starts[position.line - 1] + position.column - 1

    def locate(self, root: Mapping, edit: Edit) -> tuple[int, int, str]:
        """Return the start and the end of the part that an edit replaces, and its replacement."""
        container, first, last = self._find_scalars(root, edit.use)
        start, name_end = self._find_extent(first)
        end = self._find_extent(last)[1]
        new_name = self._text[start:name_end].replace(edit.use.old, edit.new)
        if edit.adds and edit.removes:
            return start, name_end, new_name
        line_start = self._text.rfind("\n", 0, start) + 1
        line_end = self._text.find("\n", end)
        line_end = len(self._text) if line_end < 0 else line_end
        before = self._text[line_start:start]
        is_flow = self._text.startswith(("{", "["), self._get_offset(container.position))
        if edit.removes:
            return self._cut(start, end) if is_flow else (line_start, min(line_end + 1, len(self._text)), "")
        if is_flow:
            return end, end, f", {new_name}{self._text[name_end:end]}"
        indent = before if edit.use.form is UseForm.ITEM else " " * len(before)
        return line_end, line_end, f"\n{indent}{new_name}{self._text[name_end:line_end]}"

    def _cut(self, start: int, end: int) -> tuple[int, int, str]:
        """Return the part of an entry of a list or mapping in brackets, with the comma after it or before it."""
        after = self._text[end:]
        stripped = after.lstrip()
        if stripped.startswith(","):
            rest = stripped[1:]
            return start, len(self._text) - len(rest.lstrip()), ""
        before = self._text[:start].rstrip()
        return (len(before) - 1 if before.endswith(",") else start), end, ""

    def _find_scalars(self, root: Mapping, use: OldNameUse) -> tuple[Node, Scalar, Scalar]:
        """Return the mapping or list of an entry or item, and the first and the last scalar of it.

        Raises:
            TextEditError: if an alias or merge key has the entry, or its value is not a single one.
        """
        node: Node | None = root
        for step in use.path[:-1]:
            if isinstance(node, Mapping):
                node = node.get(str(step))
            elif isinstance(node, Sequence) and isinstance(step, int):
                node = node.items[step]
        last = use.path[-1]
        if isinstance(node, Mapping) and (entry := node.get_entry(str(last))) is not None:
            if isinstance(entry.value, Scalar):
                return node, entry.key, entry.value
        elif isinstance(node, Sequence) and isinstance(last, int):
            item = node.items[last]
            if isinstance(item, Scalar):
                return node, item, item
        raise TextEditError(find_position(root, use), "an old name beside a merge key or a nested value is not edited")

    def _find_extent(self, scalar: Scalar) -> tuple[int, int]:
        """Return the start and the end of a scalar in the text.

        Raises:
            TextEditError: if it is not written as it reads, as with an escape, a tag or an anchor.
        """
        start = self._get_offset(scalar.position)
        quote = self._text[start : start + 1]
        written = f"{quote}{scalar.text}{quote}" if quote and quote in "\"'" else scalar.text
        if not self._text.startswith(written, start):
            raise TextEditError(scalar.position, "an old name beside a tag, an anchor or an escape is not edited")
        return start, start + len(written)
