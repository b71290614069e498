"""The objects of a migration: from an API server with the policies that its gate mounts, a snapshot, or files."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tallygate.admission.kinds import BUILT_IN_TARGETS, REVIEW_TARGETS
from tallygate.audit.audit import AuditScope, list_objects
from tallygate.audit.listing import POD, PageReader, create_list_path, format_api_version
from tallygate.cli.doctor.facts import Unavailable
from tallygate.cli.doctor.mounted_policies import MountedFile, find_mounted_files
from tallygate.cli.framework import UsageError
from tallygate.cli.manifests.manifest_files import find_files, format_argument, read_text
from tallygate.cli.migrate.old_name_uses import POLICY_GROUP, get_group_kind
from tallygate.cli.migrate.text_edits import LIMITS, TextObject, list_text_objects
from tallygate.cli.sources.snapshot_file import read_items
from tallygate.documents.syntax_tree import DocumentError
from tallygate.kube.client import ApiClient, ClientConfig
from tallygate.kube.pagination import PAGE_SIZE

_WITH_NAMES = (
    *(("", kind) for kind in ("Pod", "Node", "ResourceQuota", "LimitRange", "ReplicationController", "PodTemplate")),
    *(("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
    *(("batch", kind) for kind in ("CronJob", "Job")),
)
_GROUP_BY_KIND = {kind: group for group, kind in BUILT_IN_TARGETS}


@dataclass(frozen=True, slots=True)
class MigratedFile:
    """A file with manifests or policies: its name, its text and its objects; `mounted` if it is of a ConfigMap."""

    name: str
    text: str
    objects: tuple[TextObject, ...]
    mounted: MountedFile | None = None


@dataclass(slots=True)
class MigrationSources:
    """The stored objects, the files, and a remark on each thing that was not read."""

    stored: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    files: list[MigratedFile] = field(default_factory=list[MigratedFile])
    unread: list[str] = field(default_factory=list[str])


def read_cluster_objects(connection: ClientConfig, sources: MigrationSources) -> None:
    """Add the stored objects of all kinds that are read to the sources, owners first.

    Raises:
        AuditError: if a kind of Kubernetes cannot be listed.
    """
    client = ApiClient(connection)
    pages = PageReader(client, PAGE_SIZE, time.sleep)
    try:
        scope = AuditScope(frozenset(), None, REVIEW_TARGETS)
        for group, kind, item in list_objects(pages, scope, sources.unread.append):
            sources.stored.append(_complete_type(group, kind, item))
        for items in pages.list_pages(create_list_path(POD)):
            sources.stored += [_complete_type(*POD, item) for item in items]
    finally:
        client.close()


def read_mounted_policies(connection: ClientConfig, sources: MigrationSources) -> None:
    """Add the policies in the ConfigMaps that the gate mounts to the sources, unless a file has policies.

    Such files are then where the policies come from.
    """
    if any(get_group_kind(item.content)[0] == POLICY_GROUP for file in sources.files for item in file.objects):
        return
    files = find_mounted_files(connection)
    if isinstance(files, Unavailable):
        sources.unread.append(f"the gate's policies: {files.reason}; name their files with -f")
        return
    for each in files:
        try:
            sources.files.append(MigratedFile(each.name, each.text, tuple(list_text_objects(each.text)), each))
        except DocumentError as error:
            line, column = error.position.line, error.position.column
            sources.unread.append(f"{each.name}:{line}:{column}: {error.message}")


def read_snapshot_objects(snapshot: Path, sources: MigrationSources) -> None:
    """Add the objects of a snapshot to the sources, and a remark on the kinds that it does not have.

    Raises:
        SnapshotError: if the snapshot cannot be read.
    """
    kinds: set[tuple[str, str]] = set()

    def take(kind: str, item: msgspec.Raw) -> bool:
        content = _complete_type(_GROUP_BY_KIND.get(kind, ""), kind, item)
        kinds.add((str(content["apiVersion"]).rpartition("/")[0], kind))
        sources.stored.append(content)
        return True

    read_items(snapshot, take, str)
    missing = [kind for key in _WITH_NAMES if key not in kinds for kind in key[1:]]
    if missing:
        sources.unread.append(f"the snapshot has no {', '.join(missing)}: if the cluster has any, they were not read")


def read_files(arguments: tuple[str, ...], stdin: BinaryIO, sources: MigrationSources) -> None:
    """Add the files that arguments name to the sources.

    Raises:
        UsageError: if a file cannot be read.
    """
    for name in find_files(arguments):
        shown = format_argument(name)
        try:
            text = read_text(name, stdin, LIMITS)
            sources.files.append(MigratedFile(shown, text, tuple(list_text_objects(text))))
        except DocumentError as error:
            raise UsageError(f"{shown}:{error.position.line}:{error.position.column}: {error.message}") from error


def find_owner(content: Mapping[str, Any]) -> str:
    """Return the kind and name of the controller of an object, empty without one."""
    references = (content.get("metadata") or {}).get("ownerReferences") or ()
    return next(
        (f"{reference['kind']} {reference['name']}" for reference in references if reference.get("controller")), ""
    )


def needs_no_resources(content: Mapping[str, Any]) -> bool:
    """Return whether an object has ended, or is the history of its owner, so that it keeps its names."""
    status, spec = content.get("status") or {}, content.get("spec") or {}
    match content.get("kind"):
        case "Pod":
            return status.get("phase") in {"Succeeded", "Failed"}
        case "Job":
            conditions = status.get("conditions") or ()
            return any(
                condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"
                for condition in conditions
            )
        case "ReplicaSet":
            return bool(find_owner(content)) and spec.get("replicas") == 0
        case _:
            return False


def _complete_type(group: str, kind: str, item: msgspec.Raw) -> dict[str, Any]:
    """Return an object with its type, which the items of a list leave out."""
    content: dict[str, Any] = msgspec.json.decode(item)
    return {"apiVersion": format_api_version(group), "kind": kind, **content}
