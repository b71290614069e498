"""Cases as transcripts of a terminal: typed commands, and what kubectl and tallygate print.

A transcript is a text file. `$` begins a command, which goes on in the next line after a backslash; what follows it up
to the next blank line, comment or command is what it prints, both streams as a terminal mixes them, without blank
lines and spaces at the end of a line, and `(exit 1)` if it fails. Lines of kubectl's own log are left out: they come
by chance. `#` begins a comment, `#:` a stage direction, which is followed before the next command is run. `…` in what
is printed stands for anything within a line, and a line of its own for any lines. `$NODE` and `$NAMESPACE` are the
case's own, in commands and in what is printed.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from string import Template

_DIRECTION = "#: "
_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} ")
"""The head of a line of a log: `FormatHeader` of k8s.io/klog/v2 v2.140, internal/buffer/buffer.go."""

Run = Callable[[list[str]], str]
"""Runs a command; what it printed, with the line `(exit N)` at the end when it failed."""

Direct = Callable[[str], None]
"""Follows a stage direction."""


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

    @property
    def directions(self) -> tuple[str, ...]:
        """The stage directions before the command."""
        return tuple(line.removeprefix(_DIRECTION) for line in self.before if line.startswith(_DIRECTION))


@dataclass(frozen=True, slots=True)
class Transcript:
    """A case: steps in order."""

    steps: tuple[Step, ...]

    def text(self) -> str:
        """Return the text of the file."""
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
        while typed[-1].endswith("\\") and lines:
            typed.append(lines.pop(0))
        printed = _take(lines, lambda line: bool(line) and not line.startswith(("$ ", "# ", "#:")))
        steps.append(Step(tuple(before), tuple(typed), tuple(printed)))
        before = []
    return Transcript((*steps, Step(tuple(before), (), ())))


def replay(transcript: Transcript, run: Run, direct: Direct, values: Mapping[str, str]) -> Transcript:
    """Return the transcript as it runs now: other output is replaced, and matching lines stay."""
    return Transcript(tuple(_replay_step(step, run, direct, values) for step in transcript.steps))


def _replay_step(step: Step, run: Run, direct: Direct, values: Mapping[str, str]) -> Step:
    for direction in step.directions:
        direct(direction)
    if not step.typed:
        return step
    printed = run([Template(word).safe_substitute(values) for word in shlex.split(step.command)])
    for name, value in values.items():
        printed = printed.replace(value, f"${name}")
    # A blank line would end what is printed, and spaces at the end of a line are invisible.
    lines = tuple(line.rstrip() for line in printed.splitlines() if line.strip() and not _LOGGED.match(line))
    return step if _matches(step.printed, lines) else replace(step, printed=_keep_ellipses(step.printed, lines))


def _matches(expected: Iterable[str], printed: Iterable[str]) -> bool:
    pattern = "".join("(?:.*\n)*?" if line == "…" else f"{_pattern(line)}\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)) is not None


def _pattern(line: str) -> str:
    return re.escape(line).replace("…", ".*?")


def _keep_ellipses(expected: tuple[str, ...], printed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the current output, but with the `…` of lines that still match."""
    matches = {
        line: each for line in printed for each in expected if each != "…" and re.fullmatch(_pattern(each), line)
    }
    return tuple(matches.get(line, line) for line in printed)


def _take(lines: list[str], wanted: Callable[[str], bool]) -> list[str]:
    taken = []
    while lines and wanted(lines[0]):
        taken.append(lines.pop(0))
    return taken
