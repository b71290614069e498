"""The folder that a migration writes: for each step patches with the commands that apply and revert them, and files."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallygate.webhook.cli.framework import UsageError
from tallygate.webhook.cli.manifests.manifest_files import STDIN
from tallygate.webhook.cli.migrate.migration_sources import (
    MigratedFile,
    MigrationSources,
    find_owner,
    needs_no_resources,
)
from tallygate.webhook.cli.migrate.old_name_findings import must_be_recreated
from tallygate.webhook.cli.migrate.old_name_uses import MigrationStep, get_group_kind
from tallygate.webhook.cli.migrate.renames import Renames
from tallygate.webhook.cli.migrate.step_edits import create_step_patch, list_edits
from tallygate.webhook.cli.migrate.text_edits import TextEditError, edit_text
from tallygate.webhook.cli.output.findings import STDIN_NAME

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


def _create_patches(sources: MigrationSources, renames: Renames) -> dict[str, str]:
    """Return the text of each file about stored objects, by its path in the folder."""
    texts: dict[str, str] = {}
    applied: dict[MigrationStep, list[str]] = {step: [] for step in MigrationStep}
    reverted: dict[MigrationStep, list[str]] = {step: [] for step in MigrationStep}
    recreated: dict[MigrationStep, list[str]] = {step: [] for step in MigrationStep}
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
                recreated[step].append(f'kubectl "$@" replace --force -f recreate/{name}')
                continue
            for kind, operations in (("patches", patch.forward), ("back", patch.back)):
                texts[f"{STEP_FOLDERS[step]}/{kind}/{name}"] = _format(operations)
            applied[step].append(_create_command(content, f"patches/{name}"))
            reverted[step].append(_create_command(content, f"back/{name}"))
    for step, name in STEP_FOLDERS.items():
        for script, purpose, lines in (
            ("apply.sh", "Apply this step", applied[step]),
            ("back.sh", "Revert this step", reverted[step][::-1]),
            ("recreate.sh", "End and create again what cannot be changed", recreated[step]),
        ):
            if lines:
                texts[f"{name}/{script}"] = _SHELL_HEADER.format(purpose) + "".join(f"{line}\n" for line in lines)
    return texts


def _create_texts(files: list[MigratedFile], renames: Renames) -> dict[str, str]:
    """Return the text of each file after each step that changes it, by its path in the folder.

    Raises:
        UsageError: if a file has a layout that cannot be edited by position.
    """
    texts: dict[str, str] = {}
    for file in files:
        text = file.text
        for step in MigrationStep:
            try:
                edited = edit_text(text, step, renames.replace)
            except TextEditError as error:
                line, column = error.position
                message = f"{file.name}:{line}:{column}: {error}; write each name with its amount on a line of its own"
                raise UsageError(message) from error
            if edited != text:
                texts[f"{STEP_FOLDERS[step]}/files/{_create_relative_name(file.name)}"] = edited
                text = edited
    return texts


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
    return _UNSAFE.sub("_", "-".join(each for each in parts if each))[:200]


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
