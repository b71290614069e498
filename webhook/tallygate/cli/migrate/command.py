"""The group `tallygate migrate` with its command `opaque-resources`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tallygate.cli.connection import Connection
from tallygate.cli.framework import (
    DATA_FORMATS,
    EXIT_FINDINGS,
    EXIT_USAGE_ERROR,
    Command,
    Group,
    UsageError,
    connection_options,
)
from tallygate.cli.migrate.migration_sources import (
    MigrationSources,
    read_cluster_objects,
    read_files,
    read_mounted_policies,
    read_snapshot_objects,
)
from tallygate.cli.migrate.old_name_findings import OldNameFinding, count_ended, list_findings
from tallygate.cli.migrate.renames import parse_renames
from tallygate.cli.migrate.step_folder import describe_steps, write_steps
from tallygate.cli.output import tables
from tallygate.cli.sources.options import combine_files, files_options, require_one_source, snapshot_option

_STEP_NAMES = ("accept both", "advertise both", "request both", "request the new name", "withdraw the old name")


@click.group(
    cls=Group,
    examples=(
        ("tallygate migrate opaque-resources --domain example.com", "what uses opaque names, and the next step"),
    ),
)
def migrate() -> None:
    """Move a cluster from names that Kubernetes has retired to present ones."""


@migrate.command(
    "opaque-resources",
    cls=Command,
    examples=(
        ("tallygate migrate opaque-resources", "what uses opaque names in your cluster"),
        ("tallygate migrate opaque-resources --domain example.com --write steps/", "write the patches of each step"),
        ("tallygate migrate opaque-resources -f policies/ --name bananas=example.com/banana", "in files, by a name"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "Manifests or policies, in place of a cluster, or - for stdin.")
@click.option("--domain", metavar="DOMAIN", help="The new names have this domain, and the last part of the old ones.")
@click.option(
    "--name",
    "names",
    metavar="OLD=NEW",
    multiple=True,
    help="The new name of one old name, as in bananas=example.com/banana; may be given several times.",
)
@click.option("--write", "folder", metavar="FOLDER", type=click.Path(path_type=Path), help="Write all steps into it.")
@connection_options
@snapshot_option("A file of `kubectl get -A -o json` with all kinds to read, in place of a cluster.")
@click.option("-o", "--output", type=click.Choice(DATA_FORMATS), default="table", help="How to print it.")
@click.pass_context
def opaque_resources(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    *,
    filenames: tuple[str, ...],
    domain: str | None,
    names: tuple[str, ...],
    folder: Path | None,
    connection: Connection,
    snapshot: Path | None,
    output: str,
) -> None:
    """List what uses names as in pod.alpha.kubernetes.io/opaque-int-resource-bananas, and write the steps to new names.

    The steps: 1 policies and quotas accept both names, 2 nodes advertise both with the same amount, 3 workloads request
    both, 4 workloads request the new name, and 5 the old name is withdrawn. Run the command after each step: STEP has
    the next step of each use, and the next step of all is the first of them. Pods that follow a controller, and pods
    that have ended, are not written. Steps 4 and 5 refuse while pods are left that they would harm. With files, no
    cluster is read, unless an option names one. The policies of a cluster are those in the ConfigMaps that the gate
    mounts, unless a file has policies.

    Helm values, templates that are not rendered, and other texts are not read. Globs and the word opaque in policies,
    and texts that contain an old name, are listed, and edited by hand. Needed rights: list on all kinds that the gate
    evaluates, and get on the gate's webhook configurations, its Deployment and its ConfigMaps.

    Exit codes: 0 nothing is left, 1 old names are left, 2 a usage error, or something was not read.
    """
    renames = parse_renames(domain, names)
    require_one_source(connection, snapshot)
    sources = MigrationSources()
    if paths or filenames:
        read_files(combine_files(paths, filenames, snapshot), sys.stdin.buffer, sources)
    if snapshot is not None:
        read_snapshot_objects(snapshot, sources)
    elif not (paths or filenames) or not connection.is_default:
        client_config = connection.load()
        read_cluster_objects(client_config, sources)
        read_mounted_policies(client_config, sources)
    findings = list_findings(sources, renames)
    if folder is not None:
        if not (domain or names):
            raise UsageError("--write needs the new names: add --domain example.com, or --name OLD=NEW")
        renames.require_distinct([name for finding in findings if finding.step for name in finding.old_names])
    written = write_steps(folder, sources, renames) if folder is not None and findings else {}
    _print_findings(findings, sources.unread, output)
    for line in describe_steps(written):
        click.echo(f"written: {folder}/{line}", err=True)
    _print_summary(findings, count_ended(sources), sources.unread)
    ctx.exit(EXIT_FINDINGS if findings else EXIT_USAGE_ERROR if sources.unread else 0)


def _print_findings(findings: Sequence[OldNameFinding], unread: Sequence[str], output: str) -> None:
    if output != "table":
        tables.print_list("OpaqueNameUse", [_convert(finding) for finding in findings], output, unread=list(unread))
    elif findings:
        headers = ("OBJECT", "FIELD", "NEW NAME", "STEP", "NOTE")
        rows = [
            (
                f"{finding.location} {finding.subject}".strip(),
                finding.field_path,
                finding.new or "-",
                str(int(finding.step)) if finding.step else "-",
                finding.note,
            )
            for finding in findings
        ]
        click.echo("\n".join(tables.align_rows(headers, rows)))


def _convert(finding: OldNameFinding) -> dict[str, Any]:
    return {
        "object": finding.subject,
        "location": finding.location,
        "field": finding.field_path,
        "oldNames": list(finding.old_names),
        "new": finding.new,
        "step": int(finding.step) if finding.step else None,
        "note": finding.note,
    }


def _print_summary(findings: Sequence[OldNameFinding], ended_count: int, unread: Sequence[str]) -> None:
    for remark in unread:
        click.echo(f"not read: {remark}", err=True)
    if ended_count:
        click.echo(f"{ended_count} ended pods and jobs, and old ReplicaSets, keep the old name", err=True)
    steps = [finding.step for finding in findings if finding.step]
    count = len(findings)
    text = f"uses of opaque names that are left: {count}" if count else "no use of an opaque name is left"
    if steps:
        text += f"; next: step {int(min(steps))}, {_STEP_NAMES[min(steps) - 1]}"
    click.echo(text, err=True)
