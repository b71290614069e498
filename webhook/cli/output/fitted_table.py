"""Tables and paragraphs that fit a terminal and never break a name: only blanks become line breaks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

_GAP = 2
_BENEATH_INDENT = 4
_MIN_TEXT_WIDTH = 24
"""The width below which a text is unreadable beside other columns."""
_WORD = re.compile(r"\S+\s*|\s+")


def wrap_words(text: Text, width: int) -> list[Text]:
    """Return the lines of a text, broken at blanks only; a longer word is a line of its own."""
    return [line for paragraph in text.split("\n", allow_blank=True) for line in _wrap_paragraph(paragraph, width)]


def _wrap_paragraph(paragraph: Text, width: int) -> list[Text]:
    breaks, line_start, plain = [], 0, paragraph.plain
    for match in _WORD.finditer(plain):
        if match.start() > line_start and cell_len(plain[line_start : match.end()].rstrip()) > width:
            line_start = match.start()
            breaks.append(line_start)
    lines = list(paragraph.divide(breaks)) if breaks else [paragraph]
    for line in lines:
        line.rstrip()
    return lines


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text, indented, that is broken at blanks only; `hanging` is the further indent of all lines but the first."""

    text: Text
    indent: int = 0
    hanging: int = 0

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        indent = self.indent
        for line in wrap_words(self.text, options.max_width - self.indent - self.hanging):
            yield _create_line([Text(" " * indent), line])
            indent = self.indent + self.hanging


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table without lines that fits the width of a terminal; its last column is a text, the others are names.

    Where the columns are too wide, those in `droppable` are left out, in this order; then the text stands beneath its
    row, and then the first column above the others. `titles` are lines before the rows of these numbers.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[Text]]
    droppable: Sequence[str] = ()
    titles: Mapping[int, Text] = field(default_factory=lambda: MappingProxyType({}))
    indent: int = 0

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines of the header and of the rows."""
        layout = self._fit(options.max_width)
        if any(self.headers):
            yield from layout.render_row([Text(title, "bold") for title in self.headers])
        for number, row in enumerate(self.rows):
            if number in self.titles:
                yield from Paragraph(self.titles[number], 0, _BENEATH_INDENT).__rich_console__(_, options)
            yield from layout.render_row(row)

    def _fit(self, width: int) -> "_Layout":
        widths = [
            max([cell_len(title), *(_measure(row[index]) for row in self.rows)])
            for index, title in enumerate(self.headers)
        ]
        texts = [row[-1] for row in self.rows]
        longest_word = max((cell_len(word) for text in texts for word in text.plain.split()), default=0)
        min_text_width = max(cell_len(self.headers[-1]), longest_word, min(_MIN_TEXT_WIDTH, widths[-1]))
        columns, dropped = list(range(len(self.headers) - 1)), list(self.droppable)
        while dropped and self._measure_columns(columns, widths) + min_text_width > width:
            columns.remove(self.headers.index(dropped.pop(0)))
        columns_width = self._measure_columns(columns, widths)
        text_width = width - columns_width
        if text_width < min_text_width:
            text_width = 0
        is_stacked = not text_width and columns_width - _GAP > width
        return _Layout(columns, widths, self.indent, width, text_width, is_stacked)

    def _measure_columns(self, columns: Sequence[int], widths: Sequence[int]) -> int:
        return self.indent + sum(widths[index] + _GAP for index in columns)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns to show; `text_width` is 0 if the text stands beneath its row."""

    columns: Sequence[int]
    widths: Sequence[int]
    indent: int
    width: int
    text_width: int
    is_stacked: bool

    def render_row(self, cells: Sequence[Text]) -> Iterator[Text]:
        """Yield the lines of a row."""
        columns, indent = self.columns, self.indent
        if self.is_stacked:
            first, *columns = columns
            yield _create_line([Text(" " * indent), cells[first]])
            indent += _GAP
        blocks = [(list(cells[index].split("\n", allow_blank=True)), self.widths[index] + _GAP) for index in columns]
        if self.text_width:
            blocks.append((wrap_words(cells[-1], self.text_width), 0))
        for number in range(max((len(lines) for lines, _ in blocks), default=0)):
            line = [_pad(lines[number] if number < len(lines) else Text(), width) for lines, width in blocks]
            yield _create_line([Text(" " * indent), *line])
        if not self.text_width and cells[-1].plain:
            beneath = self.indent + _BENEATH_INDENT
            for text_line in wrap_words(cells[-1], self.width - beneath):
                yield _create_line([Text(" " * beneath), text_line])


def _measure(text: Text) -> int:
    return max((cell_len(line) for line in text.plain.split("\n")), default=0)


def _pad(text: Text, width: int) -> Text:
    padded = text.copy()
    padded.append(" " * (width - cell_len(text.plain)))
    return padded


def _create_line(parts: Sequence[Text]) -> Text:
    """Return one line, which a terminal gets as it is."""
    line = Text.assemble(*parts)
    line.rstrip()
    line.no_wrap, line.overflow = True, "ignore"
    return line
