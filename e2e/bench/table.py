"""The figures for people: one table in Markdown."""

from collections.abc import Iterable, Iterator

from e2e.bench.figures import Figure, Over
from e2e.bench.variants import VARIANTS

_TITLES = {variant.name: variant.title for variant in VARIANTS}
_COLUMNS = (
    "clients",
    "who is asked",
    "p50 ms",
    "p99 ms",
    "creates/s",
    "p50 ×",
    "p99 ×",
    "creates/s ×",
    "adds ms (rounds)",
    "× what Flask adds (rounds)",
    "calls a create",
    "ms a call",
)


def table(figures: Iterable[Figure]) -> Iterator[str]:
    """The lines: ratios beside what is measured; of what rounds gave, their median, the least and the greatest."""
    yield _row(*_COLUMNS)
    yield _row("---:", "---", *(["---:"] * (len(_COLUMNS) - 2)))
    for each in figures:
        yield _row(
            str(each.clients),
            _TITLES[each.variant],
            f"{each.p50:.2f}",
            f"{each.p99:.2f}",
            f"{each.per_second:,.0f}",
            f"{each.p50_ratio:.2f}",
            f"{each.p99_ratio:.2f}",
            f"{each.per_second_ratio:.2f}",
            _over(each.added),
            _over(each.added_ratio),
            f"{each.calls:.0f}",
            f"{each.call:.2f}" if each.calls else "",
        )


def _over(figure: Over | None) -> str:
    return "" if figure is None else f"{figure.middle:.2f} ({figure.least:.2f} to {figure.most:.2f})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
