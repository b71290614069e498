"""Intake: from the arguments of a command to the objects in the files they name."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from webhook.cli.manifest import files
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest, NotAnObject, objects
from webhook.cli.report.finding import Finding, Level, Subject

UNREADABLE = frozenset({"TG401", "TG402", "TG406"})
"""Codes of files that could not be looked at: misuse, not findings."""

_FILE = Subject()

Progress = Callable[[Iterable[str]], Iterable[str]]
"""Passes the names of files on, and may say on the way how far it has come."""


@dataclass(slots=True)
class Intake:
    """What was read: objects in the order written, what was wrong with files, how many documents were no objects.

    `names` are the files as findings call them.
    """

    manifests: list[Manifest] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    not_objects: int = 0

    @property
    def files(self) -> int:
        """How many files were looked at."""
        return len(self.names)


def take_in(arguments: tuple[str, ...], stdin: BinaryIO, bounds: Bounds, progress: Progress) -> Intake:
    """Read every file that the arguments name; one that is broken does not hide the others."""
    intake = Intake()
    for name in progress(files.find(arguments)):
        text = files.read(name, stdin, bounds)
        intake.names.append(text.name)
        try:
            _take(intake, text, bounds)
        except Fault as fault:
            intake.findings.append(fault_finding(text.name, fault))
    return intake


def _take(intake: Intake, file: files.TextFile, bounds: Bounds) -> None:
    if file.fault is not None:
        raise file.fault
    for found in _objects(file, bounds):
        if isinstance(found, NotAnObject):
            intake.not_objects += 1
        else:
            intake.manifests.append(found)


def _objects(file: files.TextFile, bounds: Bounds) -> Iterator[Manifest | NotAnObject]:
    for document in documents(file.text, bounds):
        yield from objects(file.name, document)


def fault_finding(file: str, fault: Fault, subject: Subject = _FILE, level: Level = Level.ERROR) -> Finding:
    """A fault as a finding about its file, or about an object in it."""
    return Finding(file, fault.place.line, fault.place.column, level, fault.code, fault.message, subject=subject)
