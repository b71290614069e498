"""The command `tallygate check`: the evaluation of manifests before they are sent to a cluster."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import click

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.admission.rule_index import RuleIndex
from tallygate.answers.checker import CheckContext, ManifestChecker
from tallygate.answers.node_check import create_daemon_counter, create_node_check
from tallygate.answers.version_notes import list_version_notes
from tallygate.cli import framework
from tallygate.cli.output import tables
from tallygate.cli.progress import track, track_files
from tallygate.cli.sources.options import (
    combine_files,
    exclude_option,
    files_options,
    kubernetes_option,
    list_excluded,
    load_usable_policies,
    snapshot_option,
)
from tallygate.cli.sources.snapshot_file import read_snapshot
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import SLICES, TAINT_RULES
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.kube.kubeconfig import find_default_namespace
from tallygate.manifests.applied_objects import list_applied_objects
from tallygate.manifests.findings import Finding, FindingSeverity, RunSummary, is_failure
from tallygate.manifests.manifest_files import (
    STDIN,
    UNREADABLE_CODES,
    LoadedManifests,
    format_argument,
    load_manifests,
)
from tallygate.policy.model import PolicySet, Schedulable


@click.command(
    cls=framework.Command,
    examples=(
        ("tallygate check deploy/", "every manifest in a folder, by the shipped rules"),
        ("helm template . | tallygate check -", "what a chart renders to"),
        ("kustomize build . | tallygate check --policies policies/ -o github -", "by your own rules, in CI"),
        ("tallygate snapshot now.json", "the current state of the cluster, for the caps ..."),
        ("tallygate check --policies policies/ --snapshot now.json deploy/", "... do these exceed a cap?"),
        ("tallygate check --snapshot now.json --kubernetes 1.38 deploy/", "... and after the upgrade?"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "Manifests, a folder of them at any depth, or - for stdin.")
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file, or a folder of them; may be given several times. Without it the shipped policies apply.",
)
@snapshot_option(
    "The current state of the cluster, for caps and for rules that select namespaces by label: a file of `tallygate "
    "snapshot`, or of `kubectl get nodes,pods,namespaces -A` with -o json or -o yaml."
)
@framework.namespace_option("For objects without a namespace. Default: that of the kubeconfig's context, else default.")
@click.option(
    "--allow-empty",
    is_flag=True,
    help="Accept stdin and folders without any object, and files without any document; otherwise they are errors.",
)
@kubernetes_option
@exclude_option
@framework.strict_option
@framework.output_option
@click.pass_context
def check(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    paths: tuple[str, ...],
    filenames: tuple[str, ...],
    *,
    policies: tuple[Path, ...],
    snapshot: Path | None,
    namespace: str | None,
    allow_empty: bool,
    kubernetes: KubernetesVersion | None,
    exclude: tuple[str, ...],
    output: str,
    strict: bool,
) -> None:
    """Check manifests: YAML or JSON files, folders of them at any depth, or stdin (-).

    In folders, files and folders whose name begins with a dot are skipped. Documents of other tools, such as Chart.yaml
    or a values file, and patches of kustomizations are not objects: they are skipped and counted.

    The command reports fields and resources that the API server would reject, or would accept although they are wrong,
    and violations of rules and caps, for the manifests in their order. Caps count pods, claims for devices, and the
    claims that templates make for pods; with a snapshot they also count existing pods and claims. An object with
    containers of a kind that is not read is a warning; a WorkloadKind in the policies defines such a kind. Each finding
    has file, line and column. Nothing is sent anywhere.

    LimitRanges, ResourceQuotas, rules about nodes and shared claims of CronJobs apply as in the version of Kubernetes
    in --kubernetes, or else in the snapshot, or else in the newest release. All other findings are the same for all
    versions.

    Exit codes: 0 no errors, 1 errors (with --strict also warnings), 2 a file cannot be read.
    """
    files = combine_files(paths, filenames, snapshot)
    policy_set = load_usable_policies(policies)
    loaded = load_manifests(files, sys.stdin.buffer, DEFAULT_LIMITS, track_files, exclude)
    has_node_rules = RuleIndex(policy_set).has_node_rules
    counts_nodes = bool(policy_set.caps) and _has_daemon_sets(loaded)
    namespace = namespace or find_default_namespace(in_cluster=False)
    applied = list_applied_objects(loaded.manifests, namespace, DEFAULT_LIMITS)
    state = read_snapshot(snapshot, applied, with_columns=has_node_rules or counts_nodes, kubernetes=kubernetes)
    check_context = CheckContext(
        policy_set,
        state,
        namespace,
        DEFAULT_LIMITS,
        datetime.now(UTC),
        create_node_check(state) if has_node_rules else None,
        create_daemon_counter(state),
        has_source=snapshot is not None,
    )
    run_summary = RunSummary("object", loaded.file_count, non_object_count=loaded.non_object_count)
    if not allow_empty:
        loaded.findings += map(_create_empty_finding, loaded.empty_arguments)
    run_summary.notes += list_excluded(loaded)
    findings = _check_manifests(loaded, check_context, run_summary)
    run_summary.notes += _list_notes(check_context, kubernetes)
    tables.print_findings("CheckReport", findings, run_summary, output)
    if any(finding.code in UNREADABLE_CODES for finding in findings):
        ctx.exit(framework.EXIT_USAGE_ERROR)
    ctx.exit(framework.EXIT_FINDINGS if is_failure(findings, strict=strict) else 0)


def _list_notes(check_context: CheckContext, kubernetes: KubernetesVersion | None) -> Iterator[str]:
    """Yield what the snapshot lacks, and why the rules of a version may not be those of its cluster."""
    policies, state = check_context.policies, check_context.state
    if policies.caps and not check_context.has_source:
        yield "no existing pods counted for caps: give the state of the cluster with --snapshot"
    version, git_version = kubernetes or state.pod_defaults.version, None if kubernetes else state.git_version
    yield from list_version_notes(version, git_version)
    if check_context.has_source:
        yield from state.list_unread(state.index_caps(policies, check_context.now))
        yield from _list_missing_rules(policies, state)


def _list_missing_rules(policies: PolicySet, state: ClusterState) -> Iterator[str]:
    """Yield a note if a snapshot does not have the rules that taint devices, and what fits now depends on them."""
    asks_now = any(rule.checks.schedulable is Schedulable.NOT_NOW for rule in policies.rules)
    applies_rules = state.columns is not None and state.columns.version.has(Switch.APPLIES_TAINT_RULES)
    if asks_now and applies_rules and state.knows(SLICES):
        yield from state.list_effects((TAINT_RULES,))


def _create_empty_finding(argument: str) -> Finding:
    lacking = "no Kubernetes object in it" if argument == STDIN or Path(argument).is_dir() else "no document in it"
    message = f"{lacking}, so nothing was checked; with --allow-empty that is no error"
    return Finding(format_argument(argument), 1, 1, FindingSeverity.ERROR, "TG412", message)


def _has_daemon_sets(loaded: LoadedManifests) -> bool:
    """Return whether the pods of a DaemonSet can be counted by nodes, which needs numpy."""
    return any(manifest.kind == "DaemonSet" for manifest in loaded.manifests) and find_spec("numpy") is not None


def _check_manifests(loaded: LoadedManifests, check_context: CheckContext, run_summary: RunSummary) -> list[Finding]:
    """Return all findings, file by file in the order given; count the objects of kinds without checks."""
    checker = ManifestChecker(check_context)
    findings = list(loaded.findings)
    for manifest in track("checking objects", loaded.manifests):
        checked = checker.check(manifest)
        findings += checked.findings
        if checked.is_read:
            run_summary.item_count += 1
        elif checked.findings:
            run_summary.unread_kinds[manifest.kind] += 1
        else:
            run_summary.skipped_kinds[manifest.kind] += 1
    file_order = {name: index for index, name in enumerate(loaded.file_names)}
    return sorted(findings, key=lambda finding: (file_order.get(finding.file, len(file_order)), finding))
