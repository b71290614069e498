"""The outcomes for people: one table in Markdown."""

from collections.abc import Iterable, Iterator

from e2e.stress.outcome import Outcome

_COLUMNS = (
    "stress test",
    "seconds",
    "stored",
    "refused (403)",
    "busy (429)",
    "other errors",
    "peak used",
    "cap",
    "over",
    "room back after",
)
_LEFT = {"stress test", "other errors", "room back after"}


def format_table(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield _row(*_COLUMNS)
    yield _row(*("---" if column in _LEFT else "---:" for column in _COLUMNS))
    for each in outcomes:
        yield _row(
            each.title,
            f"{each.seconds:.1f}",
            f"{each.stored:,}",
            f"{each.refused:,}",
            f"{each.busy:,}",
            ", ".join(f"{times} × {error}" for error, times in sorted(each.errors.items())) or "none",
            f"{each.peak:g}",
            f"{each.hard:g}",
            "OVER" if each.is_over else "never",
            each.room,
        )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
