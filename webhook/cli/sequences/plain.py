"""Nodes to plain values, as an object's JSON has them."""

import re
from typing import Any

from webhook.policy.build import Fields
from webhook.policy.nodes import Mapping, Node, Number, Scalar, Sequence

_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")


def plain(node: Node | None) -> Any:
    """The value of a node; a number that is not a whole one stays the text it is, which a quantity may be as well."""
    match node:
        case Mapping():
            return {key.text: plain(value) for key, value in node.pairs}
        case Sequence():
            return [plain(item) for item in node.items]
        case Scalar():
            return _scalar(node)
        case None:
            return None


def mapping(fields: Fields, name: str) -> dict[str, Any]:
    """The value of a field that is a mapping; empty where it is absent."""
    found = plain(fields.get_node(name))
    return found if isinstance(found, dict) else {}


def number(node: Node | None) -> int | None:
    """The value of a field that the schema has judged to be a number of pods."""
    return int(node.text) if isinstance(node, Scalar) else None


def _scalar(node: Scalar) -> Any:
    if not isinstance(node.value, Number):
        return node.value
    return int(node.text) if _WHOLE.fullmatch(node.text) else node.text
