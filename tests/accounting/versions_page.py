"""The tables of docs/reference/versions.md. `python -m tests.accounting.versions_page` writes them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tallygate.accounting.kubernetes_versions.switches import FEATURE_GATES, Switch
from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS
from tallygate.accounting.kubernetes_versions.version_data import UNSWITCHED_RULES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "versions.md"


def _create_table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _list_switches() -> Iterator[Sequence[str]]:
    preliminary = {version.minor for version in MODELLED_VERSIONS if version.is_preliminary}
    for switch in Switch:
        since, area, effect, source, gate = switch.value
        note = " (preliminary)" if since in preliminary else ""
        yield f"1.{since}{note}", area.value, effect, f"{source}{f'; gate {gate}' if gate else ''}"


def _list_gates() -> Iterator[Sequence[str]]:
    for gate in FEATURE_GATES:
        defaults = ("on" if gate.is_on(version.minor) else "off" for version in MODELLED_VERSIONS)
        yield gate.name, *defaults, gate.effect


def create_tables() -> dict[str, str]:
    """Return each table by its name in the comments of the page."""
    return {
        "switches": _create_table(("since", "part", "rule", "source"), _list_switches()),
        "unswitched": _create_table(("since", "rule of Kubernetes", "source", "tallygate"), iter(UNSWITCHED_RULES)),
        "gates": _create_table(("gate", *map(str, MODELLED_VERSIONS), "effect"), _list_gates()),
    }


def update_tables(page: str) -> str:
    """Return the page with the current tables."""
    for name, table in create_tables().items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        head, rest = page.split(begin)
        page = f"{head}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(update_tables(PAGE.read_text()))
