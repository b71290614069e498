"""ConfigMaps with policies: their label, the files that a gate reads of one, and the findings about a new one.

A gate has a ConfigMap as a folder with one file for each key. Its other policies are in other folders, or in other
ConfigMaps. A new ConfigMap is linted together with them, as the gate would read all of them, if it is known which of
the files the stored one has; otherwise alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from tallygate.objects.meta import ObjectMeta
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.lint_overrides import lint_ended_overrides
from tallygate.policy.load import SUFFIXES, load_policies
from tallygate.policy.model import SourceLocation
from tallygate.policy.parse import ParseResult
from tallygate.policy.policy_codes import UNREADABLE

POLICIES_LABEL: Final = "tallygate.dev/policies"
"""The label of the ConfigMaps with the policies of a gate; its value is `LABEL_VALUE`."""

LABEL_VALUE: Final = "true"

PolicyFiles = Mapping[str, bytes]
"""The contents of policy files by their paths, with `/` between the names."""

_DATA: Final = "data"


class PolicyConfigMap(msgspec.Struct, rename="camel", frozen=True):
    """A ConfigMap (k8s.io/api/core/v1); `binary_data` has what is no UTF-8 text."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None

    @property
    def name(self) -> str:
        return self.metadata.name or ""

    @property
    def is_labelled(self) -> bool:
        """Whether it has the label of policies."""
        return (self.metadata.labels or {}).get(POLICIES_LABEL) == LABEL_VALUE

    def list_contents(self) -> dict[str, bytes]:
        """Return what a volume has of it: the content of each key, sorted by key."""
        texts = {key: text.encode(errors="replace") for key, text in (self.data or {}).items()}
        return dict(sorted({**texts, **(self.binary_data or {})}.items()))

    def list_files(self) -> dict[str, bytes]:
        """Return the contents of the keys that a gate reads, as of any folder of policies (`load.walk_files`)."""
        return {key: content for key, content in self.list_contents().items() if _is_read(key)}


def _is_read(key: str) -> bool:
    return key.endswith(SUFFIXES) and not key.startswith(".")


@dataclass(frozen=True, slots=True)
class ConfigMapReport:
    """The findings about a new ConfigMap: `errors` are those for which no gate would load it.

    The file of a finding is the key, or the path of another file. `has_others` is set if the other files of the gate
    are part of the set that was linted.
    """

    errors: tuple[LintFinding, ...] = ()
    warnings: tuple[LintFinding, ...] = ()
    has_others: bool = False


NOTHING_FOUND: Final = ConfigMapReport()


def lint_config_map(
    config_map: PolicyConfigMap, stored: PolicyConfigMap | None, loaded: PolicyFiles, now: datetime
) -> ConfigMapReport:
    """Return the findings about a ConfigMap that replaces the stored one, beside the files that a gate has now.

    Errors of other files that are there with the stored ConfigMap too are left out: they are no reason to refuse what
    may be their mend. The files of the stored ConfigMap are known by their contents. They are unknown for a new
    ConfigMap, and for some time after each change; then an error counts if it is there alone and beside all others.
    """
    files = config_map.list_files()
    if stored is not None and files == stored.list_files():
        return NOTHING_FOUND  # a gate has these files already
    others = _find_others(stored, loaded)
    parsed = _parse((others or {}) | files)
    errors = _select(parsed.findings, Severity.ERROR)
    if others is None and errors:
        names = {*files, *(stored.list_files() if stored is not None else ())}
        remaining = {path: content for path, content in loaded.items() if _get_name(path) not in names}
        beside = set(_parse(remaining | files).findings)
        errors = tuple(error for error in errors if error in beside)
    elif stored is not None and others and any(error.file in others for error in errors):
        before = set(_parse(others | stored.list_files()).findings)
        errors = tuple(error for error in errors if error.file in files or error not in before)
    if not files and others == {}:
        errors = (_create_finding("no key ends in .yaml, .yml or .json, so the gate would have no policy"),)
    ended = lint_ended_overrides(parsed.policies, now)
    own = sorted({*_select(parsed.findings, Severity.WARNING), *ended, *_warn_of_unread(config_map)})
    warnings = tuple(warning for warning in own if warning.file not in (others or {}))
    return ConfigMapReport(errors, warnings, others is not None)


def _find_others(stored: PolicyConfigMap | None, loaded: PolicyFiles) -> dict[str, bytes] | None:
    """Return the files that the stored ConfigMap does not have; None if it is unknown which ones these are.

    They are known if a folder has each file of it with exactly its content.
    """
    files = stored.list_files() if stored is not None else {}
    if not files:
        return None
    for folder in {path.removesuffix(f"/{_get_name(path)}") for path in loaded}:
        paths = {f"{folder}/{name}": content for name, content in files.items()}
        if paths.items() <= loaded.items():
            return {path: content for path, content in loaded.items() if path not in paths}
    return None


def _get_name(path: str) -> str:
    return path.rpartition("/")[2]


def _parse(files: PolicyFiles) -> ParseResult:
    return load_policies((), extra_files=tuple(files.items()), are_extra_named=False)


def _select(findings: Iterable[LintFinding], severity: Severity) -> tuple[LintFinding, ...]:
    return tuple(finding for finding in findings if finding.severity is severity)


def _warn_of_unread(config_map: PolicyConfigMap) -> list[LintFinding]:
    """Return a warning for each key that no gate reads."""
    unread = [key for key in config_map.list_contents() if not _is_read(key)]
    text = "no gate reads this key: let its name end in .yaml, .yml or .json, and not begin with a dot"
    return [LintFinding(key, 1, 1, UNREADABLE, Severity.WARNING, text) for key in unread]


def _create_finding(text: str) -> LintFinding:
    return LintFinding.create(SourceLocation(_DATA, 1, 1), UNREADABLE, Severity.ERROR, text)
