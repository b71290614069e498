"""The changes of nodes as a table and as plain data."""

from collections.abc import Sequence
from typing import Any

import click

from tallygate.cli.advertise.node_changes import AmountChange, NodeChange
from tallygate.cli.output import tables
from tallygate.cli.output.tables import align_rows

_MISSING = "-"


class ChangedNode:
    """The change of a node and its result. `state` is a word: `changed`, `unchanged`, `refused` or `failed`."""

    def __init__(self, change: NodeChange) -> None:
        self.change = change
        self.state = "refused" if change.refusals else "unchanged"
        self.capacity = {amount.name: amount.capacity for amount in change.amounts}
        self.allocatable = {amount.name: amount.allocatable for amount in change.amounts}
        self.managers: dict[str, frozenset[str]] = {}
        self.problems = list(change.refusals)


def print_changes(nodes: Sequence[ChangedNode], output: str, *, dry_run: bool) -> None:
    """Print the amounts of each node before and after the change, and the problems to stderr."""
    if output == "table":
        rows = [_create_row(node, amount, dry_run=dry_run) for node in nodes for amount in node.change.amounts]
        click.echo("\n".join(align_rows(("NODE", "RESOURCE", "WAS", "IS", "ALLOCATABLE", "USED", "STATE"), rows)))
        for problem in (text for node in nodes for text in node.problems):
            click.echo(f"tallygate: {tables.escape_control(problem)}", err=True)
    else:
        items = [_convert(node, amount) for node in nodes for amount in node.change.amounts]
        problems = [text for node in nodes for text in node.problems]
        tables.print_list("AdvertisedResource", items, output, dryRun=dry_run, problems=problems)


def _create_row(node: ChangedNode, amount: AmountChange, *, dry_run: bool) -> tuple[str, ...]:
    return (
        node.change.node.name,
        amount.name,
        amount.capacity or _MISSING,
        node.capacity[amount.name] or _MISSING,
        node.allocatable[amount.name] or _MISSING,
        f"{amount.used}",
        f"{node.state} (dry run)" if dry_run and node.state == "changed" else node.state,
    )


def _convert(node: ChangedNode, amount: AmountChange) -> dict[str, Any]:
    return {
        "node": node.change.node.name,
        "resource": amount.name,
        "was": {"capacity": amount.capacity, "allocatable": amount.allocatable},
        "is": {"capacity": node.capacity[amount.name], "allocatable": node.allocatable[amount.name]},
        "used": amount.used,
        "state": node.state,
    }
