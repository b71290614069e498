"""`python -m tests.gate.simulation`: schedules for some time, one schedule again, or the wrong variants."""

import argparse
import sys
import time
from contextlib import nullcontext

from tests.gate.simulation.running import MIXES, play, report
from tests.gate.simulation.variants import VARIANTS, Variant

_MOST = 10_000


def main() -> int:
    """0 when nothing was found, 1 when something was, 2 for misuse."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.simulation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    walk = commands.add_parser("walk", help="new schedules of every kind, until the time is over")
    walk.add_argument("--seconds", type=float, default=60)
    walk.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    replay = commands.add_parser("replay", help="one schedule again")
    replay.add_argument("name", help="a kind of schedule, or a variant", choices=[*MIXES, *VARIANTS], metavar="NAME")
    replay.add_argument("seed", type=int)
    commands.add_parser("variants", help="how each wrong variant fails, as a table in Markdown")
    asked = parser.parse_args()
    if asked.command == "walk":
        return _walk(asked.seconds, asked.first)
    if asked.command == "replay":
        return _replay(asked.name, asked.seed)
    _say("| variant | rule | what it does | schedules | what breaks |")
    _say("| --- | --- | --- | --- | --- |")
    return max(_row(name, variant) for name, variant in VARIANTS.items())


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _walk(seconds: float, first: int) -> int:
    until, seed = time.monotonic() + seconds, first
    while time.monotonic() < until:
        for mix in MIXES:
            _, broken = play(mix, seed)
            if broken is not None:
                _say(report(mix, seed, broken))
                return 1
        seed += 1
    _say(f"nothing found: {(seed - first) * len(MIXES)} schedules (seeds {first} to {seed - 1})")
    return 0


def _replay(name: str, seed: int) -> int:
    variant = VARIANTS.get(name)
    mix = variant.mix if variant else name
    with variant.in_place() if variant else nullcontext():
        _, broken = play(mix, seed)
    _say(report(name, seed, broken) if broken else f"{name!r}, seed {seed}: nothing found")
    return int(broken is not None)


def _row(name: str, variant: Variant) -> int:
    for seed in range(_MOST):
        with variant.in_place():
            _, broken = play(variant.mix, seed)
        if broken is not None:
            what = broken.violation.partition(":")[0]
            _say(f"| _`{name}`_ | {variant.rule} | {variant.says} | {seed + 1} | {what} |")
            return 0
    _say(f"| _`{name}`_ | {variant.rule} | {variant.says} | not within {_MOST} | |")
    return 1


if __name__ == "__main__":
    sys.exit(main())
