"""`python -m tests.state.model [SCENARIO]`: search every scenario, or one, with the rules and with each mutant."""

import sys
import time

from tests.state.model.scenarios import SCENARIOS, list_searches
from tests.state.model.search import SearchResult

_MAX_STATES = 2_000_000  # some 300 bytes each


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Search for minutes; exit with 1 if a mutant violates nothing, or the rules violate an invariant."""
    only, is_expected = sys.argv[1:], True
    _print("| scenario | mutant | states | s | violation | steps |")
    _print("| --- | --- | ---: | ---: | --- | ---: |")
    for name, mutant in list_searches():
        if only and name not in only:
            continue
        started_at = time.monotonic()
        result = SCENARIOS[name].search(_MAX_STATES, *filter(None, [mutant]))
        is_expected &= bool(result.violation) is bool(mutant)
        _print(_format_row(name, mutant, result, time.monotonic() - started_at))
        if only and result.violation:
            _print("\n".join(f"{number:3}. {line}" for number, line in enumerate(result.story, 1)))
    sys.exit(not is_expected)


def _format_row(name: str, mutant: str, result: SearchResult, seconds: float) -> str:
    states = f"{result.states:,}{'' if result.is_complete or result.violation else ' and more'}"
    violation = result.violation.partition(":")[0] or "nothing"
    return f"| {name} | {mutant} | {states} | {seconds:.0f} | {violation} | {len(result.story) or ''} |"


if __name__ == "__main__":
    main()
