"""The loader: reads policy files from disk once. `store` reloads them while they change."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tallygate.documents.syntax_tree import Node
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.lint_policies import lint_policies
from tallygate.policy.model import SourceLocation
from tallygate.policy.parse import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, ParseResult, parse
from tallygate.policy.policy_codes import UNREADABLE

SUFFIXES = (".yaml", ".yml", ".json")
"""The suffixes of the files that are read in a folder."""

MAX_FOLDERS = 1_000
"""Folders below one path of policies."""

SHIPPED_POLICIES = Path(__file__).parent / "shipped"
"""The default set, active unless the configuration names another. It is part of the wheel."""


def load_policies(
    paths: Sequence[Path],
    extra_documents: Sequence[tuple[str, Node]] = (),
    *,
    extra_files: Sequence[tuple[str, bytes]] = (),
    are_extra_named: bool = True,
) -> ParseResult:
    """Read and lint all policy files at these paths: files, and folders of files at any depth.

    `extra_documents` and `extra_files` are further policies that the caller has read already, each with the name of its
    file. The user has named these files too, unless `are_extra_named` is false, as for the files of a ConfigMap.

    Each file is read once even if several links lead to it. An unreadable file is a finding. A file that is named is
    read as policies; of those found in a folder, documents of other tools are skipped.
    """
    findings: list[LintFinding] = []
    contents = [*extra_files, *_read_contents(paths, findings)]
    named = {os.path.realpath(path) for path in paths if not path.is_dir()}
    collected = {name for name, _ in contents[len(extra_files) :] if os.path.realpath(name) not in named}
    if not are_extra_named:
        collected |= {name for name, _ in extra_files}
    parsed = parse(contents, extra_documents, collected)
    policies = parsed.policies
    if contents and parsed.is_usable and not policies.count_documents():
        # An editor empties a file before it writes it; a gate that used the empty file would accept every request.
        findings.extend(
            _create_unreadable_finding(Path(name), "it has no policy, and neither has any other file")
            for name, _ in contents
        )
    all_findings = {*findings, *parsed.findings, *lint_policies(parsed.policies)}
    return replace(parsed, findings=tuple(sorted(all_findings)))


def read_policy_files(paths: Sequence[Path]) -> dict[str, bytes]:
    """Return the contents of the readable policy files at these paths, by path, within the bounds of a set."""
    return dict(_read_contents(paths, []))


def find_policy_files(paths: Sequence[Path], findings: list[LintFinding]) -> list[Path]:
    """Return the files at these paths, at most one more than the bound; append the problems of paths to `findings`."""
    files_by_path: dict[str, Path] = {}
    for path in paths:
        try:
            for file in islice(_list_files(path), MAX_FILES + 1):
                files_by_path.setdefault(os.path.realpath(file), file)
        except OSError as error:
            findings.append(
                _create_unreadable_finding(
                    Path(error.filename or path),
                    f"cannot be read: {error.strerror}; check that it is there and readable",
                )
            )
    if not files_by_path and not findings:
        message = f"no policy file here; put one named *{', *'.join(SUFFIXES)} in it"
        findings.extend(_create_unreadable_finding(path, message) for path in paths)
    return list(files_by_path.values())[: MAX_FILES + 1]


def _read_contents(paths: Sequence[Path], findings: list[LintFinding]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each readable file, at most one more than the bytes that a set may have."""
    total = 0
    for path in find_policy_files(paths, findings):
        content = _read_content(path, findings)
        if content is not None and total <= MAX_TOTAL_BYTES:
            yield str(path), content
            total += len(content)


def _list_files(path: Path) -> Iterator[Path]:
    if stat.S_ISDIR(path.stat().st_mode):
        yield from map(Path, walk_files(str(path), MAX_FOLDERS))
    else:
        yield path


def walk_files(folder: str, max_folders: int | None = None) -> Iterator[str]:
    """Yield the files `*.yaml`, `*.yml` and `*.json` of a folder at any depth, in the order of their names.

    Files and folders whose name begins with a dot are left out. Each folder is read once, even if links lead to it.

    Raises:
        OSError: if a folder cannot be read, or there are more than `max_folders`; `filename` names the folder.
    """
    visited: set[tuple[int, int]] = set()
    for current, folders, names in os.walk(folder, onerror=_raise_error, followlinks=True):
        folder_status = Path(current).stat()
        identity = folder_status.st_dev, folder_status.st_ino
        if identity in visited:
            folders.clear()
            continue
        visited.add(identity)
        if max_folders is not None and len(visited) > max_folders:
            raise OSError(errno.EFBIG, f"more than {max_folders:,} folders, which is all that is read", folder)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield str(Path(current, name))


def _raise_error(error: OSError) -> None:
    raise error


def _read_content(path: Path, findings: list[LintFinding]) -> bytes | None:
    """Return the bytes of a file, at most one more than the bound, or None if the file is unreadable."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            findings.append(
                _create_unreadable_finding(path, "not a regular file; policies are files and folders of files")
            )
            return None
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        findings.append(
            _create_unreadable_finding(path, f"cannot be read: {error.strerror}; check that it is there and readable")
        )
        return None


def _create_unreadable_finding(path: Path, message: str) -> LintFinding:
    return LintFinding.create(SourceLocation(str(path), 1, 1), UNREADABLE, Severity.ERROR, message)
