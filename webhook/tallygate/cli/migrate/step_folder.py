"""The folder that a migration writes: for each step patches with the commands that apply and revert them, and files.

A step that would harm pods begins with a guard that refuses it.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallygate.cli.framework import UsageError
from tallygate.cli.manifests.manifest_files import STDIN
from tallygate.cli.migrate.migration_sources import (
    MigratedFile,
    MigrationSources,
    find_owner,
    needs_no_resources,
)
from tallygate.cli.migrate.old_name_findings import must_be_recreated
from tallygate.cli.migrate.old_name_uses import MigrationStep, get_group_kind, list_uses
from tallygate.cli.migrate.pod_guards import TEMPLATE_NAME, create_guard
from tallygate.cli.migrate.renames import Renames
from tallygate.cli.migrate.step_edits import Operation, create_step_patch, format_pointer, list_edits
from tallygate.cli.migrate.text_edits import TextEditError, edit_text
from tallygate.cli.output.findings import STDIN_NAME

STEP_FOLDERS: Mapping[MigrationStep, str] = {
    MigrationStep.ACCEPT: "1-accept-both",
    MigrationStep.ADVERTISE: "2-advertise-both",
    MigrationStep.REQUEST_BOTH: "3-request-both",
    MigrationStep.REQUEST_NEW: "4-request-new",
    MigrationStep.WITHDRAW: "5-withdraw-old",
}
_SERVER_FIELDS = ("managedFields", "uid", "resourceVersion", "creationTimestamp", "generation", "selfLink")
_JOB_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_SHELL_HEADER = (
    '#!/bin/sh\n# {}; the arguments are options of kubectl, as in --context NAME.\nset -eu\ncd "$(dirname "$0")"\n'
)
_UNSAFE = re.compile(r"[^-A-Za-z0-9_.]")


@dataclass(slots=True)
class WrittenStep:
    """The numbers of what a step has: patches, manifests of objects to recreate, and files."""

    patches: int = 0
    recreated: int = 0
    files: int = 0


def write_steps(folder: Path, sources: MigrationSources, renames: Renames) -> dict[MigrationStep, WrittenStep]:
    """Write all steps that are left into a new folder, and return what each has.

    Raises:
        UsageError: if the folder is not empty or cannot be written, or a file has a layout that cannot be edited.
    """
    contents = {
        **_create_patches(sources, renames),
        **_create_texts(sources.files, renames),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder, since the patches of another run may be stale")
        for path, text in contents.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    written = {step: WrittenStep() for step in MigrationStep}
    for step, name in STEP_FOLDERS.items():
        for path in contents:
            parts = Path(path).parts
            if parts[0] == name:
                written[step].patches += parts[1] == "patches"
                written[step].recreated += parts[1] == "recreate"
                written[step].files += parts[1] == "files"
    return {step: each for step, each in written.items() if each != WrittenStep()}


class _Commands:
    """The shell commands of each script of each step, in their order."""

    def __init__(self) -> None:
        self.applied: dict[MigrationStep, list[str]] = {step: [] for step in MigrationStep}
        self.reverted: dict[MigrationStep, list[str]] = {step: [] for step in MigrationStep}
        self.recreated: dict[MigrationStep, list[str]] = {step: [] for step in MigrationStep}

    def create_scripts(self, new_by_old: Mapping[str, str]) -> dict[str, str]:
        """Return the text of each script that has commands, by its path in the folder, and what its guard reads."""
        texts: dict[str, str] = {}
        for step, name in STEP_FOLDERS.items():
            guard, template = create_guard(step, new_by_old)
            for script, purpose, lines in (
                ("apply.sh", "Apply this step", [guard, *self.applied[step]]),
                ("back.sh", "Revert this step", self.reverted[step][::-1]),
                ("recreate.sh", "End and create again what cannot be changed", [guard, *self.recreated[step]]),
            ):
                commands = [line.rstrip("\n") for line in lines if line]
                if commands and commands != [guard.rstrip("\n")]:
                    texts[f"{name}/{script}"] = _SHELL_HEADER.format(purpose) + "".join(
                        f"{command}\n" for command in commands
                    )
                    texts |= {f"{name}/{TEMPLATE_NAME}": template} if guard and script != "back.sh" else {}
        return texts


def _create_patches(sources: MigrationSources, renames: Renames) -> dict[str, str]:
    """Return the text of each file about stored objects and mounted policies, by its path in the folder.

    Raises:
        UsageError: if policies have a layout that cannot be edited by position.
    """
    texts: dict[str, str] = {}
    commands = _Commands()
    for number, file in enumerate(file for file in sources.files if file.mounted is not None):
        texts |= _create_config_map_patches(file, f"policies-{number}.json", renames, commands)
    for number, original in enumerate(sorted(sources.stored, key=lambda each: each["kind"] != "LimitRange")):
        if find_owner(original) or needs_no_resources(original):
            continue
        content = original
        for step in MigrationStep:
            edits = list_edits(content, step, renames.replace)
            if not edits:
                continue
            patch = create_step_patch(content, edits)
            content, name = patch.content, f"{_create_file_name(content)}-{number}.json"
            if must_be_recreated(content):
                texts[f"{STEP_FOLDERS[step]}/recreate/{name}"] = _format(_clean(content))
                commands.recreated[step].append(f'kubectl "$@" replace --force -f recreate/{name}')
                continue
            texts |= _create_patch_files(step, name, patch.forward, patch.back)
            commands.applied[step].append(_create_command(content, f"patches/{name}"))
            commands.reverted[step].append(_create_command(content, f"back/{name}"))
    return texts | commands.create_scripts(_list_new_names(sources, renames))


def _list_new_names(sources: MigrationSources, renames: Renames) -> dict[str, str]:
    """Return the new name of each old one that an object uses."""
    contents = (*sources.stored, *(item.content for file in sources.files for item in file.objects))
    old_names = {name for content in contents for use in list_uses(content) for name in use.old_names}
    return {old: new for old in sorted(old_names) if (new := renames.find_new_name(old))}


def _create_patch_files(
    step: MigrationStep, name: str, forward: Sequence[Operation], back: Sequence[Operation]
) -> dict[str, str]:
    return {
        f"{STEP_FOLDERS[step]}/patches/{name}": _format(forward),
        f"{STEP_FOLDERS[step]}/back/{name}": _format(back),
    }


def _create_config_map_patches(file: MigratedFile, name: str, renames: Renames, commands: _Commands) -> dict[str, str]:
    """Return the patches of the policies in a key of a ConfigMap; an immutable one has none.

    Raises:
        UsageError: if the policies have a layout that cannot be edited by position.
    """
    texts: dict[str, str] = {}
    mounted, before = file.mounted, file.text
    if mounted is None or mounted.is_immutable:
        return texts
    metadata = {"namespace": mounted.namespace, "name": mounted.config_map}
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    path = format_pointer("data", mounted.key)
    for step, after in _edit_file(file, renames):
        texts |= _create_patch_files(step, name, _replace(path, before, after), _replace(path, after, before))
        commands.applied[step].append(_create_command(content, f"patches/{name}"))
        commands.reverted[step].append(_create_command(content, f"back/{name}"))
        before = after
    return texts


def _replace(path: str, before: str, after: str) -> list[Operation]:
    return [{"op": "test", "path": path, "value": before}, {"op": "replace", "path": path, "value": after}]


def _create_texts(files: list[MigratedFile], renames: Renames) -> dict[str, str]:
    """Return the text of each file after each step that changes it, by its path in the folder.

    Raises:
        UsageError: if a file has a layout that cannot be edited by position.
    """
    return {
        f"{STEP_FOLDERS[step]}/files/{_create_relative_name(file.name)}": text
        for file in files
        if file.mounted is None or file.mounted.is_immutable
        for step, text in _edit_file(file, renames)
    }


def _edit_file(file: MigratedFile, renames: Renames) -> Iterator[tuple[MigrationStep, str]]:
    """Yield the text of a file after each step that changes it.

    Raises:
        UsageError: if the file has a layout that cannot be edited by position.
    """
    text = file.text
    for step in MigrationStep:
        try:
            edited = edit_text(text, step, renames.replace)
        except TextEditError as error:
            line, column = error.position
            message = f"{file.name}:{line}:{column}: {error}; write each name with its amount on a line of its own"
            raise UsageError(message) from error
        if edited != text:
            yield step, edited
            text = edited


def _create_relative_name(name: str) -> str:
    if name in {STDIN, STDIN_NAME}:
        return "stdin.yaml"
    return "/".join(part for part in Path(name).parts if part not in {"/", "..", "."})


def _create_command(content: Mapping[str, Any], patch: str) -> str:
    """Return the command that applies a patch to an object."""
    group, kind = get_group_kind(content)
    version = str(content["apiVersion"]).rpartition("/")[2]
    metadata = content["metadata"]
    parts = ["patch", f"{kind}.{version}.{group}" if group else kind, metadata["name"]]
    if metadata.get("namespace"):
        parts += ["--namespace", metadata["namespace"]]
    if (group, kind) == ("", "Node"):
        parts += ["--subresource=status"]
    return f'kubectl "$@" {shlex.join([*parts, "--type=json", f"--patch-file={patch}"])}'


def _create_file_name(content: Mapping[str, Any]) -> str:
    metadata = content["metadata"]
    parts = (content["kind"].lower(), metadata.get("namespace"), metadata["name"])
    return _UNSAFE.sub("_", "-".join(part for part in parts if part))[:200]


def _clean(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a pod or job without what the API server and the scheduler have set."""
    metadata = {name: value for name, value in content["metadata"].items() if name not in _SERVER_FIELDS}
    spec = dict(content["spec"])
    if content["kind"] == "Pod":
        spec.pop("nodeName", None)
    elif not spec.get("manualSelector"):
        spec.pop("selector", None)
        template = dict(spec["template"])
        template["metadata"] = _drop_job_labels(template.get("metadata") or {})
        metadata, spec["template"] = _drop_job_labels(metadata), template
    others = {name: value for name, value in content.items() if name not in {"metadata", "spec", "status"}}
    return {**others, "metadata": metadata, "spec": spec}


def _drop_job_labels(metadata: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in (metadata.get("labels") or {}).items() if name not in _JOB_LABELS}
    return {**{name: value for name, value in metadata.items() if name != "labels"}, "labels": kept}


def _format(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def describe_steps(written: Mapping[MigrationStep, WrittenStep]) -> Iterator[str]:
    """Yield a line about each written step."""
    for step, each in written.items():
        parts = [(each.patches, "patch", "patches"), (each.recreated, "object to recreate", "objects to recreate")]
        parts.append((each.files, "file", "files"))
        shown = ", ".join(f"{count} {one if count == 1 else many}" for count, one, many in parts if count)
        yield f"{STEP_FOLDERS[step]}: {shown}"
