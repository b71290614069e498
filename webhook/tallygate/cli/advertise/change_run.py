"""The run of a command over nodes: read and check all of them, then change one after the other, then wait."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from typing import Any, Final

import click

from tallygate.accounting.published_amounts import format_stored, is_amount
from tallygate.answers import columns
from tallygate.cli.framework import UsageError
from tallygate.cli.output import tables
from tallygate.cli.progress import track, track_size
from tallygate.gate.node_publisher import AmountChange, compare_amounts
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.state.kubernetes.node_status_store import KubernetesNodeStatusStore
from tallygate.state.kubernetes.node_usage import NodeUsage, list_pod_pages

FIELD_MANAGER: Final = "tallygate-advertise"
"""The field manager of the command."""

_MAX_ATTEMPTS = 5
_POLL_SECONDS = 0.5
_MAX_PODS = 10
_MISSING = "-"


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """The amounts that a user wants on nodes, None for a resource to withdraw.

    `node` is the name of a node; if it is empty, `selector` selects nodes by labels. With `below_use` amounts may fall
    below what pods use, with `force_conflicts` those of other field managers are overwritten. `timeout` is in seconds.
    """

    node: str
    selector: str
    wanted: Mapping[str, int | None]
    timeout: int
    below_use: bool = False
    force_conflicts: bool = False
    dry_run: bool = False


class ChangedNode:
    """The changes of a node and their result. `state` is a word: `changed`, `unchanged`, `refused` or `failed`."""

    def __init__(self, node: OwnedNode, changes: Sequence[AmountChange], refusals: Sequence[str]) -> None:
        self.node = node
        self.changes = changes
        self.state = "refused" if refusals else "unchanged"
        self.capacity = {change.name: change.capacity for change in changes}
        self.allocatable = {change.name: change.allocatable for change in changes}
        self.managers: dict[str, frozenset[str]] = {}
        self.problems = list(refusals)

    def update(self, node: OwnedNode, names: Collection[str]) -> None:
        """Take amounts and managers of some names from a later version of the node."""
        for name in names:
            self.capacity[name] = format_stored(node.capacity, name)
            self.allocatable[name] = format_stored(node.allocatable, name)
            self.managers[name] = node.list_managers(name, allocatable=True)

    def take_written(self, node: OwnedNode | None, names: Collection[str]) -> None:
        """Take some names from the node as it was written; None if it was not, since it had been changed."""
        if node is not None:
            self.update(node, names)
            self.state = "changed"

    def list_missing(self) -> list[AmountChange]:
        """Return the amounts that are not allocatable as wanted."""
        return [
            change
            for change in self.changes
            if not replace(change, allocatable=self.allocatable[change.name]).is_allocatable
        ]


class ChangeRun:
    """The run of one request against one API server."""

    def __init__(self, client: ApiClient, request: ChangeRequest) -> None:
        self._client = client
        self._store = KubernetesNodeStatusStore(client, FIELD_MANAGER)
        self._request = request
        self._usage = NodeUsage()

    def run(self) -> list[ChangedNode]:
        """Change the nodes and return each with its result; if one is refused, none is changed.

        Raises:
            UsageError: if there is no such node, or it or its pods cannot be read.
        """
        try:
            nodes = self._read_nodes()
            pages = list_pod_pages(self._client, [node.name for node in nodes])
            for page in track_size("listing pods", pages, len):
                self._usage.add_page(page, self._request.wanted.keys())
        except ApiError as error:
            raise UsageError(f"{self._client.server}: nodes and their pods cannot be read: {error}") from error
        all_changed = [self._compare(node) for node in nodes]
        if not any(changed.problems for changed in all_changed):
            for changed in track("changing nodes", all_changed):
                self._change(changed)
            if not self._request.dry_run:
                self._wait(all_changed)
        return all_changed

    def print_changes(self, all_changed: Sequence[ChangedNode], output: str) -> None:
        """Print the amounts of each node before and after the change, and the problems to stderr."""
        problems = [problem for changed in all_changed for problem in changed.problems]
        pairs = [(changed, change) for changed in all_changed for change in changed.changes]

        def print_text() -> None:
            titles = ("NODE", "RESOURCE", "WAS", "IS", "ALLOCATABLE", "USED", "STATE")
            click.echo("\n".join(columns.align_rows(titles, starmap(self._create_row, pairs))))
            for problem in problems:
                click.echo(f"tallygate: {columns.escape_control(problem)}", err=True)

        items, dry_run = starmap(self._convert, pairs), self._request.dry_run
        tables.print_list("AdvertisedResource", items, output, print_text, dryRun=dry_run, problems=problems)

    def _read_nodes(self) -> list[OwnedNode]:
        request = self._request
        if request.node:
            node = self._store.read_node(request.node)
            if node is None:
                raise UsageError(f"node {request.node} does not exist at {self._client.server}")
            return [node]
        nodes = sorted(self._store.list_nodes(request.selector), key=lambda node: node.name)
        if not nodes:
            raise UsageError(f"no node at {self._client.server} has the labels {request.selector}")
        return nodes

    def _compare(self, node: OwnedNode) -> ChangedNode:
        changes = compare_amounts(node, self._request.wanted, FIELD_MANAGER)
        refusals = [text for change in changes for text in list_refusals(node, change, self._usage, self._request)]
        return ChangedNode(node, changes, refusals)

    def _change(self, changed: ChangedNode) -> None:
        """Write the changes of a node; check again if the node was changed meanwhile, as by its kubelet."""
        current, name = changed, changed.node.name
        try:
            for _ in range(_MAX_ATTEMPTS):
                needed = [change for change in current.changes if change.is_needed]
                if not needed:
                    return
                if self._write(current.node, needed, changed):
                    return
                node = self._store.read_node(name)
                if node is None:
                    changed.problems.append(f"node {name} was deleted meanwhile")
                    break
                current = self._compare(node)
                if current.problems:
                    changed.problems += current.problems
                    break
            else:
                changed.problems.append(f"node {name} is changed by others all the time; run the command again")
        except ApiError as error:
            changed.problems.append(f"node {name} cannot be changed: {error}")
        changed.state = "failed"

    def _write(self, node: OwnedNode, needed: Sequence[AmountChange], changed: ChangedNode) -> bool:
        """Set amounts, then remove the others; return whether the node was still the one that was read."""
        dry_run = self._request.dry_run
        amounts = {change.name: change.wanted for change in needed if change.wanted is not None}
        removed = [change.name for change in needed if change.wanted is None]
        stored: OwnedNode | None = node
        if amounts:
            stored = self._store.apply(node, amounts, dry_run=dry_run)
            changed.take_written(stored, amounts)
        if removed and stored is not None:
            stored = self._store.remove(stored, removed, dry_run=dry_run)
            changed.take_written(stored, removed)
        return stored is not None

    def _wait(self, all_changed: Sequence[ChangedNode]) -> None:
        """Wait until the changed nodes have the wanted amounts, allocatable too; a problem names each that has not."""
        deadline = time.monotonic() + self._request.timeout
        waiting = [changed for changed in all_changed if changed.state == "changed" and changed.list_missing()]
        for changed in track("waiting for nodes", waiting):
            try:
                while changed.list_missing() and time.monotonic() < deadline:
                    time.sleep(_POLL_SECONDS)
                    node = self._store.read_node(changed.node.name)
                    if node is None:
                        break
                    changed.update(node, self._request.wanted)
            except ApiError as error:
                changed.problems.append(f"node {changed.node.name} cannot be read again: {error}")
            missing = changed.list_missing()
            changed.problems += map(partial(_describe_missing, changed, timeout=self._request.timeout), missing)
            changed.state = "failed" if missing else "changed"

    def _create_row(self, changed: ChangedNode, change: AmountChange) -> tuple[str, ...]:
        dry_run = self._request.dry_run
        return (
            changed.node.name,
            change.name,
            change.capacity or _MISSING,
            changed.capacity[change.name] or _MISSING,
            changed.allocatable[change.name] or _MISSING,
            f"{self._usage.get_used(changed.node.name, change.name)}",
            f"{changed.state} (dry run)" if dry_run and changed.state == "changed" else changed.state,
        )

    def _convert(self, changed: ChangedNode, change: AmountChange) -> dict[str, Any]:
        return {
            "node": changed.node.name,
            "resource": change.name,
            "was": {"capacity": change.capacity, "allocatable": change.allocatable},
            "is": {"capacity": changed.capacity[change.name], "allocatable": changed.allocatable[change.name]},
            "used": self._usage.get_used(changed.node.name, change.name),
            "state": changed.state,
        }


def list_refusals(node: OwnedNode, change: AmountChange, usage: NodeUsage, request: ChangeRequest) -> Iterator[str]:
    """Yield the reasons for which a change is not made: device plugins, other field managers, pods."""
    subject = f"node {node.name}: {change.name}"
    if change.is_published_by_plugin and (change.wanted is None or not is_amount(change.capacity, change.wanted)):
        yield (
            f"{subject}: a device plugin publishes {change.capacity} of it, and its kubelet would overwrite any other "
            "amount at its next sync: configure the plugin"
        )
    elif change.others and not request.force_conflicts:
        named = ", ".join(f'"{other}"' for other in sorted(change.others))
        yield (
            f"{subject}: the amount {change.capacity or change.allocatable} is managed by {named}: change it there, or "
            "take it over with --force-conflicts"
        )
    used, wanted = usage.get_used(node.name, change.name), change.wanted or 0
    if used > wanted and not request.below_use:
        pods = usage.list_pods(node.name, change.name)
        rest = f" and {len(pods) - _MAX_PODS} more" if len(pods) > _MAX_PODS else ""
        yield (
            f"{subject}: its pods use {used}, and {wanted} would be left: "
            f"{', '.join(map(str, pods[:_MAX_PODS]))}{rest}. Wait until they end, or use --below-use: they go on, but "
            "a kubelet that restarts may end them"
        )


def _describe_missing(changed: ChangedNode, change: AmountChange, *, timeout: int) -> str:
    name, wanted = change.name, change.wanted
    stored = changed.allocatable[name]
    managers = ", ".join(f'"{manager}"' for manager in sorted(changed.managers[name] - {FIELD_MANAGER}))
    writer = f", as {managers} wrote it" if managers else ""
    return (
        f"node {changed.node.name}: {name} is {stored or 'not'} allocatable{writer}, not "
        f"{'withdrawn' if wanted is None else wanted}, after {timeout} s: `kubectl describe node "
        f"{changed.node.name}` shows whether its kubelet runs"
    )
