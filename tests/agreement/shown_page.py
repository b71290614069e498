"""A page as a person reads it: its elements as a tree, its tables, and the amounts in its texts and bars."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Final, NamedTuple

from tallygate.accounting.quantity import Quantity

_VOID: Final = frozenset({"meta", "link", "input", "br", "rect", "option", "circle"})
_STRIP_WIDTH: Final = 1000
_AMOUNTS: Final = re.compile(
    r"(?P<resource>\S+): (?P<used>\S+) used(?: \((?P<own>\S+) here, (?P<others>\S+) by other namespaces\))?"
    r"(?:, (?P<reserved>\S+) reserved)?(?:, (?P<guaranteed>\S+) guaranteed to other namespaces)?"
    r"(?:, (?P<free>\S+) free of (?P<hard>\S+?))?(?:, warns above (?P<soft>\S+?))?"
    r"(?:, no hard limit)?"
)


class Element:
    """An element of a page with its attributes, and the elements and texts in it."""

    def __init__(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        self.tag, self.attributes = tag, attributes
        self.children: list[Element | str] = []

    def find_all(self, tag: str, **attributes: str) -> Iterator["Element"]:
        """Yield the elements of a name inside of this one, in their order, with these values of attributes."""
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag and attributes.items() <= child.attributes.items():
                    yield child
                yield from child.find_all(tag, **attributes)

    @property
    def text(self) -> str:
        """The texts inside, in which each row of blanks is one."""
        texts = (child if isinstance(child, str) else f" {child.text} " for child in self.children)
        return " ".join("".join(texts).split())

    def list_rows(self) -> list[list["Element"]]:
        """Return the cells of each row of the body of this table."""
        rows = [row for body in self.find_all("tbody") for row in body.find_all("tr")]
        return [[child for child in row.children if isinstance(child, Element)] for row in rows]


class _TreeParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def read_page(html: str) -> Element:
    """Return the elements of a page."""
    parser = _TreeParser()
    parser.feed(html)
    return parser.root


class ShownAmounts(NamedTuple):
    """The amounts of one resource of a cap; None for what is not there."""

    resource: str
    used: Quantity | None
    own: Quantity | None
    others: Quantity | None
    reserved: Quantity | None
    guaranteed: Quantity | None
    free: Quantity | None
    hard: Quantity | None
    soft: Quantity | None


def parse_amounts(text: str) -> ShownAmounts:
    """Return the amounts in the text of a cap."""
    found = _AMOUNTS.fullmatch(text)
    assert found, text
    resource, *texts = (found[name] for name in ShownAmounts._fields)
    return ShownAmounts(resource, *(None if text is None else Quantity.parse(text) for text in texts))


def read_amounts(mapping: str) -> dict[str, Quantity]:
    """Return the amounts of a text such as `2 nvidia.com/gpu, 500m cpu`."""
    parts = (part.split(" ") for part in mapping.split(", ") if mapping)
    return {name: Quantity.parse(amount) for amount, name in parts}


def create_quantity(name: str, amount: int) -> Quantity:
    """Return an amount of the JSON, which is in thousandths for cpu."""
    return Quantity(amount, -3 if name.removeprefix("limits.").removeprefix("requests.") == "cpu" else 0)


def check_bar(bar: Element, amounts: Sequence[tuple[str, int]], limits: Mapping[str, int]) -> None:
    """Check that the rectangles of a bar are as long as these amounts, and its marks where these limits are."""
    total = max(sum(amount for _, amount in amounts), *limits.values(), 1)
    drawn = {each.attributes["class"]: each.attributes for each in bar.find_all("rect")}
    begin = 0
    expected = {"ground"}
    for kind, amount in amounts:
        if amount:
            expected.add(kind)
            edges = [edge * _STRIP_WIDTH // total for edge in (begin, begin + amount)]
            found = [int(drawn[kind][name] or "") for name in ("x", "width")]
            assert found == [edges[0], edges[1] - edges[0]], (kind, amount, found)
            begin += amount
    for kind, limit in limits.items():
        expected.add(f"mark {kind}")
        assert int(drawn[f"mark {kind}"]["x"] or "") == min(limit * _STRIP_WIDTH // total, _STRIP_WIDTH - 4), kind
    assert drawn.keys() == expected
