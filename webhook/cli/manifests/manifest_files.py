"""The loader of manifests: from the arguments of a command to the objects in the named files."""

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
"""Codes of files that could not be read: usage errors, not findings."""

_NO_OBJECT = FindingSubject()

FileTracker = Callable[[Iterable[str]], Iterable[str]]
"""Passes file names through, and may report its progress."""


@dataclass(slots=True)
class LoadedManifests:
    """The objects in the order written, the findings about files, and the number of documents that are not objects.

    `file_names` are the names of the files in findings.
    """

    manifests: list[Manifest] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    file_names: list[str] = field(default_factory=list)
    non_object_count: int = 0

    @property
    def file_count(self) -> int:
        """The number of files."""
        return len(self.file_names)


def load_manifests(arguments: tuple[str, ...], stdin: BinaryIO, limits: Bounds, track: FileTracker) -> LoadedManifests:
    """Read every file that the arguments name; an invalid file does not hide the others."""
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
    """Create the finding of a fault about a file, or about an object in it."""
    return Finding(file, error.place.line, error.place.column, severity, error.code, error.message, subject=subject)
