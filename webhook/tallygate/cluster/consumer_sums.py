"""Top consumers of a cap: the amounts that it is charged, summed by consumer.

Under a cap of one namespace a consumer is a workload, a pod without an owner, or a claim for devices; under a shared
cap it is a namespace. A claim that kube-scheduler made for a pod is named as its pod.
"""

import re
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tallygate.accounting.amounts import Amounts, format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.admission.cap_index import ActiveCap
from tallygate.cluster.consumers import ConsumerAmounts, ConsumerState, CountedClaim
from tallygate.objects.core import Pod
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.informers.usage_sums import GroupUsage
from tallygate.state.ledger.ledger import Reservation

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
            owner = self._owners[group] = find_owner(group.to_pod())
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

    def add(self, name: str, consumer: ConsumerAmounts) -> None:
        """Add the amounts of a consumer to the sums of the one that is named."""
        for resource, per_consumer in consumer.amounts.items():
            amount = per_consumer * consumer.number
            parts = self._by_resource.setdefault(resource, {}).setdefault(name, [0, 0, 0])
            parts[0] += amount
            if consumer.state is ConsumerState.TERMINATING:
                parts[1] += amount
            elif consumer.state is ConsumerState.RESERVED:
                parts[2] += amount


def sum_consumers(
    cap: ActiveCap, consumers: Iterable[ConsumerAmounts], owners: PodOwners, list_names: PodNameLister
) -> ConsumerSums:
    """Return the amounts of each namespace under a shared cap, else of each workload and of what belongs to none.

    Of pods without an owner and claims without a pod, only the largest are there: no other one can be a top consumer,
    next to one left out.
    """
    sums, others = ConsumerSums(), list[ConsumerAmounts]()
    for consumer in consumers:
        if cap.definition.shared:
            sums.add(f"namespace {consumer.namespace}", consumer)
        elif name := _find_name(consumer, owners):
            sums.add(name, consumer)
        else:
            others.append(consumer)
    for resource in {resource for consumer in others for resource in consumer.amounts}:
        largest = nsmallest(MAX_CONSUMERS + 1, others, key=lambda each: (-each.amounts.get(resource, 0), each.name))
        for consumer in largest:
            amounts = Amounts({resource: consumer.amounts.get(resource, 0)})
            for name in _list_own_names(consumer, list_names) if amounts[resource] else ():
                sums.add(name, consumer._replace(amounts=amounts, number=1))
    return sums


def _find_name(consumer: ConsumerAmounts, owners: PodOwners) -> str:
    """Return the name of a workload, of a pod with a claim, or of a reservation; empty for all others."""
    match consumer.origin:
        case GroupUsage() as pods:
            return owners.find_owner(pods.group)
        case CountedClaim(pod=pod) if pod is not None:
            return owners.find_owner(pod.group) or f"Pod {pod.name}"
        case Reservation(workload_kind=kind):
            return f"{kind.rpartition('/')[2] or KIND_NAMES[consumer.kind]} {consumer.name}"
        case _:
            return ""


def _list_own_names(consumer: ConsumerAmounts, list_names: PodNameLister) -> list[str]:
    names = [consumer.name]
    if isinstance(consumer.origin, GroupUsage):
        names = list_names(consumer.origin, MAX_CONSUMERS)
    return [f"{KIND_NAMES[consumer.kind]} {name}" for name in names]


def describe_consumers(name: str, consumers: Iterable[Consumer]) -> str:
    """Return the consumers as text: `Deployment trainer (4), Pod notebook (2, terminating)`."""
    return ", ".join(
        f"{consumer.name} ({format_amount(name, consumer.amount)}{_describe_parts(name, consumer)})"
        for consumer in consumers
    )


def _describe_parts(name: str, consumer: Consumer) -> str:
    parts = (("terminating", consumer.terminating), ("reserved", consumer.reserved))
    marks = (word if part == consumer.amount else f"{format_amount(name, part)} {word}" for word, part in parts if part)
    return "".join(f", {mark}" for mark in marks)


def find_owner(pod: Pod) -> str:
    """Return the workload of a pod by its owner references, such as `Deployment trainer`; empty without an owner."""
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
