"""Loading: policy files from disk, once. What is in force while they change is `store`."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from webhook.policy.bounds import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES
from webhook.policy.codes import UNREADABLE
from webhook.policy.finding import Finding, Severity
from webhook.policy.lint import lint
from webhook.policy.model import Source
from webhook.policy.nodes import Node
from webhook.policy.parse import Parsed, parse

SUFFIXES = (".yaml", ".yml", ".json")
"""What a file in a policy folder is called; others are passed over, as are hidden ones and folders within."""

SHIPPED = Path(__file__).parent / "shipped"
"""The default set, which is in force where nobody names another. It is in the wheel."""


def read(paths: Sequence[Path], written: Sequence[tuple[str, Node]] = ()) -> Parsed:
    """Read and lint all policy files at these paths: files, and folders of files (not of folders).

    `written` are further policies that are read already, each with the name of its file.

    A folder's files are read by name, each once however many names it has, as `*.yaml`, `*.yml` or `*.json`; what
    cannot be read is a finding.
    """
    contents: list[tuple[str, bytes]] = []
    findings: list[Finding] = []
    total = 0
    for path in found(paths, findings):
        content = _content(path, findings)
        if content is not None and total <= MAX_TOTAL_BYTES:
            contents.append((str(path), content))
            total += len(content)
    parsed = parse(contents, written)
    if contents and parsed.usable and not (parsed.policies.rules or parsed.policies.caps):
        # An editor empties a file before it writes it; taken at its word, that would let everything through.
        findings.extend(_unreadable(Path(name), "says no policy, nor does any file beside it") for name, _ in contents)
    every = {*findings, *parsed.findings, *lint(parsed.policies)}
    return Parsed(parsed.policies, tuple(sorted(every)))


def found(paths: Sequence[Path], findings: list[Finding]) -> list[Path]:
    """The files at these paths, at most one more than may be read; what is wrong with a path is put to the findings."""
    seen: dict[str, Path] = {}
    for path in paths:
        try:
            for file in _files_of(path):
                seen.setdefault(os.path.realpath(file), file)
        except OSError as error:
            findings.append(_unreadable(path, f"cannot be read: {error.strerror}; check that it is there and readable"))
    if not seen and not findings:
        wanted = f"no policy file here; put one named *{', *'.join(SUFFIXES)} in it"
        findings.extend(_unreadable(path, wanted) for path in paths)
    return list(seen.values())[: MAX_FILES + 1]


def _files_of(path: Path) -> list[Path]:
    if not stat.S_ISDIR(path.stat().st_mode):
        return [path]
    with os.scandir(path) as entries:
        names = sorted(each.name for each in entries if each.name.endswith(SUFFIXES) and not each.name.startswith("."))
    return [path / name for name in names if not (path / name).is_dir()]


def _content(path: Path, findings: list[Finding]) -> bytes | None:
    """The bytes of a file, as far as tells that it is too large."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            findings.append(_unreadable(path, "not a regular file; policies are files and folders of files"))
            return None
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        findings.append(_unreadable(path, f"cannot be read: {error.strerror}; check that it is there and readable"))
        return None


def _unreadable(path: Path, message: str) -> Finding:
    return Finding.at(Source(str(path), 1, 1), UNREADABLE, Severity.ERROR, message)
