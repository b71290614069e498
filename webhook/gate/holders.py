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

MOST = 3
"""How many are named."""

_TEMPLATE = "pod-template-hash"  # the Deployment controller ends its ReplicaSets' names with it, and labels their pods
_OWNER = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}")  # the API server takes anything for an owner's kind and name

Named = Callable[[Heap, int], list[str]]
"""The names of so many pods of a heap."""


class Holder(NamedTuple):
    """Who holds how much of one name: `going` of it with pods that are being deleted, `promised` to pods to come."""

    who: str
    amount: int
    going: int = 0
    promised: int = 0


class Owners:
    """Whose pods those of a shape are, found once for each shape."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Shape, str] = WeakKeyDictionary()

    def of(self, shape: Shape) -> str:
        """The workload, such as `Deployment trainer`; empty for pods of nobody."""
        try:
            return self._known[shape]
        except KeyError:
            owner = self._known[shape] = _owner(shape.pod())
            return owner


class Sums:
    """What everybody holds, added up by name and holder."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, list[int]]] = {}

    def most(self, name: str) -> tuple[Holder, ...]:
        """Those who hold most of a name, the first of them most; by their own names where they hold as much."""
        held = nsmallest(MOST, self._of.get(name, {}).items(), key=lambda each: (-each[1][0], each[0]))
        return tuple(Holder(who, *parts) for who, parts in held)

    def add(self, name: str, who: str, amount: int, *, going: int = 0, promised: int = 0) -> None:
        """One more part of what somebody holds."""
        holders = self._of.setdefault(name, {})
        parts = holders.get(who)
        if parts is None:
            holders[who] = [amount, going, promised]
        else:
            parts[0] += amount
            parts[1] += going
            parts[2] += promised

    def add_heap(self, who: str, heap: Heap) -> None:
        """All that the pods of a heap hold."""
        for name, each in heap.each.items():
            amount = each * heap.pods
            self.add(name, who, amount, going=amount if heap.is_terminating else 0)


def by_namespace(heaps: Iterable[Heap], ledger: Ledger) -> Sums:
    """What each namespace holds of a shared cap, and is promised."""
    sums = Sums()
    for namespace, there in groupby(heaps, key=lambda heap: heap.namespace):
        who = f"namespace {namespace}"
        for heap in there:
            sums.add_heap(who, heap)
    for namespace, promised in ledger.promised_in.items():
        for name, amount in promised.items():
            sums.add(name, f"namespace {namespace}", amount, promised=amount)
    return sums


def by_workload(heaps: Iterable[Heap], ledger: Ledger, owners: Owners, named: Named) -> Sums:
    """What each workload of a namespace holds, each pod that is nobody's, and each that is promised room."""
    sums, single = Sums(), list[Heap]()
    for heap in heaps:
        if owner := owners.of(heap.shape):
            sums.add_heap(owner, heap)
        else:
            single.append(heap)
    for name in {name for heap in single for name in heap.each}:
        _add_single(sums, name, single, named)
    for row in ledger.rows.values():
        for name, amount in row.promised().items():
            sums.add(name, f"Pod {row.name}", amount, promised=amount)
    return sums


def said(name: str, holders: Iterable[Holder]) -> str:
    """Holders in words: `Deployment trainer (4), Pod notebook (2, terminating)`."""
    return ", ".join(f"{holder.who} ({format_amount(name, holder.amount)}{_marks(name, holder)})" for holder in holders)


def _add_single(sums: Sums, name: str, heaps: list[Heap], named: Named) -> None:
    """Some pods that hold most of a name: of others, none can be among those who are named."""
    for heap in nlargest(MOST, heaps, key=lambda heap: heap.each.get(name, 0)):
        amount = heap.each.get(name, 0)
        for pod in named(heap, MOST) if amount else ():
            sums.add(name, f"Pod {pod}", amount, going=amount if heap.is_terminating else 0)


def _marks(name: str, holder: Holder) -> str:
    parts = (("terminating", holder.going), ("promised", holder.promised))
    marks = (word if part == holder.amount else f"{format_amount(name, part)} {word}" for word, part in parts if part)
    return "".join(f", {mark}" for mark in marks)


def _owner(pod: Pod) -> str:
    meta = pod.metadata
    for owner in (meta.owner_references if meta else None) or ():
        kind, name = owner.kind or "", owner.name or ""
        template = (meta.labels if meta else None) or {}
        made = f"-{template.get(_TEMPLATE)}"
        if kind == "ReplicaSet" and name.endswith(made):
            kind, name = "Deployment", name.removesuffix(made)
        if _OWNER.fullmatch(kind) and _OWNER.fullmatch(name):
            return f"{kind} {name}"
    return ""
