"""The figures for people: one table in Markdown."""

from collections.abc import Iterable, Iterator

from e2e.bench.figures import Figure, Over, Refusal
from e2e.bench.measure import Way
from e2e.bench.variants import EVERY

_TITLES = {variant.name: variant.title for variant in EVERY}
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
    "× what Flask adds, call for call (rounds)",
    "× what ResourceQuota adds (rounds)",
    "creates/s × ResourceQuota's",
    "calls a create",
    "ms a call",
)


def table(figures: Iterable[Figure]) -> Iterator[str]:
    """The lines: ratios beside what is measured; of what rounds gave, their median, the least and the greatest."""
    yield _row(*_COLUMNS)
    yield _row("---:", "---", *(["---:"] * (len(_COLUMNS) - 2)))
    for each in figures:
        yield _row(
            Way(each.clients, each.seldom).title,
            _TITLES[each.variant],
            f"{each.p50:.2f}",
            f"{each.p99:.2f}",
            f"{each.per_second:,.0f}",
            f"{each.p50_ratio:.2f}",
            f"{each.p99_ratio:.2f}",
            f"{each.per_second_ratio:.2f}",
            _over(each.added),
            _over(each.added_ratio),
            _over(each.quota_ratio),
            "" if each.per_second_of_quota is None else f"{each.per_second_of_quota:.2f}",
            f"{each.calls:.0f}",
            f"{each.call:.2f}" if each.calls else "",
        )


def refusal_table(refusals: Iterable[Refusal]) -> Iterator[str]:
    """The lines about pods that are refused for want of room."""
    yield _row("clients", "who refuses", "p50 ms", "p99 ms", "p50 × ResourceQuota's (rounds)")
    yield _row("---:", "---", "---:", "---:", "---:")
    for each in refusals:
        yield _row(
            Way(1, each.seldom).title,
            _TITLES[each.variant],
            f"{each.p50:.2f}",
            f"{each.p99:.2f}",
            _over(each.p50_ratio),
        )


def _over(figure: Over | None) -> str:
    return "" if figure is None else f"{figure.middle:.2f} ({figure.least:.2f} to {figure.most:.2f})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
