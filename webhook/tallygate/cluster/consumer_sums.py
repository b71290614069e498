"""Top consumers of a cap: the amounts that it is charged, summed by consumer.

Under a cap of one namespace a consumer is a workload, a pod without an owner, or a claim for devices; under a shared
cap it is a namespace. A claim that kube-scheduler made for a pod is named as its pod.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from heapq import nlargest, nsmallest
from itertools import groupby
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.cluster.counted_claims import CountedClaim
from tallygate.objects.core import Pod
from tallygate.state.informers.consumer_store import GroupUsage
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.ledger.ledger import Ledger

MAX_CONSUMERS = 3
"""Maximum number of consumers in a message."""

KIND_NAMES = {ConsumerKind.POD: "Pod", ConsumerKind.CLAIM: "ResourceClaim"}

_TEMPLATE_HASH_LABEL = (
    "pod-template-hash"  # the Deployment controller appends it to its ReplicaSets' names, and labels their pods with it
)
_OWNER_PATTERN = re.compile(
    r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}"
)  # the API server accepts any text as an owner's kind and name

PodNameLister = Callable[[GroupUsage, int], list[str]]
"""Returns the names of at most a number of pods of a group."""


class Consumer(NamedTuple):
    """The amount of one resource that one consumer is charged.

    `terminating` is the part of pods and claims that are being deleted, `reserved` the part of reservations.
    """

    name: str
    amount: int
    terminating: int = 0
    reserved: int = 0


class PodOwners:
    """The owners of pods, computed once for each group."""

    def __init__(self) -> None:
        self._owners: WeakKeyDictionary[ChargeGroup, str] = WeakKeyDictionary()

    def find_owner(self, group: ChargeGroup) -> str:
        """Return the workload, such as `Deployment trainer`; empty for pods without an owner."""
        try:
            return self._owners[group]
        except KeyError:
            owner = self._owners[group] = _find_owner(group.to_pod())
            return owner


class ConsumerSums:
    """The charged amounts by resource and consumer."""

    def __init__(self) -> None:
        self._by_resource: dict[str, dict[str, list[int]]] = {}

    def list_top(self, name: str, own: Consumer | None = None) -> tuple[Consumer, ...]:
        """Return the top consumers of a resource, the largest first; equal ones in the order of their names.

        The amount of `own`, which is about to be allocated, is left out.
        """
        consumers = self._by_resource.get(name, {})
        if own is not None and own.name in consumers:
            amount, *parts = consumers[own.name]
            rest = amount - own.amount
            others = {each: parts for each, parts in consumers.items() if each != own.name}
            consumers = {**others, own.name: [rest, *(min(part, rest) for part in parts)]} if rest > 0 else others
        top = nsmallest(MAX_CONSUMERS, consumers.items(), key=lambda each: (-each[1][0], each[0]))
        return tuple(Consumer(consumer, *parts) for consumer, parts in top)

    def add(self, name: str, consumer: str, amount: int, *, terminating: int = 0, reserved: int = 0) -> None:
        """Add an amount to the sum of a consumer."""
        consumers = self._by_resource.setdefault(name, {})
        parts = consumers.get(consumer)
        if parts is None:
            consumers[consumer] = [amount, terminating, reserved]
        else:
            parts[0] += amount
            parts[1] += terminating
            parts[2] += reserved

    def add_group(self, consumer: str, group: GroupUsage) -> None:
        """Add the used amounts of all pods in a group."""
        for name, per_pod in group.used_per_pod.items():
            amount = per_pod * group.pod_count
            self.add(name, consumer, amount, terminating=amount if group.is_terminating else 0)

    def add_claim(self, consumer: str, claim: CountedClaim) -> None:
        """Add the amounts of a claim that count besides its pod."""
        for name, amount in claim.counted.items():
            self.add(name, consumer, amount, terminating=amount if claim.claim.is_terminating else 0)


def sum_by_namespace(groups: Iterable[GroupUsage], ledger: Ledger, claims: Iterable[CountedClaim] = ()) -> ConsumerSums:
    """Return the used and reserved amounts of each namespace under a shared cap."""
    sums = ConsumerSums()
    for namespace, namespace_groups in groupby(groups, key=lambda heap: heap.namespace):
        consumer = f"namespace {namespace}"
        for group in namespace_groups:
            sums.add_group(consumer, group)
    for claim in claims:
        sums.add_claim(f"namespace {claim.claim.namespace}", claim)
    for namespace, reserved in ledger.reserved_by_namespace.items():
        for name, amount in reserved.items():
            sums.add(name, f"namespace {namespace}", amount, reserved=amount)
    return sums


def sum_by_workload(
    groups: Iterable[GroupUsage],
    ledger: Ledger,
    owners: PodOwners,
    list_names: PodNameLister,
    claims: Sequence[CountedClaim] = (),
) -> ConsumerSums:
    """Return the amounts of each workload, of each pod without an owner, of each claim, and of each reservation."""
    sums, unowned = ConsumerSums(), list[GroupUsage]()
    for group in groups:
        if owner := owners.find_owner(group.group):
            sums.add_group(owner, group)
        else:
            unowned.append(group)
    for name in {name for heap in unowned for name in heap.used_per_pod}:
        _add_unowned(sums, name, unowned, list_names)
    _add_claims(sums, claims, owners)
    for uid, reserved in ledger.list_reserved():
        reservation = ledger.reservations[uid]
        for name, amount in reserved.items():
            kind = reservation.workload_kind.rpartition("/")[2] or KIND_NAMES[reservation.kind]
            sums.add(name, f"{kind} {reservation.name}", amount, reserved=amount)
    return sums


def _add_claims(sums: ConsumerSums, claims: Sequence[CountedClaim], owners: PodOwners) -> None:
    """Add the claims of pods, and the largest others: no other claim can be a top consumer, next to one left out."""
    others: list[CountedClaim] = []
    for claim in claims:
        if claim.pod is None:
            others.append(claim)
        else:
            sums.add_claim(owners.find_owner(claim.pod.group) or f"Pod {claim.pod.name}", claim)
    for name in {name for other in others for name in other.counted}:
        for other_claim in nsmallest(
            MAX_CONSUMERS + 1, others, key=lambda each: (-each.counted.get(name, 0), each.claim.name)
        ):
            amount = other_claim.counted.get(name, 0)
            sums.add(
                name,
                f"ResourceClaim {other_claim.claim.name}",
                amount,
                terminating=amount if other_claim.claim.is_terminating else 0,
            )


def describe_consumers(name: str, consumers: Iterable[Consumer]) -> str:
    """Return the consumers as text: `Deployment trainer (4), Pod notebook (2, terminating)`."""
    return ", ".join(
        f"{consumer.name} ({format_amount(name, consumer.amount)}{_describe_parts(name, consumer)})"
        for consumer in consumers
    )


def _add_unowned(sums: ConsumerSums, name: str, groups: list[GroupUsage], list_names: PodNameLister) -> None:
    """Add the largest pods without an owner: no other such pod can be a top consumer."""
    for group in nlargest(MAX_CONSUMERS, groups, key=lambda heap: heap.used_per_pod.get(name, 0)):
        amount = group.used_per_pod.get(name, 0)
        for pod in list_names(group, MAX_CONSUMERS) if amount else ():
            sums.add(name, f"Pod {pod}", amount, terminating=amount if group.is_terminating else 0)


def _describe_parts(name: str, consumer: Consumer) -> str:
    parts = (("terminating", consumer.terminating), ("reserved", consumer.reserved))
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
