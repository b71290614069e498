"""The figures as tables in Markdown."""

from collections.abc import Iterable, Iterator

from e2e.bench.figures import Figure, RejectionFigure, Spread
from e2e.bench.measure import Load
from e2e.bench.variants import EVERY

_TITLES = {variant.name: variant.title for variant in EVERY}
_COLUMNS = (
    "clients",
    "variant",
    "p50 ms",
    "p99 ms",
    "creates/s",
    "p50 ×",
    "p99 ×",
    "creates/s ×",
    "adds ms (rounds)",
    "× what Flask adds, call for call (rounds)",
    "× what ResourceQuota adds (rounds)",
    "× what a cap with an empty ledger in the cluster adds (rounds)",
    "creates/s × ResourceQuota's",
    "calls a create",
    "ms a call",
)


def format_table(compute_figures: Iterable[Figure]) -> Iterator[str]:
    """Yield the lines of the main table: figures, ratios, and median, minimum and maximum of the rounds."""
    yield _row(*_COLUMNS)
    yield _row("---:", "---", *(["---:"] * (len(_COLUMNS) - 2)))
    for each in compute_figures:
        yield _row(
            Load(each.clients, each.seldom).title,
            _TITLES[each.variant],
            f"{each.p50:.2f}",
            f"{each.p99:.2f}",
            f"{each.per_second:,.0f}",
            f"{each.p50_ratio:.2f}",
            f"{each.p99_ratio:.2f}",
            f"{each.per_second_ratio:.2f}",
            _format_spread(each.added),
            _format_spread(each.added_ratio),
            _format_spread(each.quota_ratio),
            _format_spread(each.empty_ratio),
            "" if each.per_second_of_quota is None else f"{each.per_second_of_quota:.2f}",
            f"{each.calls:.4g}",
            f"{each.call:.2f}" if each.calls else "",
        )


def format_rejection_table(measure_rejections: Iterable[RejectionFigure]) -> Iterator[str]:
    """Yield the lines of the table of rejections."""
    yield _row("clients", "variant", "p50 ms", "p99 ms", "p50 × ResourceQuota's (rounds)")
    yield _row("---:", "---", "---:", "---:", "---:")
    for each in measure_rejections:
        yield _row(
            Load(1, each.seldom).title,
            _TITLES[each.variant],
            f"{each.p50:.2f}",
            f"{each.p99:.2f}",
            _format_spread(each.p50_ratio),
        )


def _format_spread(figure: Spread | None) -> str:
    return "" if figure is None else f"{figure.median:.2f} ({figure.minimum:.2f} to {figure.maximum:.2f})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
