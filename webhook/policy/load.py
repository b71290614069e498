"""The loader: reads policy files from disk once. `store` reloads them while they change."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tallygate.webhook.documents.syntax_tree import Node
from tallygate.webhook.policy.lint_findings import LintFinding, Severity
from tallygate.webhook.policy.lint_policies import lint_policies
from tallygate.webhook.policy.model import SourceLocation
from tallygate.webhook.policy.parse import MAX_FILE_BYTES, MAX_FILES, MAX_TOTAL_BYTES, ParseResult, parse
from tallygate.webhook.policy.policy_codes import UNREADABLE

SUFFIXES = (".yaml", ".yml", ".json")
"""The suffixes of policy files in a folder; other files, hidden files and nested folders are ignored."""

SHIPPED_POLICIES = Path(__file__).parent / "shipped"
"""The default set, active unless the configuration names another. It is part of the wheel."""


def load_policies(
    paths: Sequence[Path],
    extra_documents: Sequence[tuple[str, Node]] = (),
    *,
    extra_files: Sequence[tuple[str, bytes]] = (),
) -> ParseResult:
    """Read and lint all policy files at these paths: files, and folders of files (not of folders).

    `extra_documents` and `extra_files` are further policies that the caller has read already, each with the name of its
    file.

    The files of a folder (`*.yaml`, `*.yml` or `*.json`) are read in the order of their names, each once even if
    several links lead to it. An unreadable file is a finding.
    """
    contents = list(extra_files)
    findings: list[LintFinding] = []
    total = 0
    for path in find_policy_files(paths, findings):
        content = _read_content(path, findings)
        if content is not None and total <= MAX_TOTAL_BYTES:
            contents.append((str(path), content))
            total += len(content)
    parsed = parse(contents, extra_documents)
    if contents and parsed.is_usable and not (parsed.policies.rules or parsed.policies.caps):
        # An editor empties a file before it writes it; a gate that used the empty file would accept every request.
        findings.extend(
            _create_unreadable_finding(Path(name), "says no policy, nor does any file beside it")
            for name, _ in contents
        )
    all_findings = {*findings, *parsed.findings, *lint_policies(parsed.policies)}
    return ParseResult(parsed.policies, tuple(sorted(all_findings)))


def find_policy_files(paths: Sequence[Path], findings: list[LintFinding]) -> list[Path]:
    """Return the files at these paths, at most one more than the bound; append the problems of paths to `findings`."""
    files_by_path: dict[str, Path] = {}
    for path in paths:
        try:
            for file in _list_files(path):
                files_by_path.setdefault(os.path.realpath(file), file)
        except OSError as error:
            findings.append(
                _create_unreadable_finding(
                    path, f"cannot be read: {error.strerror}; check that it is there and readable"
                )
            )
    if not files_by_path and not findings:
        message = f"no policy file here; put one named *{', *'.join(SUFFIXES)} in it"
        findings.extend(_create_unreadable_finding(path, message) for path in paths)
    return list(files_by_path.values())[: MAX_FILES + 1]


def _list_files(path: Path) -> list[Path]:
    if not stat.S_ISDIR(path.stat().st_mode):
        return [path]
    with os.scandir(path) as entries:
        names = sorted(
            entry.name for entry in entries if entry.name.endswith(SUFFIXES) and not entry.name.startswith(".")
        )
    return [path / name for name in names if not (path / name).is_dir()]


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
