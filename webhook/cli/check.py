"""`tallygate check`: what the cluster would say of manifests, before they are sent to it."""

import sys
from pathlib import Path

import click

from webhook.admission.selection import RuleIndex
from webhook.cli.checking import snapshot as snapshots
from webhook.cli.checking.checker import Checker, Surroundings
from webhook.cli.cluster.options import snapshot_option
from webhook.cli.command import EXIT_FINDINGS, EXIT_MISUSE, Command
from webhook.cli.intake import UNREADABLE, Intake, take_in
from webhook.cli.manifest.bounds import DEFAULT
from webhook.cli.options import output_option, strict_option
from webhook.cli.policies import usable
from webhook.cli.progress import reading, shown
from webhook.cli.report import write
from webhook.cli.report.finding import Finding
from webhook.cli.report.summary import Seen, fails


@click.command(
    cls=Command,
    examples=(
        ("tallygate check deploy/", "every manifest in a folder, by the shipped rules"),
        ("helm template . | tallygate check -", "what a chart renders to"),
        ("kustomize build . | tallygate check --policies policies/ -o github -", "by your own rules, in CI"),
        ("tallygate snapshot -o now.json", "what the cluster holds now, for the caps ..."),
        ("tallygate check --policies policies/ --snapshot now.json deploy/", "... is there room for these too?"),
    ),
)
@click.argument("sources", metavar="FILE|FOLDER|-...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file, or a folder of them; may be given several times. Without it the shipped policies count.",
)
@snapshot_option(
    "What the cluster holds now, for caps and for rules that select namespaces by label: what `tallygate snapshot` "
    "wrote, or `kubectl get nodes,pods,namespaces -A` with -o json or -o yaml."
)
@click.option(
    "-n", "--namespace", metavar="NAME", default="default", show_default=True, help="Where objects go that do not say."
)
@strict_option
@output_option
@click.pass_context
def check(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    sources: tuple[str, ...],
    *,
    policies: tuple[Path, ...],
    snapshot: Path | None,
    namespace: str,
    output: str,
    strict: bool,
) -> None:
    """Check manifests: YAML or JSON files, folders of them at any depth, or stdin (-).

    It says what the API server would refuse about resources, what it lets through though it should not, what the rules
    say, and, given a snapshot, what the caps say, for the manifests in their order. Each finding names file, line and
    column. Nothing is sent anywhere.

    Exit codes: 0 clean, 1 errors (with --strict warnings too), 2 something cannot be read.
    """
    chosen = usable(policies)
    seen_then = snapshots.read(snapshot, placing=RuleIndex(chosen).has_node_rules) if snapshot else None
    surroundings = Surroundings(chosen, seen_then, namespace, DEFAULT)
    intake = take_in(sources, sys.stdin.buffer, DEFAULT, reading)
    seen = Seen("object", intake.files, not_objects=intake.not_objects)
    findings = _findings(intake, surroundings, seen)
    if surroundings.policies.caps and snapshot is None:
        seen.remarks.append("caps were not asked: give what the cluster holds now with --snapshot")
    write.show_findings(findings, seen, output)
    if any(finding.code in UNREADABLE for finding in findings):
        ctx.exit(EXIT_MISUSE)
    ctx.exit(EXIT_FINDINGS if fails(findings, strict=strict) else 0)


def _findings(intake: Intake, surroundings: Surroundings, seen: Seen) -> list[Finding]:
    """All findings, file by file in the order given; objects that nothing is known about are counted."""
    checker = Checker(surroundings, intake.manifests)
    found = list(intake.findings)
    for manifest in shown("checking objects", intake.manifests):
        said = checker.check(manifest)
        if said is None:
            seen.passed_over[manifest.kind] += 1
        else:
            seen.things += 1
            found += said
    order = {name: index for index, name in enumerate(intake.names)}
    return sorted(found, key=lambda finding: (order[finding.file], finding))
