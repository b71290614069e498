"""`tallygate usage`: what caps are, hold and promise."""

from collections.abc import Mapping
from pathlib import Path

import click

from webhook.admission.cap_index import CapIndex
from webhook.cli.cluster.options import connection_options, snapshot_option
from webhook.cli.cluster.source import ClusterSource
from webhook.cli.command import EXIT_FINDINGS, Command, UsageError
from webhook.cli.policies import load_usable_policies
from webhook.cli.report import write
from webhook.cli.using import asking
from webhook.cli.using.asking import UsageQuery
from webhook.cli.using.choice import LedgerChoice
from webhook.policy.model import PolicySet


@click.command(
    cls=Command,
    examples=(
        ("tallygate usage --policies policies/", "every cap of these policies, in the cluster of your kubeconfig"),
        ("tallygate usage --policies policies/ --namespace team-a --watch", "one namespace's, and again as it changes"),
        ("tallygate usage --policies policies/ --explain gpus team-a", "the pods behind a number"),
        ("tallygate usage --policies policies/ --verify", "do the ledgers say what the pods hold?"),
        ("tallygate usage --policies policies/ --snapshot now.json -o json", "of a snapshot, for a program"),
    ),
)
@click.argument("explained", metavar="[NAMESPACE]", required=False)
@click.option(
    "--policies",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy file with caps, or a folder of them; may be given several times. Without it, what the CapLedgers "
    "of the cluster say is shown.",
)
@click.option("--cap", metavar="NAME", help="Only this cap.")
@click.option("--namespace", metavar="NAME", help="Only the caps over this namespace.")
@click.option("--explain", metavar="CAP", help="List the pods behind this cap's numbers, in NAMESPACE or everywhere.")
@click.option("--verify", is_flag=True, help="Compare the ledgers with the pods; exit code 1 when they differ.")
@click.option("--watch", is_flag=True, help="Print again when something changes, until Ctrl-C.")
@connection_options
@snapshot_option(
    "Not a cluster, but what `tallygate snapshot` wrote of one, or `kubectl get nodes,pods,namespaces -A -o json`."
)
@click.option("-o", "--output", type=click.Choice(write.DATA_FORMATS), default="table", help="How to print it.")
@click.pass_context
def usage(  # noqa: PLR0913 -- one argument for each option
    ctx: click.Context,
    explained: str | None,
    *,
    policies: tuple[Path, ...],
    cap: str | None,
    namespace: str | None,
    explain: str | None,
    verify: bool,
    watch: bool,
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool,
    snapshot: Path | None,
    output: str,
) -> None:
    """Show each cap's bounds, what pods hold of them, what is promised to pods to come, and what is free.

    What is held and promised is what the gate's CapLedgers say, and SINCE when they were counted last. Without them, in
    a snapshot or beside a gate that keeps its ledgers in memory, what is held is counted from the pods, and what is
    promised is not known. Pods that are being deleted hold what they have until they are gone. Needed rights: list on
    pods, namespaces and CapLedgers; with --watch also watch.

    Exit codes: 0 shown, 1 --verify found ledgers that are wrong, 2 misuse, or the cluster cannot be read.
    """
    if explained and not explain:
        raise UsageError(f"{explained}: a namespace is named by --namespace {explained}, or behind --explain CAP")
    modes = {"--explain": bool(explain), "--verify": verify, "--watch": watch}
    _check_options(modes, policies=bool(policies), cap=bool(cap), snapshot=bool(snapshot))
    query = UsageQuery(
        ClusterSource(kubeconfig, context, in_cluster, snapshot),
        CapIndex(load_usable_policies(policies) if policies else PolicySet()),
        LedgerChoice(explain or cap, explained or namespace),
        output,
    )
    if verify:
        ctx.exit(EXIT_FINDINGS if asking.print_drift(query) else 0)
    show = asking.show_changes if watch else asking.show_once
    if explain:
        show(query, asking.CONSUMERS_VIEW)
    else:
        show(query, asking.USAGE_VIEW)


def _check_options(modes: Mapping[str, bool], *, policies: bool, cap: bool, snapshot: bool) -> None:
    """Check the options.

    Raises:
        Misuse: they contradict each other, or there is too little of them.
    """
    if modes["--verify"] and (modes["--explain"] or modes["--watch"]):
        raise UsageError("--verify goes with neither --explain nor --watch")
    if modes["--explain"] and cap:
        raise UsageError("--explain names the cap itself: leave --cap out")
    if modes["--watch"] and snapshot:
        raise UsageError("--watch goes with a cluster: a snapshot does not change")
    for option in ("--explain", "--verify"):
        if modes[option] and not policies:
            raise UsageError(f"{option} needs to know what the caps count: name their policy files by --policies")
