"""The run of a command over nodes: read and check all of them, then change one after the other, then wait."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tallygate.accounting.published_amounts import format_stored, is_amount
from tallygate.cli.advertise.change_table import ChangedNode
from tallygate.cli.advertise.node_changes import (
    FIELD_MANAGER,
    AmountChange,
    ChangeOptions,
    NodeChange,
    plan_change,
)
from tallygate.cli.framework import UsageError
from tallygate.cli.progress import track, track_size
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ApiClient
from tallygate.objects.owned_nodes import OwnedNode
from tallygate.state.kubernetes.node_status_store import KubernetesNodeStatusStore
from tallygate.state.kubernetes.node_usage import NodeUsage, list_pod_pages

_MAX_ATTEMPTS = 5
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """The amounts that a user wants on nodes, None for a resource to withdraw.

    `node` is the name of a node; if it is empty, `selector` selects nodes by labels. `timeout` is in seconds.
    """

    node: str
    selector: str
    wanted: Mapping[str, int | None]
    options: ChangeOptions
    timeout: int
    dry_run: bool = False


class ChangeRun:
    """The run of one request against one API server."""

    def __init__(self, client: ApiClient, request: ChangeRequest) -> None:
        self._client = client
        self._store = KubernetesNodeStatusStore(client, FIELD_MANAGER)
        self._request = request

    def run(self) -> list[ChangedNode]:
        """Change the nodes and return each with its result; if one is refused, none is changed.

        Raises:
            UsageError: if there is no such node, or it or its pods cannot be read.
        """
        try:
            nodes = self._read_nodes()
            usage = NodeUsage()
            pages = list_pod_pages(self._client, [node.name for node in nodes])
            for page in track_size("listing pods", pages, len):
                usage.add_page(page, self._request.wanted.keys())
        except ApiError as error:
            raise UsageError(f"{self._client.server}: nodes and their pods cannot be read: {error}") from error
        changed = [ChangedNode(self._plan(node, usage)) for node in nodes]
        if not any(each.problems for each in changed):
            for each in track("changing nodes", changed):
                self._change(each, usage)
            if not self._request.dry_run:
                self._wait(changed)
        return changed

    def _read_nodes(self) -> list[OwnedNode]:
        request = self._request
        if request.node:
            node = self._store.read_node(request.node)
            if node is None:
                raise UsageError(f"node {request.node} does not exist at {self._client.server}")
            return [node]
        nodes = sorted(self._store.list_nodes(request.selector), key=lambda each: each.name)
        if not nodes:
            raise UsageError(f"no node at {self._client.server} has the labels {request.selector}")
        return nodes

    def _plan(self, node: OwnedNode, usage: NodeUsage) -> NodeChange:
        return plan_change(node, self._request.wanted, usage, self._request.options)

    def _change(self, changed: ChangedNode, usage: NodeUsage) -> None:
        """Write the change of a node; check again if the node was changed meanwhile, as by its kubelet."""
        change, name = changed.change, changed.change.node.name
        try:
            for _ in range(_MAX_ATTEMPTS):
                if not change.needed:
                    return
                stored = self._write(change)
                if stored is not None:
                    changed.state = "changed"
                    _update(changed, stored)
                    return
                node = self._store.read_node(name)
                if node is None:
                    changed.problems.append(f"node {name} was deleted meanwhile")
                    break
                change = self._plan(node, usage)
                if change.refusals:
                    changed.problems += change.refusals
                    break
            else:
                changed.problems.append(f"node {name} is changed by others all the time; run the command again")
        except ApiError as error:
            changed.problems.append(f"node {name} cannot be changed: {error}")
        changed.state = "failed"

    def _write(self, change: NodeChange) -> OwnedNode | None:
        amounts = {each.name: each.wanted for each in change.needed if each.wanted is not None}
        if amounts:
            return self._store.apply(change.node, amounts, dry_run=self._request.dry_run)
        return self._store.remove(change.node, [each.name for each in change.needed], dry_run=self._request.dry_run)

    def _wait(self, all_changed: Sequence[ChangedNode]) -> None:
        """Wait until the changed nodes have the wanted amounts, allocatable too; a problem names each that has not."""
        deadline = time.monotonic() + self._request.timeout
        waiting = [node for node in all_changed if node.state == "changed" and _list_missing(node)]
        for changed in track("waiting for nodes", waiting):
            try:
                while _list_missing(changed) and time.monotonic() < deadline:
                    time.sleep(_POLL_SECONDS)
                    node = self._store.read_node(changed.change.node.name)
                    if node is None:
                        break
                    _update(changed, node)
            except ApiError as error:
                changed.problems.append(f"node {changed.change.node.name} cannot be read again: {error}")
            missing = _list_missing(changed)
            changed.problems += map(partial(_describe_missing, changed, timeout=self._request.timeout), missing)
            changed.state = "failed" if missing else "changed"


def _update(changed: ChangedNode, node: OwnedNode) -> None:
    for name in changed.capacity:
        changed.capacity[name] = format_stored(node.capacity, name)
        changed.allocatable[name] = format_stored(node.allocatable, name)
        changed.managers[name] = node.list_managers(name, allocatable=True)


def _list_missing(changed: ChangedNode) -> list[AmountChange]:
    """Return the amounts that are not allocatable as wanted."""
    return [
        amount
        for amount in changed.change.amounts
        if not (
            changed.allocatable[amount.name] is None
            if amount.wanted is None
            else is_amount(changed.allocatable[amount.name], amount.wanted)
        )
    ]


def _describe_missing(changed: ChangedNode, amount: AmountChange, *, timeout: int) -> str:
    name, wanted = amount.name, amount.wanted
    stored = changed.allocatable[name]
    managers = ", ".join(f'"{each}"' for each in sorted(changed.managers[name] - {FIELD_MANAGER}))
    writer = f", as {managers} wrote it" if managers else ""
    return (
        f"node {changed.change.node.name}: {name} is {stored or 'not'} allocatable{writer}, not "
        f"{'withdrawn' if wanted is None else wanted}, after {timeout} s: `kubectl describe node "
        f"{changed.change.node.name}` shows whether its kubelet runs"
    )
