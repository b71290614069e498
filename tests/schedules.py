"""Seeded schedules: draw, play, cut down and report them, and the table of mutants.

A schedule is a list of steps; a step is an operation and three numbers. The state of the world alone decides what the
numbers choose, so any part of a schedule is a schedule. A mutant is a wrong implementation of one rule.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol, TypeVar

Step = tuple[str, int, int, int]

_SIMULATION_PAGE = Path(__file__).parent / "gate" / "simulation" / "README.md"
_MAX_SCHEDULES = 10_000
_TITLES = ("mutant", "rule", "behaviour", "schedules", "violation")
_ENDS = (0, 1, 2, 3, 6, 0xFFF0, 0xFFFF)
"""Ways in which a cut-down schedule may end: all writes in flight are stored, some of them, none."""


class ViolationError(AssertionError):
    """An invariant does not hold; the text names it and the ledger."""


class Token(Protocol):
    """An object with a token, which stays the same when a schedule is cut down."""

    @property
    def token(self) -> int:
        """Its place on a circle of 65,536 places."""
        ...


Picked = TypeVar("Picked", bound=Token)


def pick(objects: Sequence[Picked], number: int) -> Picked | None:
    """Return the next object on the circle: the same one whether or not other objects exist."""
    if len(objects) < 2:
        return objects[0] if objects else None
    return min(objects, key=lambda each: (each.token - number) & 0xFFFF)


def draw(weights: Mapping[str, float], length: int, seed: int) -> list[Step]:
    """Return the schedule of a seed, which is always the same."""
    rng = random.Random(seed)  # noqa: S311  # a schedule, not a secret
    operations = rng.choices(list(weights), list(weights.values()), k=length)
    return [(op, rng.getrandbits(16), rng.getrandbits(16), rng.getrandbits(16)) for op in operations]


@dataclass(frozen=True)
class Failure:
    """A schedule that violates an invariant, and its story: one line for each step that did something."""

    violation: str
    story: tuple[str, ...]
    steps: tuple[Step, ...]
    end: int


@dataclass(frozen=True)
class Simulation:
    """One kind of schedule: how it is drawn from a seed, and how its steps and its end are played."""

    draw: Callable[[int], list[Step]]
    play: Callable[[Sequence[Step], int], Failure | None]

    def play_seed(self, seed: int) -> Failure | None:
        """Play the schedule of a seed."""
        return self.play(self.draw(seed), seed)

    def cut_down(self, failure: Failure) -> Failure:
        """Remove steps as long as an invariant is violated without them: first halves, then smaller parts."""
        best, size = failure, max(len(failure.steps) // 2, 1)
        while True:
            smaller = self._remove(best, size)
            if smaller is not None:
                best = smaller
            elif size > 1:
                size //= 2
            else:
                return best
            size = max(min(size, len(best.steps)), 1)

    def _remove(self, failure: Failure, size: int) -> Failure | None:
        steps = failure.steps
        for last in range(len(steps) - 1, -1, -size):
            first = max(last - size + 1, 0)
            for end in dict.fromkeys((failure.end, *_ENDS)):
                smaller = self.play((*steps[:first], *steps[last + 1 :]), end)
                if smaller is not None and len(smaller.steps) < len(steps):
                    return smaller
        return None


@dataclass(frozen=True)
class Mutant:
    """A wrong implementation of a rule of docs/design/caps.md, and a seed whose schedule fails with it.

    `description` is its behaviour as a verb phrase; `product` plays the same schedules without it.
    """

    rule: int
    description: str
    simulation: Simulation
    product: Simulation
    seed: int

    def check(self, max_schedules: int) -> None:
        """Play the schedule of its seed, or else others, with the mutant and with the product.

        Raises:
            ViolationError: if no schedule fails with the mutant, or the same one fails with the product.
        """
        for seed in (self.seed, *range(max_schedules)):
            if self.simulation.play_seed(seed):
                if self.product.play_seed(seed):
                    raise ViolationError(f"the product fails with seed {seed} too")
                return
        raise ViolationError(f"no failure in {max_schedules} schedules")


@dataclass(frozen=True)
class Program:
    """The command line of a simulation, `python -m <name>`; its README.md has the table of its mutants."""

    name: str
    simulations: Mapping[str, Simulation]
    mutants: Mapping[str, Mutant]

    def main(self) -> int:
        """Return 0 if no invariant was violated, 1 if one was, 2 for wrong usage."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.name}")
        commands = parser.add_subparsers(dest="command", required=True)
        walk = commands.add_parser("walk", help="play new schedules of every kind for a time")
        walk.add_argument("--seconds", type=float, default=60)
        walk.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
        walk.add_argument("--only", choices=self.simulations, action="append", help="a kind of schedule; repeatable")
        replay = commands.add_parser("replay", help="play one schedule again and print its story")
        replay.add_argument("name", help="a kind of schedule, or a mutant", choices=[*self.simulations, *self.mutants])
        replay.add_argument("seed", type=int)
        commands.add_parser("mutants", help="print how each mutant fails, as a Markdown table")
        arguments = parser.parse_args()
        if arguments.command == "walk":
            return self._walk(arguments.seconds, arguments.first, arguments.only or list(self.simulations))
        if arguments.command == "replay":
            return self._replay(arguments.name, arguments.seed)
        return self._print_mutants()

    def report(self, name: str, seed: int, failure: Failure) -> str:
        """Return the violation, the story and the command that plays it again."""
        lines = [f"{name!r}, seed {seed}: {failure.violation}"]
        lines += [f"  {number:3}. {line}" for number, line in enumerate(failure.story, 1)]
        return "\n".join([*lines, f"again: python -m {self.name} replay {name!r} {seed}"])

    def check(self, name: str, seeds: Iterable[int]) -> None:
        """Play the schedules of seeds.

        Raises:
            ViolationError: if an invariant is violated; the text is the report of the cut-down schedule.
        """
        simulation = self.simulations[name]
        for seed in seeds:
            if (failure := simulation.play_seed(seed)) is not None:
                raise ViolationError(self.report(name, seed, simulation.cut_down(failure)))

    def _walk(self, seconds: float, first: int, names: Sequence[str]) -> int:
        until, seed = time.monotonic() + seconds, first
        while time.monotonic() < until:
            for name in names:
                try:
                    self.check(name, [seed])
                except ViolationError as error:
                    _print(str(error))
                    return 1
            seed += 1
        _print(f"no violation: {(seed - first) * len(names)} schedules (seeds {first} to {seed - 1})")
        return 0

    def _replay(self, name: str, seed: int) -> int:
        simulation = self.mutants[name].simulation if name in self.mutants else self.simulations[name]
        failure = simulation.play_seed(seed)
        if failure is None:
            _print(f"{name!r}, seed {seed}: no violation")
            return 0
        _print(self.report(name, seed, simulation.cut_down(failure)))
        return 1

    def _print_mutants(self) -> int:
        _print(_format_row(_TITLES))
        _print(_format_row(["---"] * len(_TITLES)))
        return max(self._print_mutant(name, mutant) for name, mutant in self.mutants.items())

    def _print_mutant(self, name: str, mutant: Mutant) -> int:
        simulation, cells = mutant.simulation, self._start_row(name, mutant)
        for seed in range(_MAX_SCHEDULES):
            if (failure := simulation.play_seed(seed)) is not None:
                _print(_format_row([*cells, str(seed + 1), failure.violation.partition(":")[0]]))
                return 0
        _print(_format_row([*cells, f"not within {_MAX_SCHEDULES}"]))
        return 1

    def list_table_rows(self) -> list[list[str]]:
        """Return the first cells of the table of mutants."""
        return [self._start_row(name, mutant) for name, mutant in self.mutants.items()]

    def read_table_rows(self) -> list[list[str]]:
        """Return the same cells of the table in the page of the simulation."""
        lines = _SIMULATION_PAGE.read_text().splitlines()
        first = lines.index(_format_row(_TITLES)) + 2
        rows = takewhile(lambda line: line.startswith("| "), lines[first:])
        return [row.removeprefix("| ").split(" | ")[:3] for row in rows]

    def _start_row(self, name: str, mutant: Mutant) -> list[str]:
        return [f"`{name}`", str(mutant.rule), mutant.description]


def _format_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
