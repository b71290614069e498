"""The files of manifests: from the arguments of a command to the objects, with a finding for every invalid file.

Only this module of the package reads files.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from tallygate.documents import syntax_tree
from tallygate.documents.reader import read_documents
from tallygate.manifests.findings import STDIN_NAME, Finding, FindingSeverity, FindingSubject
from tallygate.manifests.manifest_objects import Manifest, ManifestError, NotAnObject, list_objects
from tallygate.policy.load import walk_files

UNREADABLE_CODES = frozenset({"TG401", "TG402", "TG406"})
"""Codes of files that could not be read: usage errors, not findings."""

STDIN = "-"
_CODES = {
    syntax_tree.ErrorKind.SYNTAX: "TG401",
    syntax_tree.ErrorKind.TOO_LARGE: "TG402",
    syntax_tree.ErrorKind.CONTENT: "TG403",
}
_NO_OBJECT = FindingSubject()
_KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml"})
_PATCH_LISTS = ("patches", "patchesStrategicMerge", "patchesJson6902")
_PATCH_PATH = "path"

FileTracker = Callable[[Iterable[str]], Iterable[str]]
"""Passes file names through, and may report its progress."""


@dataclass(slots=True)
class LoadedManifests:
    """The objects in the order written, the findings about files, and the number of documents that are not objects.

    `file_names` are the names of the files in findings. `empty_arguments` are the arguments without anything to check:
    stdin or a folder without an object, and a file without a document. `excluded_count` is the number of files that are
    left out.
    """

    manifests: list[Manifest] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    file_names: list[str] = field(default_factory=list)
    non_object_count: int = 0
    empty_arguments: list[str] = field(default_factory=list)
    excluded_count: int = 0

    @property
    def file_count(self) -> int:
        return len(self.file_names)


def load_manifests(
    arguments: tuple[str, ...],
    stdin: BinaryIO,
    limits: syntax_tree.Limits,
    track: FileTracker,
    excluded: Collection[str] = (),
) -> LoadedManifests:
    """Read every file that the arguments name; an invalid file does not hide the others.

    In folders, files are left out that match one of the patterns `excluded`, as are patches of a kustomization.
    """
    loaded = LoadedManifests()
    listed = [(argument, name) for argument in arguments for name in _list_files(argument)]
    files = [path_and_root for path_and_root in listed if not _is_excluded(*path_and_root, excluded)]
    loaded.excluded_count = len(listed) - len(files)
    patches = _find_patch_files((name for argument, name in files if argument != name), limits)
    filled_arguments: set[str] = set()
    for (argument, _), name in zip(files, track([name for _, name in files]), strict=True):
        if argument != name and os.path.realpath(name) in patches:
            loaded.file_names.append(format_argument(name))
            loaded.non_object_count += 1
        elif _read_file(name, stdin, limits, loaded, needs_object=argument != name or name == STDIN):
            filled_arguments.add(argument)
    loaded.empty_arguments = [fromkey for fromkey in dict.fromkeys(arguments) if fromkey not in filled_arguments]
    return loaded


def _is_excluded(argument: str, name: str, patterns: Collection[str]) -> bool:
    """Return whether a file of a folder, or a folder that it is in, matches a pattern by its path or its name."""
    if argument == name:
        return False
    parts = Path(name).relative_to(argument).parts
    paths = ["/".join(parts[: index + 1]) for index in range(len(parts))]
    return any(fnmatchcase(path, pattern.rstrip("/")) for pattern in patterns for path in (*paths, *parts))


def _read_file(
    name: str, stdin: BinaryIO, limits: syntax_tree.Limits, loaded: LoadedManifests, *, needs_object: bool
) -> bool:
    """Read one file, and return whether it has an error, an object, or, unless it `needs_object`, a document."""
    shown_name = format_argument(name)
    loaded.file_names.append(shown_name)
    has_content = False
    try:
        for document in read_documents(read_text(name, stdin, limits), limits):
            for item in list_objects(shown_name, document):
                if isinstance(item, NotAnObject):
                    loaded.non_object_count += 1
                    has_content |= not needs_object
                else:
                    loaded.manifests.append(item)
                    has_content = True
    except syntax_tree.DocumentError as error:
        loaded.findings.append(create_document_finding(shown_name, error))
        has_content = True
    return has_content


def _find_patch_files(files: Iterable[str], limits: syntax_tree.Limits) -> frozenset[str]:
    """Return the real paths of the files that the kustomizations among the files name as patches.

    A kustomization that cannot be read names none: its own error is reported when it is read as a manifest. Source:
    sigs.k8s.io/kustomize/api v0.21.1, types/kustomization.go.
    """
    found: set[str] = set()
    for name in files:
        if Path(name).name in _KUSTOMIZATIONS:
            folder = Path(name).parent
            found.update(os.path.realpath(folder / path) for path in _read_patch_paths(name, limits))
    return frozenset(found)


def _read_patch_paths(name: str, limits: syntax_tree.Limits) -> Iterator[str]:
    try:
        with Path(name).open("rb") as file:
            text = file.read(limits.size).decode("utf-8", "replace")
        documents = list(read_documents(text, limits))
    except (OSError, syntax_tree.DocumentError):
        return
    for document in documents:
        if isinstance(document.root, syntax_tree.Mapping):
            for list_name in _PATCH_LISTS:
                yield from _list_paths(document.root.get(list_name))


def _list_paths(node: syntax_tree.Node | None) -> Iterator[str]:
    """Yield the paths in a list of patches; a patch may also be written in its place, as a text of several lines."""
    for item in node.items if isinstance(node, syntax_tree.Sequence) else ():
        path = item.get(_PATCH_PATH) if isinstance(item, syntax_tree.Mapping) else item
        if (
            isinstance(path, syntax_tree.Scalar)
            and isinstance(path.value, str)
            and path.value
            and "\n" not in path.value
        ):
            yield path.value


def format_argument(argument: str) -> str:
    """Return the name of stdin, of a file or of a folder in findings."""
    return STDIN_NAME if argument == STDIN else format_file_name(argument)


def get_code(error: syntax_tree.DocumentError) -> str:
    """Return the code of the finding of an error."""
    return error.code if isinstance(error, ManifestError) else _CODES[error.kind]


def create_document_finding(
    file: str,
    error: syntax_tree.DocumentError,
    subject: FindingSubject = _NO_OBJECT,
    severity: FindingSeverity = FindingSeverity.ERROR,
) -> Finding:
    """Create the finding of an error in a file, or in an object of the file."""
    return Finding(file, *error.position, severity, get_code(error), error.message, subject=subject)


def format_file_name(name: str) -> str:
    """Return the name of a file as valid text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "replace")


