"""The files that `tallygate init` writes: where they stand, what is in them, and how they are written.

The workflow and the hooks name tallygate by a requirement of pip, since no address of a repository is known here.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from string import Template

from tallygate.cli.framework import UsageError
from tallygate.cli.init.choices import Choices
from tallygate.cli.init.policy_files import POLICY_SCHEMA, SCENARIO_SCHEMA, list_policy_texts
from tallygate.policy.schema import SCHEMA_FILE_NAME, read_schema_text

POLICIES = "policies"
_WORKFLOW_FILE = ".github/workflows/tallygate.yml"
_HOOKS_FILE = ".pre-commit-config.yaml"
_SETTINGS_FILE = ".vscode/settings.json"
_MAX_READ_BYTES = 1 << 20  # of a file that is there, whether it names the policies

_WORKFLOW = Template("""\
# Checks the policies of every change: lint finds mistakes, and test compares decisions with the scenarios.
# Actions are pinned to commits, which cannot be moved. Dependabot updates them (package-ecosystem: github-actions).
name: policies
on:
  push: {branches: [main]}
  pull_request: {}
permissions:
  contents: read
jobs:
  tallygate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with: {persist-credentials: false}
      - uses: actions/setup-python@ece7cb06caefa5fff74198d8649806c4678c61a1 # v6.3.0
        with: {python-version: "3.13"}
      # Scenarios of rules that compare pods with nodes also need numpy.
      - run: |
          python -m pip install --quiet $requirement
$steps""")

_STEPS = Template("""\
      - run: |
          tallygate lint --strict -o github $policies
      - run: |
          tallygate test -o github $tests
$check""")

_CHECK = Template("""\
      - run: |
          tallygate check -o github --policies $policies $manifests
""")

_HOOKS = Template("""\
  - repo: local
    hooks:
      - id: tallygate-lint
        name: tallygate lint
        entry: tallygate lint --strict
        args: [$policies]
        files: $pattern
        pass_filenames: false
        language: python
        additional_dependencies: [$requirement]
      - id: tallygate-test
        name: tallygate test
        entry: tallygate test
        args: [$tests]
        files: $pattern
        pass_filenames: false
        language: python
        additional_dependencies: [$requirement]
""")

_HOOKS_HEAD = """\
# `pre-commit install` runs these before each commit. Policies are one set, so the hooks read the complete folder.
repos:
"""


class FileGroup(StrEnum):
    """The files that a user may leave out."""

    WORKFLOW = "workflow"
    PRE_COMMIT = "pre-commit"
    EDITOR = "editor"


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file: its path from the root of the project, its text, and its use.

    `is_shared` is true of a file that other tools or calls of `tallygate init` use too: if it is there, it is kept.
    """

    path: str
    text: str
    about: str
    is_shared: bool = True


@dataclass(frozen=True, slots=True)
class Project:
    """The root of a project, the folder in it that gets the policies, and what the files there name.

    `root` and `folder` are resolved; `written_folder` is the folder as the user has written it.
    """

    root: Path
    folder: Path
    written_folder: Path
    requirement: str
    """The requirement that pip installs for the workflow and the hooks."""
    manifests: str = ""
    """A folder of manifests for the workflow, from the root; empty for none."""
    without: frozenset[FileGroup] = frozenset()

    @property
    def policies(self) -> str:
        """The folder of the policies, from the root, without a slash at its end."""
        return (self.folder.relative_to(self.root) / POLICIES).as_posix()

    def format_path(self, path: str) -> str:
        """Return a path from the root as the user would write it."""
        return os.path.normpath(self.written_folder / os.path.relpath(self.root / path, self.folder))


def find_root(folder: Path) -> Path:
    """Return the folder of the Git repository around a resolved folder; without one the folder itself.

    GitHub, pre-commit and editors read their files there.
    """
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), folder)


def check_names(project: Project) -> None:
    """Check the folders that the workflow and the hooks name: GitHub replaces `${{`, and `-` begins an option.

    Raises:
        UsageError: if they cannot name one.
    """
    for path in (project.policies, project.manifests):
        if not path.isprintable() or "${{" in path or path.startswith("-"):
            advice = "name a folder of letters and digits"
            raise UsageError(f"{path!r}: the workflow and the hooks cannot name this folder: {advice}")


