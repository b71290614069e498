"""The commands `tallygate advertise` and `tallygate withdraw`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from tallygate.cli.advertise.change_run import ChangeRequest, ChangeRun
from tallygate.cli.advertise.change_table import print_changes
from tallygate.cli.advertise.node_changes import ChangeOptions
from tallygate.cli.advertise.resource_arguments import parse_amounts, parse_names, split_arguments
from tallygate.cli.connection import Connection
from tallygate.cli.framework import DATA_FORMATS, EXIT_FINDINGS, Command, UsageError, connection_options
from tallygate.kube.client import ApiClient
from tallygate.policy.periods import PeriodError, parse_period

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("-l", "--selector", metavar="SELECTOR", help="The nodes with these labels, in place of one node."),
    click.option("--below-use", is_flag=True, help="Also go below what the pods on a node use. They go on."),
    click.option(
        "--force-conflicts", is_flag=True, help="Also overwrite an amount that another field manager has set."
    ),
    click.option(
        "--dry-run",
        type=click.Choice(("none", "server")),
        default="none",
        show_default=True,
        help="With server, every check is made, and nothing is stored.",
    ),
    click.option(
        "--timeout",
        metavar="PERIOD",
        default="1m",
        show_default=True,
        help="How long to wait until the amounts are allocatable.",
    ),
    connection_options,
    click.option("-o", "--output", type=click.Choice(DATA_FORMATS), default="table", help="How to print it."),
    click.pass_context,
)


def _change_options(command: F) -> F:
    """Add the options of both commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _change_nodes(  # noqa: PLR0913  one argument for each option
    ctx: click.Context,
    node: str,
    wanted: Mapping[str, int | None],
    *,
    selector: str | None,
    below_use: bool,
    force_conflicts: bool,
    dry_run: str,
    timeout: str,
    connection: Connection,
    output: str,
) -> None:
    try:
        seconds = parse_period(timeout)
    except PeriodError as error:
        raise UsageError(f"--timeout {timeout} {error}") from error
    is_dry = dry_run == "server"
    options = ChangeOptions(below_use, force_conflicts)
    request = ChangeRequest(node, selector or "", wanted, options, seconds, is_dry)
    client = ApiClient(connection.load())
    try:
        changed = ChangeRun(client, request).run()
    finally:
        client.close()
    print_changes(changed, output, dry_run=is_dry)
    ctx.exit(EXIT_FINDINGS if any(each.problems for each in changed) else 0)


@click.command(
    cls=Command,
    examples=(
        ("tallygate advertise gpu-1 example.com/dongle=4", "four dongles on one node"),
        ("tallygate advertise -l pool=sim example.com/seat=20 example.com/port=8", "on each node with a label"),
        ("tallygate advertise gpu-1 example.com/dongle=2 --dry-run=server", "check it, and change nothing"),
    ),
)
@click.argument("arguments", metavar="[NODE] NAME=AMOUNT...", nargs=-1, required=True)
@_change_options
def advertise(ctx: click.Context, arguments: tuple[str, ...], *, selector: str | None, **options: Any) -> None:
    """Advertise amounts of counted resources on a node, or on all nodes that a selector selects.

    The amounts are written to capacity and allocatable of the node's status, with the field manager
    tallygate-advertise. The kubelet keeps a resource that it does not know; one that registers its node again, on a
    disk without device plugins, sets it to 0. If a check of any node fails, no node is changed: an amount below what
    the pods of a node use, a resource that a device plugin publishes, or one that another field manager has set.
    Needed rights: get and list on nodes, list on pods, and patch on nodes/status.

    Exit codes: 0 all nodes have the amounts, 1 a node was refused or failed, 2 a usage error, or the cluster cannot be
    read.
    """
    node, rest = split_arguments(arguments, selector)
    _change_nodes(ctx, node, parse_amounts(rest), selector=selector, **options)


@click.command(
    cls=Command,
    examples=(
        ("tallygate withdraw gpu-1 example.com/dongle", "from one node"),
        ("tallygate withdraw -l pool=sim example.com/seat example.com/port", "from each node with a label"),
        ("tallygate withdraw gpu-1 example.com/dongle --below-use", "although pods of the node use it"),
    ),
)
@click.argument("arguments", metavar="[NODE] NAME...", nargs=-1, required=True)
@_change_options
def withdraw(ctx: click.Context, arguments: tuple[str, ...], *, selector: str | None, **options: Any) -> None:
    """Withdraw counted resources from a node, or from all nodes that a selector selects.

    The resources are removed from capacity and allocatable of the node's status. If a check of any node fails, no node
    is changed: a resource that pods of a node use, one that a device plugin publishes, or one that another field
    manager has set. A resource that a node does not have is no error. Needed rights: get and list on nodes, list on
    pods, and patch on nodes/status.

    Exit codes: 0 no node has the resources, 1 a node was refused or failed, 2 a usage error, or the cluster cannot be
    read.
    """
    node, rest = split_arguments(arguments, selector)
    _change_nodes(ctx, node, dict.fromkeys(parse_names(rest)), selector=selector, **options)
