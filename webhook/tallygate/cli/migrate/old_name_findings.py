"""The findings of a migration: each use of an opaque name with its step, and a summary of what is left."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tallygate.cli.migrate.migration_sources import MigrationSources, find_owner, needs_no_resources
from tallygate.cli.migrate.old_name_uses import MigrationStep, OldNameUse, UseForm, get_group_kind, list_uses
from tallygate.cli.migrate.renames import Renames
from tallygate.cli.migrate.step_edits import find_next_step, find_parent
from tallygate.cli.migrate.text_edits import find_position

_BY_HAND = "edit it by hand"
_QUOTA_NOTE = "Kubernetes did not count the old name here, and counts the new one"
_UNCHANGEABLE = frozenset({("", "Pod"), ("batch", "Job")})


@dataclass(frozen=True, slots=True)
class OldNameFinding:
    """A use of an opaque name; `step` is the next one that edits it, None if it is edited by hand."""

    subject: str
    location: str
    field_path: str
    old_names: tuple[str, ...]
    new: str
    step: MigrationStep | None
    note: str


def describe_object(content: Mapping[str, Any]) -> str:
    """Return the kind, namespace and name of an object."""
    metadata = content.get("metadata") or {}
    name, namespace = metadata.get("name") or metadata.get("generateName") or "", metadata.get("namespace")
    return f"{content.get('kind') or 'document'} {f'{namespace}/' if namespace else ''}{name}".rstrip()


def must_be_recreated(content: Mapping[str, Any]) -> bool:
    """Return whether the API server refuses to change the requests of an object."""
    return get_group_kind(content) in _UNCHANGEABLE


def list_findings(sources: MigrationSources, renames: Renames) -> list[OldNameFinding]:
    """Return the uses in all objects, those of one object in its order, except in those that have ended."""
    findings: list[OldNameFinding] = []
    for content in sources.stored:
        if not needs_no_resources(content):
            owner = find_owner(content)
            findings += (_create_finding(content, use, renames, "", owner) for use in list_uses(content))
    for file in sources.files:
        for item in file.objects:
            for use in list_uses(item.content):
                line, column = find_position(item.root, use)
                findings.append(_create_finding(item.content, use, renames, f"{file.name}:{line}:{column}", ""))
    return findings


def count_ended(sources: MigrationSources) -> int:
    """Return the number of objects that use an opaque name and have ended, or are the history of their owner."""
    return sum(needs_no_resources(each) and bool(list_uses(each)) for each in sources.stored)


def _create_finding(
    content: Mapping[str, Any], use: OldNameUse, renames: Renames, location: str, owner: str
) -> OldNameFinding:
    step = find_next_step(use, content, renames.replace)
    new = "" if use.form is UseForm.TEXT else renames.replace(use.old)
    notes = [*_list_notes(content, use, new)]
    if owner:
        notes = [f"follows {owner}"]
    elif use.form is UseForm.TEXT:
        notes = [_BY_HAND]
    elif not location and must_be_recreated(content):
        notes.append("cannot be changed: let it end, or recreate it")
    return OldNameFinding(
        describe_object(content),
        location,
        use.field_path,
        use.old_names,
        new,
        step,
        "; ".join(notes),
    )


def _list_notes(content: Mapping[str, Any], use: OldNameUse, new: str) -> Iterator[str]:
    if use.form is UseForm.KEY and new:
        stored = find_parent(content, use).get(new, use.value)
        if stored != use.value:
            yield f"the amounts differ: {use.value} by the old name, {stored} by the new one"
    if get_group_kind(content) == ("", "ResourceQuota") and use.form is UseForm.KEY:
        yield _QUOTA_NOTE
