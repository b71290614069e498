"""`python -m tests.state.model [SCENARIO]`: everything that can happen, as far as it can be tried; minutes."""

import sys
import time

from tests.state.model.scenarios import SCENARIOS, every
from tests.state.model.searching import Searched

_MOST = 2_000_000  # states; some 300 bytes each


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Search every scenario, or one, with the rules as they are and with each wrong one; 1 if one is not so."""
    only, wanted = sys.argv[1:], True
    _say("| scenario | variant | states | s | what breaks | steps |")
    _say("| --- | --- | ---: | ---: | --- | ---: |")
    for name, wrong in every():
        if only and name not in only:
            continue
        begun = time.monotonic()
        found = SCENARIOS[name].searched(_MOST, *filter(None, [wrong]))
        wanted &= bool(found.broken) is bool(wrong)
        _say(_row(name, wrong, found, time.monotonic() - begun))
        if only and found.broken:
            _say("\n".join(f"{number:3}. {told}" for number, told in enumerate(found.steps, 1)))
    sys.exit(not wanted)


def _row(name: str, wrong: str, found: Searched, seconds: float) -> str:
    states = f"{found.states:,}{'' if found.whole or found.broken else ' and more'}"
    broken = found.broken.partition(":")[0] or "nothing"
    return f"| {name} | {wrong} | {states} | {seconds:.0f} | {broken} | {len(found.steps) or ''} |"


if __name__ == "__main__":
    main()
