"""Nodes to plain values, as an object's JSON has them."""

import re
from typing import Any

from webhook.policy.nodes import Mapping, Node, Number, Scalar, Sequence
from webhook.policy.policy_builder import Fields

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")


def convert_node(node: Node | None) -> Any:
    """The value of a node; a number that is not a whole one stays the text it is, which a quantity may be as well."""
    match node:
        case Mapping():
            return {key.text: convert_node(value) for key, value in node.pairs}
        case Sequence():
            return [convert_node(item) for item in node.items]
        case Scalar():
            return _convert_scalar(node)
        case None:
            return None


def get_mapping(fields: Fields, name: str) -> dict[str, Any]:
    """The value of a field that is a mapping; empty where it is absent."""
    value = convert_node(fields.get_node(name))
    return value if isinstance(value, dict) else {}


def parse_count(node: Node | None) -> int | None:
    """The value of a field that the schema has judged to be a number of pods."""
    return int(node.text) if isinstance(node, Scalar) else None


def _convert_scalar(node: Scalar) -> Any:
    if not isinstance(node.value, Number):
        return node.value
    return int(node.text) if _INTEGER.fullmatch(node.text) else node.text
