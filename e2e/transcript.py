"""Cases as transcripts of a terminal: what is typed, and what kubectl and tallygate print then.

A transcript is a text file. `$` begins a command, which goes on in the next line after a backslash; what follows it up
to the next blank line, comment or command is what it prints, both streams as a terminal mixes them, and `(exit 1)` if
it fails. `#` begins a comment, `#: policies NAME…` names policy files to be in force instead of the shipped ones. `…`
in what is printed stands for anything. `$NODE` and `$NAMESPACE` are the case's own, in commands and in what is printed.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from string import Template

_POLICIES = "#: policies "

Run = Callable[[list[str]], str]
"""Runs a command; what it printed, with the line `(exit N)` at the end when it failed."""


@dataclass(frozen=True, slots=True)
class Step:
    """Lines of comment and a command with what it prints; `typed` is empty where comments end a file."""

    before: tuple[str, ...]
    typed: tuple[str, ...]
    printed: tuple[str, ...]

    @property
    def command(self) -> str:
        """The command as one line."""
        return " ".join(line.removeprefix("$ ").removesuffix("\\").strip() for line in self.typed)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A case: steps in order."""

    steps: tuple[Step, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policy files that it wants; none: the shipped ones."""
        lines = (line for step in self.steps for line in step.before)
        return tuple(name for line in lines if line.startswith(_POLICIES) for name in line.split()[2:])

    def text(self) -> str:
        """As a file."""
        lines = (line for step in self.steps for line in (*step.before, *step.typed, *step.printed))
        return "".join(f"{line}\n" for line in lines)


def parse(text: str) -> Transcript:
    """Read a transcript."""
    steps, before, lines = list[Step](), list[str](), text.splitlines()
    while lines:
        if not lines[0].startswith("$ "):
            before.append(lines.pop(0))
            continue
        typed = [lines.pop(0)]
        while typed[-1].endswith("\\"):
            typed.append(lines.pop(0))
        printed = _taken(lines, lambda line: bool(line) and not line.startswith(("$ ", "# ", "#:")))
        steps.append(Step(tuple(before), tuple(typed), tuple(printed)))
        before = []
    return Transcript((*steps, Step(tuple(before), (), ())))


def played(transcript: Transcript, run: Run, values: Mapping[str, str]) -> Transcript:
    """The transcript as it goes now: what is printed otherwise is replaced, and what still holds is kept."""
    return Transcript(tuple(_played(step, run, values) if step.typed else step for step in transcript.steps))


def _played(step: Step, run: Run, values: Mapping[str, str]) -> Step:
    printed = run([Template(word).safe_substitute(values) for word in shlex.split(step.command)])
    for name, value in values.items():
        printed = printed.replace(value, f"${name}")
    # A blank line would end what is printed, and so would a comment.
    lines = tuple(line for line in printed.splitlines() if line)
    return step if _matches(step.printed, lines) else replace(step, printed=lines)


def _matches(expected: Iterable[str], printed: Iterable[str]) -> bool:
    pattern = "\n".join(re.escape(line).replace("…", ".*?") for line in expected)
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def _taken(lines: list[str], wanted: Callable[[str], bool]) -> list[str]:
    taken = []
    while lines and wanted(lines[0]):
        taken.append(lines.pop(0))
    return taken
