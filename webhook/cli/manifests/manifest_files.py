"""Intake: from the arguments of a command to the objects in the files they name."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from webhook.cli.manifest import files
from webhook.cli.manifest.bounds import Bounds
from webhook.cli.manifest.documents import documents
from webhook.cli.manifest.fault import Fault
from webhook.cli.manifest.objects import Manifest, NotAnObject, objects
from webhook.cli.output.findings import Finding, FindingSeverity, FindingSubject

UNREADABLE_CODES = frozenset({"TG401", "TG402", "TG406"})
"""Codes of files that could not be looked at: misuse, not findings."""

_NO_OBJECT = FindingSubject()

FileTracker = Callable[[Iterable[str]], Iterable[str]]
"""Passes the names of files on, and may say on the way how far it has come."""


@dataclass(slots=True)
class LoadedManifests:
    """What was read: objects in the order written, what was wrong with files, how many documents were no objects.

    `names` are the files as findings call them.
    """

    manifests: list[Manifest] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    file_names: list[str] = field(default_factory=list)
    non_object_count: int = 0

    @property
    def file_count(self) -> int:
        """How many files were looked at."""
        return len(self.file_names)


def load_manifests(arguments: tuple[str, ...], stdin: BinaryIO, limits: Bounds, track: FileTracker) -> LoadedManifests:
    """Read every file that the arguments name; one that is broken does not hide the others."""
    loaded = LoadedManifests()
    for name in track(files.find(arguments)):
        text = files.read(name, stdin, limits)
        loaded.file_names.append(text.name)
        try:
            _load_file(loaded, text, limits)
        except Fault as error:
            loaded.findings.append(create_document_finding(text.name, error))
    return loaded


def _load_file(loaded: LoadedManifests, file: files.TextFile, limits: Bounds) -> None:
    if file.fault is not None:
        raise file.fault
    for item in _parse_objects(file, limits):
        if isinstance(item, NotAnObject):
            loaded.non_object_count += 1
        else:
            loaded.manifests.append(item)


def _parse_objects(file: files.TextFile, limits: Bounds) -> Iterator[Manifest | NotAnObject]:
    for document in documents(file.text, limits):
        yield from objects(file.name, document)


def create_document_finding(
    file: str, error: Fault, subject: FindingSubject = _NO_OBJECT, severity: FindingSeverity = FindingSeverity.ERROR
) -> Finding:
    """A fault as a finding about its file, or about an object in it."""
    return Finding(file, error.place.line, error.place.column, severity, error.code, error.message, subject=subject)
