"""The command `tallygate init`."""

import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import click

from tallygate.cli.framework import PROGRAM, Command, UsageError, format_requirement, get_program
from tallygate.cli.init import choices, questions
from tallygate.cli.init.project_files import (
    FileGroup,
    Project,
    ProjectFile,
    check_names,
    find_root,
    list_additions,
    list_project_files,
    select_new_files,
    write_files,
)

_CLUSTER_PAGE = "https://tallygate.dev/concepts/why-files.html#how-they-get-into-the-cluster"
_INTRODUCTION = "Enter takes the answer in brackets; the files can be edited later."


@click.command(
    cls=Command,
    examples=(
        ("tallygate init", "ask, and write into this folder"),
        ("tallygate init --for gpus --team-label team --hard 8 --yes", "8 GPUs for each value of a label"),
        ("tallygate init --for licences --resource licences.example.com/cad --hard 20 --yes", "a pool of 20 licences"),
        ("tallygate init clusters/prod --for rules --dry-run", "show the files, and write nothing"),
    ),
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--for",
    "purpose",
    type=questions.PURPOSES,
    help="What the policies limit: GPUs of teams, licences, or requests only. Default: gpus.",
)
@click.option(
    "--resource",
    type=choices.parse_resource,
    metavar="NAME",
    help="The resource that pods request. Default: nvidia.com/gpu, for licences licences.example.com/simulator.",
)
@click.option(
    "--count",
    "gpu_count",
    type=questions.GPU_COUNTS,
    help="How a cap counts GPUs: whole, with MIG slices, or by the memory of GPUs that HAMi shares. Default: whole.",
)
@click.option(
    "--amounts",
    type=choices.parse_amounts,
    metavar="N,N...",
    help="The numbers that one container may request; the largest is that of a pod. Default: 1,2,4,8.",
)
@click.option(
    "--team-label",
    type=choices.parse_label_key,
    metavar="KEY",
    help="The label whose value is the team of a namespace. Default: team.",
)
@click.option(
    "--team-namespaces",
    type=choices.parse_namespaces,
    metavar="GLOB",
    help="In place of a label: names of namespaces, each of which is a team.",
)
@click.option(
    "--hard",
    type=choices.parse_count,
    metavar="N",
    help="GPUs of a team (default: 8, or the largest of --amounts), or licences of the site (20).",
)
@click.option(
    "--manifests",
    type=click.Path(exists=True, path_type=Path),
    metavar="FOLDER",
    help="Manifests that the workflow checks by the policies, too.",
)
@click.option(
    "--install",
    "requirement",
    type=choices.parse_requirement,
    metavar="REQUIREMENT",
    help="What pip installs in CI and for commits. Default: this version, from where it was installed.",
)
@click.option(
    "--without",
    type=click.Choice([each.value for each in FileGroup]),
    multiple=True,
    help="Files to leave out; may be given several times.",
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: what no option gives has its default.")
@click.option("--dry-run", is_flag=True, help="Print the files, and write nothing.")
@click.pass_context
def init(  # noqa: PLR0913 -- a parameter for each option
    ctx: click.Context,
    /,
    folder: Path,
    manifests: Path | None,
    requirement: str | None,
    without: tuple[str, ...],
    *,
    yes: bool,
    dry_run: bool,
    **given: Any,
) -> None:
    """Write a folder of policies, with scenarios, a workflow, hooks and editor settings.

    The command writes policies with comments, scenarios that pass, the shipped rules, JSON schemas for editors, a
    workflow for GitHub and hooks for pre-commit that run `tallygate lint` and `tallygate test`, and settings of VS
    Code. In a terminal it asks for values that no option gives; elsewhere, and with --yes, it uses the defaults.

    `--for gpus` limits the numbers that a pod may request, and the GPUs of each team; `--for licences` limits a pool of
    the site; `--for rules` limits only the numbers that a pod may request, by a rule that warns. Run it again with
    another purpose to add its files.

    The policies go into FOLDER/policies. The other files go to the root of the Git repository around FOLDER, or into
    FOLDER outside a repository.

    No file is ever replaced. If a policy or a scenario exists already, nothing is written. Existing files that may have
    other content (the shipped rules, schemas, the workflow, hooks and settings) are kept, and named in the output.

    Exit codes: 0 written, 2 a usage error, or a file exists already or cannot be written.
    """
    target = folder.resolve()
    root = find_root(target)
    project = Project(
        root,
        target,
        folder,
        requirement or format_requirement(distribution(PROGRAM)),
        "" if manifests is None else _find_manifests(manifests, root),
        frozenset(map(FileGroup, without)),
    )
    check_names(project)
    asks = not yes and sys.stdin.isatty() and sys.stderr.isatty()
    if asks:
        click.echo(_INTRODUCTION, err=True)
    asked = questions.Questions(given, asks)
    purpose = asked.choose_purpose()
    # The names of files depend on the purpose alone: one that is there is reported before the other questions.
    defaults = questions.Questions(dict.fromkeys(given), asks=False).choose(purpose)
    select_new_files(project, list(list_project_files(project, defaults)))
    project_files = list(list_project_files(project, asked.choose(purpose)))
    new_files = select_new_files(project, project_files)
    kept = [file for file in project_files if file not in new_files]
    if dry_run:
        _print_texts(project, new_files)
    else:
        write_files(project, new_files)
    _print_list("Not written, by --dry-run:" if dry_run else "Written:", project, new_files)
    _print_list("Kept, because they exist already:", project, kept)
    if not dry_run:
        _print_next_steps(project, get_program(ctx), kept)


def _find_manifests(manifests: Path, root: Path) -> str:
    """Return the path of manifests from the root, with a slash at the end of a folder.

    Raises:
        UsageError: if they are not in the repository, where the workflow runs.
    """
    resolved = manifests.resolve()
    if not resolved.is_relative_to(root):
        raise UsageError(f"--manifests {manifests}: the workflow reads what is in {root}, and this is not")
    return f"{resolved.relative_to(root).as_posix()}{'/' if resolved.is_dir() else ''}"


def _print_list(title: str, project: Project, listed: Sequence[ProjectFile]) -> None:
    names = [project.format_path(file.path) for file in listed]
    width = max(map(len, names), default=0)
    for line in (title, *(f"  {name:<{width}}  {file.about}" for name, file in zip(names, listed, strict=True))):
        if listed:
            click.echo(line)


def _print_texts(project: Project, new_files: Sequence[ProjectFile]) -> None:
    """Print each file under its path; of a schema, which a command prints, the use alone."""
    for file in new_files:
        text = f"({file.about})\n" if "/.schemas/" in file.path else file.text
        click.echo(f"==> {project.format_path(file.path)} <==\n{text}")


def _print_next_steps(project: Project, program: str, kept: Sequence[ProjectFile]) -> None:
    policies = shlex.quote(project.format_path(project.policies) + "/")
    tests = shlex.quote(project.format_path(f"{project.policies}/tests") + "/")
    for heading, lines in list_additions(project, kept):
        click.echo(f"{heading}\n{lines}", nl=False)
    steps = (
        (f"{program} lint {policies}", "every mistake, with file, line and column"),
        (f"{program} test {tests}", "whether the policies decide as the scenarios expect"),
        (f"{program} audit --policies {policies}", "what they would deny of what is in a cluster"),
    )
    width = max(len(line) for line, _ in steps)
    click.echo("Next:")
    for line, about in steps:
        click.echo(f"  {line:<{width}}  # {about}")
    click.echo(f"How policies get into a cluster: {_CLUSTER_PAGE}")
    if not project.without >= {FileGroup.WORKFLOW, FileGroup.PRE_COMMIT}:
        click.echo(f"CI and pre-commit install {project.requirement} by pip; --install names another source.")