def find_files(arguments: tuple[str, ...]) -> list[str]:
    """Return the files that arguments name, and the sorted `.yaml`, `.yml` and `.json` files of folders.

    `policy.load.walk_files` reads folders, those of policies too.
    """
    return [name for argument in arguments for name in _list_files(argument)]


def _list_files(argument: str) -> Iterator[str]:
    if argument == STDIN or not Path(argument).is_dir():
        yield argument
        return
    try:
        yield from walk_files(argument)
    except OSError as error:
        yield str(error.filename or argument)  # the finding is that it cannot be read


def read_text(name: str, stdin: BinaryIO, limits: syntax_tree.Limits) -> str:
    """Return the text of a file.

    Raises:
        DocumentError: if the file cannot be read, is too large, or is not UTF-8 text.
    """
    try:
        data = _read_bytes(name, stdin, limits.size + 1)
    except OSError as error:
        way = f"; this is an address: pipe `curl -fsSL {name}` into -" if "://" in name else ""
        raise ManifestError("TG406", syntax_tree.START, f"cannot be read: {error.strerror or error}{way}") from error
    if len(data) > limits.size:
        raise syntax_tree.DocumentError(
            syntax_tree.ErrorKind.TOO_LARGE, syntax_tree.START, f"larger than {limits.size / 1024**2:g} MiB"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        start = data.rfind(b"\n", 0, error.start) + 1
        column = len(data[start : error.start].decode("utf-8", "replace")) + 1
        position = syntax_tree.Position(data.count(b"\n", 0, error.start) + 1, column)
        message = f"this is not UTF-8 text: byte 0x{data[error.start]:02x}"
        raise syntax_tree.DocumentError(syntax_tree.ErrorKind.SYNTAX, position, message) from error


def _read_bytes(name: str, stdin: BinaryIO, max_size: int) -> bytes:
    if name == STDIN:
        return stdin.read(max_size)
    with Path(name).open("rb") as file:
        return file.read(max_size)
