"""The lint of policies with errors: of the parts that have none, so that one run shows every mistake.

A copy of the policy without the invalid fields is built and linted; no gate uses it.
"""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from tallygate.documents.syntax_tree import START, Entry, Mapping, Node, Position, Scalar
from tallygate.documents.syntax_tree import Sequence as SequenceNode
from tallygate.policy.lint_caps import lint_cap
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.lint_implied import lint_implied_request
from tallygate.policy.lint_policies import lint_rule
from tallygate.policy.model import API_VERSION, SourceLocation
from tallygate.policy.policy_builder import Fields, build_cap, build_implied_request, build_rule
from tallygate.policy.schema import check_shape


def lint_valid_parts(name: str, document: Mapping, shape_findings: set[LintFinding]) -> Iterator[LintFinding]:
    """Yield the findings of lint about those parts of a policy that have no error of shape."""
    spec, metadata = document.get("spec"), Fields(document).get_fields("metadata")
    if not isinstance(spec, Mapping):
        return
    pruning = _Pruning({(finding.line, finding.column) for finding in shape_findings})
    valid_spec = pruning.copy_mapping(spec, "")
    head = {"apiVersion": API_VERSION, "kind": Fields(document).get_text("kind"), "metadata": {"name": "unnamed"}}
    valid = Mapping(document.position, [*_create_mapping(head, START).entries, _create_entry("spec", valid_spec)])
    if check_shape(name, valid):
        return
    location, sections = SourceLocation(name, *document.position), frozenset(pruning.sections)
    policy_name = metadata.get_text("name")
    if head["kind"] == "ResourceRule":
        yield from lint_rule(replace(build_rule(valid, location), name=policy_name), sections)
    elif head["kind"] == "ImpliedRequest":
        yield from lint_implied_request(replace(build_implied_request(valid, location), name=policy_name), sections)
    else:
        yield from lint_cap(replace(build_cap(valid, location), name=policy_name), sections)


def _create_mapping(values: dict[str, Any], position: Position) -> Mapping:
    return Mapping(
        position,
        [
            _create_entry(
                name,
                _create_mapping(value, position)
                if isinstance(value, dict)
                else Scalar(position, value, value, plain=False),
            )
            for name, value in values.items()
        ],
    )


def _create_entry(name: str, value: Node) -> Entry:
    return Entry(name, Scalar(value.position, name, name, plain=False), value)


class _Pruning:
    """A copy of nodes without those at invalid positions; `sections` are the fields of the root that lost some."""

    def __init__(self, invalid_positions: set[tuple[int, int]]) -> None:
        self.sections: set[str] = set()
        self._invalid_positions = invalid_positions

    def copy_mapping(self, node: Mapping, section: str) -> Mapping:
        """Return the mapping without invalid entries, and without those that are empty without them."""
        entries: list[Entry] = []
        for entry in node.entries:
            value = (
                None
                if entry.key.position in self._invalid_positions
                else self._copy(entry.value, section or entry.name)
            )
            if value is None:
                self.sections.add(section or entry.name)
            else:
                entries.append(Entry(entry.name, entry.key, value))
        return Mapping(node.position, entries)

    def _copy(self, node: Node, section: str) -> Node | None:
        """Return the valid part of a node, or None if nothing is left of it."""
        if isinstance(node, Mapping):
            begins_with_key = bool(node.entries) and node.entries[0].key.position == node.position
            if node.position in self._invalid_positions and not begins_with_key:
                return None
            mapping = self.copy_mapping(node, section)
            return mapping if mapping.entries or not node.entries else None
        if node.position in self._invalid_positions:
            return None
        if isinstance(node, Scalar):
            return node
        items = [copied for item in node.items if (copied := self._copy(item, section)) is not None]
        if len(items) < len(node.items):
            self.sections.add(section)
        return SequenceNode(node.position, items) if items or not node.items else None