def list_project_files(project: Project, choices: Choices) -> Iterator[ProjectFile]:
    """Yield every file of a project."""
    policies = project.policies
    for number, (path, text, about) in enumerate(list_policy_texts(choices)):
        yield ProjectFile(f"{policies}/{path}", text, about, is_shared=number == 0)
    yield ProjectFile(f"{policies}/{POLICY_SCHEMA}", read_schema_text(), "for editors: `tallygate schema`")
    scenario_schema = files("tallygate.cli.scenarios").joinpath(SCHEMA_FILE_NAME).read_text(encoding="utf-8")
    yield ProjectFile(f"{policies}/{SCENARIO_SCHEMA}", scenario_schema, "for editors: `tallygate schema scenario`")
    if FileGroup.WORKFLOW not in project.without:
        yield ProjectFile(_WORKFLOW_FILE, _create_workflow(project), "GitHub runs lint and test")
    if FileGroup.PRE_COMMIT not in project.without:
        yield ProjectFile(_HOOKS_FILE, f"{_HOOKS_HEAD}{_create_hooks(project)}", "pre-commit runs lint and test")
    if FileGroup.EDITOR not in project.without:
        yield ProjectFile(_SETTINGS_FILE, _create_settings(project), "VS Code finds the schemas of new files")


def _create_workflow(project: Project) -> str:
    return _WORKFLOW.substitute(requirement=shlex.quote(project.requirement), steps=_create_steps(project))


def _create_steps(project: Project) -> str:
    policies = shlex.quote(f"{project.policies}/")
    check = _CHECK.substitute(policies=policies, manifests=shlex.quote(project.manifests)) if project.manifests else ""
    return _STEPS.substitute(policies=policies, tests=shlex.quote(f"{project.policies}/tests/"), check=check)


def _create_hooks(project: Project) -> str:
    """Return the entry of `repos` in `.pre-commit-config.yaml`: local hooks, which need no address of a repository."""
    return _HOOKS.substitute(
        policies=json.dumps(f"{project.policies}/"),
        tests=json.dumps(f"{project.policies}/tests/"),
        pattern=json.dumps(f"^{re.escape(project.policies)}/"),
        requirement=json.dumps(project.requirement),
    )


def _create_settings(project: Project) -> str:
    return f"{json.dumps({'yaml.schemas': _map_schemas(project)}, indent=2)}\n"


def _map_schemas(project: Project) -> dict[str, list[str]]:
    policies = project.policies
    return {
        f"./{policies}/{POLICY_SCHEMA}": [f"{policies}/*.yaml"],
        f"./{policies}/{SCENARIO_SCHEMA}": [f"{policies}/tests/*.yaml"],
    }


def list_additions(project: Project, kept: Iterable[ProjectFile]) -> Iterator[tuple[str, str]]:
    """Yield a heading and lines to add for each file that is kept and does not name the policies."""
    additions = {
        _WORKFLOW_FILE: ("GitHub", "steps", _create_steps),
        _HOOKS_FILE: ("hooks", "repos", _create_hooks),
        _SETTINGS_FILE: ("VS Code", "yaml.schemas", _format_schemas),
    }
    for file in kept:
        if file.path in additions and not _names_policies(project, file.path):
            purpose, key, create = additions[file.path]
            yield f"For {purpose}, add to `{key}` of {project.format_path(file.path)}:", create(project)


def _format_schemas(project: Project) -> str:
    return "".join(f"  {line.strip()}\n" for line in json.dumps(_map_schemas(project), indent=0).splitlines()[1:-1])


def _names_policies(project: Project, path: str) -> bool:
    """Return whether a file names the folder of the policies, or tallygate, whose hooks read `policies/` by default."""
    file = project.root / path
    if not file.is_file():
        return False
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_READ_BYTES).decode(errors="replace")
    except OSError:
        return False
    if re.search(rf"(?<![\w/-])(?:\./)?{re.escape(project.policies)}/", text):
        return True
    return project.policies == POLICIES and path == _HOOKS_FILE and "tallygate" in text


def select_new_files(project: Project, project_files: Sequence[ProjectFile]) -> list[ProjectFile]:
    """Return the files that are not there; those that are there and shared are left as they are.

    Raises:
        UsageError: if another file is there; the message names all of them.
    """
    there = [file for file in project_files if os.path.lexists(project.root / file.path)]
    if own := [project.format_path(file.path) for file in there if not file.is_shared]:
        advice = "nothing has been written; move them, or name another folder"
        raise UsageError(f"{', '.join(own)}: exists already, and `tallygate init` replaces no file: {advice}")
    return [file for file in project_files if file not in there]


def write_files(project: Project, new_files: Sequence[ProjectFile]) -> None:
    """Write files that are not there, all of them or none.

    Raises:
        UsageError: if one is there by now, or cannot be written.
    """
    written: list[Path] = []
    folders: list[Path] = []
    name = ""
    try:
        for file in new_files:
            name, path = project.format_path(file.path), project.root / file.path
            folders += [each for each in reversed(path.parents) if not each.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                written.append(path)
                stream.write(file.text)
    except BaseException as error:  # also an interrupt of the user
        _remove(written, folders)
        if isinstance(error, OSError):
            raise UsageError(f"{name}: cannot be written: {error.strerror}; nothing has been written") from error
        raise


def _remove(written: Iterable[Path], folders: Sequence[Path]) -> None:
    for file in written:
        file.unlink(missing_ok=True)
    for folder in reversed(folders):
        with suppress(OSError):  # another program has written into it
            folder.rmdir()
