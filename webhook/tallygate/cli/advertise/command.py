"""The command `tallygate advertise`, and its arguments: a node, and resources with amounts or to withdraw."""

from collections.abc import Iterator, Sequence

import click
import msgspec

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import is_countable
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.validation.node_and_quota import check_node_strictly, validate_node
from tallygate.cli.advertise.change_run import ChangeRequest, ChangeRun
from tallygate.cli.connection import Connection
from tallygate.cli.framework import EXIT_FINDINGS, Command, UsageError, connection_options, data_option
from tallygate.kube.client import ApiClient
from tallygate.objects.core import Node, NodeStatus
from tallygate.policy.periods import PeriodError, parse_period

_NODE_PREFIXES = ("node/", "nodes/", "no/")


@click.command(
    cls=Command,
    examples=(
        ("tallygate advertise gpu-1 example.com/dongle=4", "four dongles on one node"),
        ("tallygate advertise -l pool=sim example.com/seat=20 example.com/port=8", "on each node with a label"),
        ("tallygate advertise gpu-1 example.com/dongle=2 --dry-run=server", "check it, and change nothing"),
        ("tallygate advertise gpu-1 example.com/dongle-", "withdraw the dongles of a node"),
        ("tallygate advertise gpu-1 example.com/dongle- --below-use", "although pods of the node use them"),
    ),
)
@click.argument("arguments", metavar="[NODE] NAME=AMOUNT|NAME-...", nargs=-1, required=True)
@click.option("-l", "--selector", metavar="SELECTOR", help="The nodes with these labels, instead of one node.")
@click.option("--below-use", is_flag=True, help="Also set less than the pods of a node use. They keep running.")
@click.option("--force-conflicts", is_flag=True, help="Also overwrite an amount that another field manager has set.")
@click.option(
    "--dry-run",
    type=click.Choice(("none", "server")),
    default="none",
    show_default=True,
    help="With server, every check is made, and nothing is stored.",
)
@click.option(
    "--timeout",
    metavar="DURATION",
    default="1m",
    show_default=True,
    help="How long to wait until the amounts are allocatable.",
)
@connection_options
@data_option
@click.pass_context
def advertise(  # noqa: PLR0913  one argument for each option
    ctx: click.Context,
    arguments: tuple[str, ...],
    *,
    selector: str | None,
    below_use: bool,
    force_conflicts: bool,
    dry_run: str,
    timeout: str,
    connection: Connection,
    output: str,
) -> None:
    """Advertise amounts of counted resources on a node, or on all nodes that a selector selects.

    NAME- withdraws a resource. The amounts are written to capacity and allocatable of the node's status, with the field
    manager tallygate-advertise. The kubelet keeps a resource that it does not know. If it registers its node again, on
    a disk without device plugins, it sets the resource to 0. If a check fails for one node, no node is changed: an
    amount below the use by pods of the node, a resource that a device plugin publishes, or one that another field
    manager has set. Withdrawing a resource that a node does not have is not an error. Needed rights: get and list on
    nodes, list on pods, and patch on nodes/status.

    Exit codes: 0 all nodes have the amounts, 1 a node was refused or failed, 2 a usage error, or the cluster cannot be
    read.
    """
    node, resources = split_arguments(arguments, selector)
    wanted = parse_resources(resources)
    try:
        seconds = parse_period(timeout)
    except PeriodError as error:
        raise UsageError(f"--timeout {timeout} {error}") from error
    request = ChangeRequest(node, selector or "", wanted, seconds, below_use, force_conflicts, dry_run == "server")
    client = ApiClient(connection.load())
    try:
        run = ChangeRun(client, request)
        all_changed = run.run()
    finally:
        client.close()
    run.print_changes(all_changed, output)
    ctx.exit(EXIT_FINDINGS if any(changed.problems for changed in all_changed) else 0)


def split_arguments(arguments: Sequence[str], selector: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the node that the first argument names, "" with a selector, and the arguments for resources.

    Raises:
        UsageError: if there is no node or no resource, or a node together with a selector.
    """
    if selector is not None:
        for argument in arguments:
            if ("/" not in argument and "=" not in argument) or argument.startswith(_NODE_PREFIXES):
                raise UsageError(f"{argument}: name a node, or several by -l, not both")
        node, rest = "", tuple(arguments)
    else:
        if not arguments or "=" in arguments[0]:
            raise UsageError("name a node before the resources, or several nodes by -l LABEL=VALUE")
        node, rest = arguments[0], tuple(arguments[1:])
        for prefix in _NODE_PREFIXES:
            node = node.removeprefix(prefix)
        if not node or "/" in node:
            raise UsageError(f"{arguments[0]} is not the name of a node; the node comes before the resources")
    if not rest:
        raise UsageError("name the resources, as in example.com/dongle=4")
    return node, rest


def parse_resources(arguments: Sequence[str]) -> dict[str, int | None]:
    """Return the amounts by name, None for a name to withdraw: `example.com/dongle=4`, or `example.com/dongle-`.

    Raises:
        UsageError: if a name or an amount is invalid, or a name has two amounts; the text has every problem.
    """
    texts: dict[str, str | None] = {}
    problems: list[str] = []
    for argument in arguments:
        name, equals, amount = argument.partition("=")
        wanted: str | None = amount
        if not equals and name.endswith("-"):
            name, wanted = name.removesuffix("-"), None
        elif not amount:
            problems.append(
                f"{argument}: an amount is missing; write NAME=AMOUNT, as in example.com/dongle=4, or NAME- to "
                "withdraw it"
            )
            continue
        if name in texts and (texts[name], wanted) != (None, None):
            pair = f"{texts[name] or 'none'} and {wanted or 'none'}"
            problems.append(f"{name}: there are two amounts, {pair}; keep one")
        texts.setdefault(name, wanted)
    problems += _list_name_problems(list(texts))
    amounts = {name: text for name, text in texts.items() if text is not None}
    problems += _list_amount_problems(amounts)
    if problems:
        raise UsageError("\n".join(problems))
    return {name: None if text is None else Quantity.parse(text).value() for name, text in texts.items()}


def _list_name_problems(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = find_name_problems(name, NameContext.CONTAINER)
        yield from (f"{name}: {problem.message} ({problem.code})" for problem in found)
        if not found and not is_countable(name):
            yield (
                f"{name}: Kubernetes itself counts {name}, and the kubelet reports it; only a resource with a domain "
                "of yours can be advertised, as in example.com/dongle"
            )


def _list_amount_problems(texts: dict[str, str]) -> Iterator[str]:
    """Yield the problems of amounts as the API server and `tallygate check` find them in the status of a node."""
    for name, text in texts.items():
        capacity = {name: msgspec.Raw(msgspec.json.encode(text))}
        node = Node(status=NodeStatus(capacity, {}))
        if found := validate_node(node):
            yield from (f"{name}={text}: {problem.message} ({problem.code})" for problem in found)
        elif is_countable(name):
            strict = check_node_strictly(node)
            yield from (f"{name}={text}: {problem.message} ({problem.code})" for problem in strict)
