"""`python -m tests.state.simulation`: schedules for some time, one schedule again, or the wrong variants."""

import argparse
import sys
import time

from tests.state.simulation.rules import PRODUCT, Rules
from tests.state.simulation.running import report, seeded, shrink
from tests.state.simulation.scenario import SCENARIOS, Scenario
from tests.state.simulation.variants import VARIANTS, Variant

_MOST = 10_000


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """0 when nothing was found, 1 when something was, 2 for misuse."""
    parser = argparse.ArgumentParser(prog="python -m tests.state.simulation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    walk = commands.add_parser("walk", help="new schedules in every scenario, until the time is over")
    walk.add_argument("--seconds", type=float, default=60)
    walk.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    walk.add_argument("--scenario", choices=SCENARIOS, action="append", help="all, unless some are named")
    replay = commands.add_parser("replay", help="one schedule again, step by step")
    replay.add_argument("name", help="a scenario or a variant", choices=[*SCENARIOS, *VARIANTS], metavar="NAME")
    replay.add_argument("seed", type=int)
    commands.add_parser("variants", help="how each wrong variant fails, as a table in Markdown")
    asked = parser.parse_args()
    if asked.command == "walk":
        return _walk(asked.seconds, asked.first, asked.scenario or list(SCENARIOS))
    if asked.command == "replay":
        return _replay(asked.name, asked.seed)
    return _variants()


def _walk(seconds: float, first: int, names: list[str]) -> int:
    begun, seed, steps = time.monotonic(), first, 0
    while time.monotonic() - begun < seconds:
        for name in names:
            scenario = SCENARIOS[name]
            steps += scenario.steps
            if (broken := seeded(scenario, seed)) is not None:
                _say(report(name, seed, shrink(scenario, broken)))
                return 1
        seed += 1
    schedules = (seed - first) * len(names)
    _say(
        f"nothing found: {schedules} schedules (seeds {first} to {seed - 1} of {len(names)} scenarios), {steps} steps, "
        f"{time.monotonic() - begun:.0f} s"
    )
    return 0


def _replay(name: str, seed: int) -> int:
    scenario, rules = _named(name)
    broken = seeded(scenario, seed, rules)
    _say(
        f"{name!r}, seed {seed}: nothing found"
        if broken is None
        else report(name, seed, shrink(scenario, broken, rules))
    )
    return 0 if broken is None else 1


def _named(name: str) -> tuple[Scenario, Rules]:
    if name in VARIANTS:
        return VARIANTS[name].scenario, VARIANTS[name].rules
    return SCENARIOS[name], PRODUCT


def _variants() -> int:
    _say("| variant | rule | what it does | schedules | steps | what breaks |")
    _say("| --- | --- | --- | --- | --- | --- |")
    return max(_row(name, variant) for name, variant in VARIANTS.items())


def _row(name: str, variant: Variant) -> int:
    for seed in range(_MOST):
        if (broken := seeded(variant.scenario, seed, variant.rules)) is not None:
            shortest = shrink(variant.scenario, broken, variant.rules)
            what = shortest.violation.partition(":")[0]
            line = f"| `{name}` | {variant.rule} | {variant.says} | {seed + 1} | {len(shortest.steps)} | {what} |"
            _say(line)
            return 0
    _say(f"| `{name}` | {variant.rule} | {variant.says} | not within {_MOST} | | |")
    return 1


if __name__ == "__main__":
    sys.exit(main())
