"""The columns of records: the one definition of their table, their JSON and their YAML."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from tallygate.answers import code_catalog
from tallygate.manifests.findings import Finding

R = TypeVar("R")

UNKNOWN: Final = "-"
"""The cell of a table for a value that there is not, or that is not known."""

API_VERSION: Final = "tallygate.dev/v1"
"""The version of all answers as JSON and YAML (docs/reference/commands.md)."""

_CONTROL_CHARACTERS = dict.fromkeys((*range(9), *range(11, 32), 127, *range(128, 160)), "\ufffd")


def escape_control(text: str) -> str:
    """Return a text whose control characters are replaced, so that a terminal only displays it."""
    return text.translate(_CONTROL_CHARACTERS)


def align_rows(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as plain lines, never folded: for many rows, since `create_table` prints only 3,000 a second."""
    cells = [headers, *([escape_control(cell).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


@dataclass(frozen=True)  # slots would have no place for the type that a subscript records
class Column(Generic[R]):
    """A value of the records that a command prints.

    `heading` is its title in a table, `key` its name in JSON and YAML; a value without one of them is not there.
    `value` returns it: by default the attribute `key` of a record. `text` is its form in a table: by default the
    value, and a dash for none. With `is_named_once` a table leaves out a text that is also in the row above.
    """

    heading: str
    key: str
    value: Callable[[R], Any] | None = None
    text: Callable[[R], str] | None = None
    is_named_once: bool = False

    def get(self, record: R) -> Any:
        """Return the value for JSON and YAML."""
        return getattr(record, self.key) if self.value is None else self.value(record)

    def format(self, record: R) -> str:
        """Return the cell of a table."""
        if self.text is not None:
            return self.text(record)
        value = self.get(record)
        return UNKNOWN if value is None else str(value)


class Columns(Generic[R]):
    """The columns of a command's records: the one definition of its table, its JSON and its YAML."""

    def __init__(self, *columns: Column[R]) -> None:
        self.columns = columns
        self._in_table = [column for column in columns if column.heading]
        self.headings = tuple(column.heading for column in self._in_table)

    def to_dict(self, record: R) -> dict[str, Any]:
        """Return a record as plain data."""
        return {column.key: column.get(record) for column in self.columns if column.key}

    def list_rows(self, records: Iterable[R]) -> list[list[str]]:
        """Return the rows of a table."""
        rows = [[column.format(record) for column in self._in_table] for record in records]
        for index, column in enumerate(self._in_table):
            if column.is_named_once:
                for above, row in reversed([*pairwise(rows)]):
                    row[index] = row[index] * (row[index] != above[index])
        return rows

    def align(self, records: Iterable[R]) -> str:
        """Return a table as plain lines, never folded."""
        return "\n".join(align_rows(self.headings, self.list_rows(records)))


def format_subject(finding: Finding) -> str:
    """Return the object of a finding, with the template that it comes from."""
    origin = f" from {finding.subject.origin}" if finding.subject.origin else ""
    return escape_control(f"{finding.subject}{origin}")


FINDINGS = Columns[Finding](
    Column("WHERE", "", attrgetter("location")),
    Column("", "file"),
    Column("", "line"),
    Column("", "column"),
    Column("LEVEL", "level", lambda finding: finding.severity.value),
    Column("", "code"),
    Column("", "name", lambda finding: code_catalog.get_code(finding.code).slug),
    Column("", "message"),
    Column("", "by", attrgetter("reporter")),
    Column("", "why"),
    Column("", "field"),
    Column("", "document", attrgetter("subject.document")),
    Column("OBJECT", "object", lambda finding: finding.subject.to_dict(), format_subject, is_named_once=True),
    Column("", "source", attrgetter("subject.origin")),
    Column("FINDING", "", lambda finding: f"{finding.field_message} ({finding.code}, {finding.attribution})"),
)
"""The findings of a command about files; each line of a pipe is one finding."""
