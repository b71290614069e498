"""The command `tallygate lint`: the validation of policy files."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from tallygate.cli.framework import EXIT_FINDINGS, EXIT_USAGE_ERROR, Command, output_option, strict_option
from tallygate.cli.output import tables
from tallygate.cli.sources.options import combine_files, files_options
from tallygate.manifests.findings import STDIN_NAME, Finding, FindingSeverity, RunSummary, is_failure
from tallygate.manifests.manifest_files import STDIN, format_file_name
from tallygate.policy.lint_findings import LintFinding as PolicyFinding
from tallygate.policy.lint_overrides import lint_ended_overrides
from tallygate.policy.load import load_policies
from tallygate.policy.parse import MAX_FILE_BYTES
from tallygate.policy.policy_codes import UNREADABLE

_MAX_NAMED_FILES = 3


@click.command(
    cls=Command,
    examples=(
        ("tallygate lint policies/", "every mistake of every policy file in a folder"),
        ("tallygate lint --strict policies/gpus.yaml", "let warnings fail too, as CI should"),
        ("kustomize build . | tallygate lint -", "policies that another tool renders"),
        ("tallygate lint policies/ -o github", "mistakes next to their lines in a pull request"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "A policy file, a folder of them, or - for stdin.")
@strict_option
@output_option
@click.pass_context
def lint(ctx: click.Context, paths: tuple[str, ...], filenames: tuple[str, ...], output: str, *, strict: bool) -> None:
    """Check policy files: ResourceRules, NamespaceCaps, ImpliedRequests, WorkloadKinds, NodeResources and NodeShapes.

    An error is a file that cannot be read, or a policy that no request can ever meet; the gate does not load such a
    set. A warning is a valid policy that is probably a mistake. All files together are one set, as the gate would load
    them.

    Folders are read at any depth, as by the gate, without files and folders whose name begins with a dot. Scenarios of
    `tallygate test` in them, and documents of other tools, such as a kustomization or a JSON schema, are skipped and
    counted. A file that you name is read as policies.

    Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 a path cannot be read.
    """
    files = combine_files(paths, filenames)
    stdin = [(STDIN_NAME, sys.stdin.buffer.read(MAX_FILE_BYTES + 1))] if STDIN in files else []
    parsed = load_policies([Path(name) for name in files if name != STDIN], extra_files=stdin)
    policies = parsed.policies
    ended = lint_ended_overrides(policies, datetime.now(UTC))
    findings = [_convert_finding(finding) for finding in sorted({*parsed.findings, *ended})]
    policy_count = policies.count_documents()
    run_summary = RunSummary("policy", len(policies.files), policy_count)
    if parsed.scenario_count:
        run_summary.notes.append(
            f"{parsed.scenario_count} scenario{'s' * (parsed.scenario_count != 1)} skipped: `tallygate test` runs them"
        )
    if parsed.foreign:
        run_summary.notes.append(_describe_foreign([format_file_name(location.file) for location in parsed.foreign]))
    tables.print_findings("LintReport", findings, run_summary, output)
    if any(finding.code == UNREADABLE for finding in findings):
        ctx.exit(EXIT_USAGE_ERROR)
    ctx.exit(EXIT_FINDINGS if is_failure(findings, strict=strict) else 0)


def _describe_foreign(file_names: Sequence[str]) -> str:
    """Return the note on documents of other tools, with the names of the first files."""
    names = list(dict.fromkeys(file_names))
    more = f" and {len(names) - _MAX_NAMED_FILES} more" if len(names) > _MAX_NAMED_FILES else ""
    documents = "1 document" if len(file_names) == 1 else f"{len(file_names)} documents"
    return f"{documents} of other tools skipped: {', '.join(names[:_MAX_NAMED_FILES])}{more}"


def _convert_finding(lint_finding: PolicyFinding) -> Finding:
    return Finding(
        format_file_name(lint_finding.file),
        lint_finding.line,
        lint_finding.column,
        FindingSeverity(lint_finding.severity.value),
        lint_finding.code,
        lint_finding.message,
    )
