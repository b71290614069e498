"""Who holds most under a cap: whom to ask, or what to end, where there is no room.

Under a cap of one namespace that is a workload, or a pod that belongs to none; under a shared one a namespace.
"""

import re
from collections.abc import Callable, Iterable
from heapq import nlargest, nsmallest
from itertools import groupby
from typing import NamedTuple
from weakref import WeakKeyDictionary

from webhook.accounting.amounts import format_amount
from webhook.objects.core import Pod
from webhook.state.ledger import Ledger
from webhook.state.watch.shapes import Shape
from webhook.state.watch.view import Heap

MAX_CONSUMERS = 3
"""How many are named."""

_TEMPLATE_HASH_LABEL = (
    "pod-template-hash"  # the Deployment controller ends its ReplicaSets' names with it, and labels their pods
)
_OWNER_PATTERN = re.compile(
    r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}"
)  # the API server takes anything for an owner's kind and name

PodNameLister = Callable[[Heap, int], list[str]]
"""The names of so many pods of a heap."""


class Consumer(NamedTuple):
    """Who holds how much of one name: `going` of it with pods that are being deleted, `promised` to pods to come."""

    name: str
    amount: int
    terminating: int = 0
    reserved: int = 0


class PodOwners:
    """Whose pods those of a shape are, found once for each shape."""

    def __init__(self) -> None:
        self._owners: WeakKeyDictionary[Shape, str] = WeakKeyDictionary()

    def find_owner(self, group: Shape) -> str:
        """The workload, such as `Deployment trainer`; empty for pods of nobody."""
        try:
            return self._owners[group]
        except KeyError:
            owner = self._owners[group] = _find_owner(group.pod())
            return owner


class ConsumerSums:
    """What everybody holds, added up by name and holder."""

    def __init__(self) -> None:
        self._by_resource: dict[str, dict[str, list[int]]] = {}

    def list_top(self, name: str) -> tuple[Consumer, ...]:
        """Those who hold most of a name, the first of them most; by their own names where they hold as much."""
        top = nsmallest(MAX_CONSUMERS, self._by_resource.get(name, {}).items(), key=lambda each: (-each[1][0], each[0]))
        return tuple(Consumer(consumer, *parts) for consumer, parts in top)

    def add(self, name: str, consumer: str, amount: int, *, terminating: int = 0, reserved: int = 0) -> None:
        """One more part of what somebody holds."""
        consumers = self._by_resource.setdefault(name, {})
        parts = consumers.get(consumer)
        if parts is None:
            consumers[consumer] = [amount, terminating, reserved]
        else:
            parts[0] += amount
            parts[1] += terminating
            parts[2] += reserved

    def add_group(self, consumer: str, group: Heap) -> None:
        """All that the pods of a heap hold."""
        for name, per_pod in group.each.items():
            amount = per_pod * group.pods
            self.add(name, consumer, amount, terminating=amount if group.is_terminating else 0)


def sum_by_namespace(groups: Iterable[Heap], ledger: Ledger) -> ConsumerSums:
    """What each namespace holds of a shared cap, and is promised."""
    sums = ConsumerSums()
    for namespace, namespace_groups in groupby(groups, key=lambda heap: heap.namespace):
        consumer = f"namespace {namespace}"
        for group in namespace_groups:
            sums.add_group(consumer, group)
    for namespace, reserved in ledger.reserved_by_namespace.items():
        for name, amount in reserved.items():
            sums.add(name, f"namespace {namespace}", amount, reserved=amount)
    return sums


def sum_by_workload(
    groups: Iterable[Heap], ledger: Ledger, owners: PodOwners, list_names: PodNameLister
) -> ConsumerSums:
    """What each workload of a namespace holds, each pod that is nobody's, and each that is promised room."""
    sums, unowned = ConsumerSums(), list[Heap]()
    for group in groups:
        if owner := owners.find_owner(group.shape):
            sums.add_group(owner, group)
        else:
            unowned.append(group)
    for name in {name for heap in unowned for name in heap.each}:
        _add_unowned(sums, name, unowned, list_names)
    for reservation in ledger.reservations.values():
        for name, amount in reservation.compute_reserved().items():
            sums.add(name, f"Pod {reservation.name}", amount, reserved=amount)
    return sums


def describe_consumers(name: str, consumers: Iterable[Consumer]) -> str:
    """Holders in words: `Deployment trainer (4), Pod notebook (2, terminating)`."""
    return ", ".join(
        f"{consumer.name} ({format_amount(name, consumer.amount)}{_describe_parts(name, consumer)})"
        for consumer in consumers
    )


def _add_unowned(sums: ConsumerSums, name: str, groups: list[Heap], list_names: PodNameLister) -> None:
    """Some pods that hold most of a name: of others, none can be among those who are named."""
    for group in nlargest(MAX_CONSUMERS, groups, key=lambda heap: heap.each.get(name, 0)):
        amount = group.each.get(name, 0)
        for pod in list_names(group, MAX_CONSUMERS) if amount else ():
            sums.add(name, f"Pod {pod}", amount, terminating=amount if group.is_terminating else 0)


def _describe_parts(name: str, consumer: Consumer) -> str:
    parts = (("terminating", consumer.terminating), ("promised", consumer.reserved))
    marks = (word if part == consumer.amount else f"{format_amount(name, part)} {word}" for word, part in parts if part)
    return "".join(f", {mark}" for mark in marks)


def _find_owner(pod: Pod) -> str:
    meta = pod.metadata
    for owner in (meta.owner_references if meta else None) or ():
        kind, name = owner.kind or "", owner.name or ""
        labels = (meta.labels if meta else None) or {}
        suffix = f"-{labels.get(_TEMPLATE_HASH_LABEL)}"
        if kind == "ReplicaSet" and name.endswith(suffix):
            kind, name = "Deployment", name.removesuffix(suffix)
        if _OWNER_PATTERN.fullmatch(kind) and _OWNER_PATTERN.fullmatch(name):
            return f"{kind} {name}"
    return ""
