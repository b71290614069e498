"""Top consumers of an exceeded cap, and the time until unused reservations expire, for the message of a rejection.

Under a cap of one namespace a consumer is a workload, a pod without an owner, or a claim for devices; under a shared
cap it is a namespace. A claim that kube-scheduler made for a pod is named as its pod.

The sums need every pod under the ledger, so they are cached for ten times as long as their computation took. A full cap
of a hundred thousand pods is summed about once a second, a small one at each rejection.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from itertools import groupby
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.charge import ConsumerKind
from tallygate.gate.charge_transitions import CapChargeResult
from tallygate.gate.counted_claims import CountedClaim
from tallygate.gate.ledger_reconciler import IN_FLIGHT_BOUND_SECONDS
from tallygate.gate.usage_lister import UsageLister, get_ledger_key
from tallygate.objects.core import Pod
from tallygate.state.informers.consumer_store import GroupUsage, NotSyncedError
from tallygate.state.informers.pod_records import ChargeGroup
from tallygate.state.ledger.expire import GANG_BOUND_SECONDS, ReservationAges
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

MAX_CONSUMERS = 3
"""Maximum number of consumers in a message."""

_CACHE_FACTOR = 10.0  # the cache time by the computation time
_MAX_CACHED_LEDGERS = 1000
_EVERYTHING = 2**63
_RECONCILE_SECONDS = 3.0  # after the bound a reservation expires by one write and one read, in two reconciliations
_ROUNDING_SECONDS = 5  # the message rounds up to it: an exact figure would be a new text at each retry of a controller
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
            kind = reservation.workload_kind.rpartition("/")[2] or _KIND_NAMES[reservation.kind]
            sums.add(name, f"{kind} {reservation.name}", amount, reserved=amount)
    return sums


_KIND_NAMES = {ConsumerKind.POD: "Pod", ConsumerKind.CLAIM: "ResourceClaim"}


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


@dataclass(frozen=True, slots=True)
class ExcessDetails:
    """The top consumers of an exceeded resource, and the seconds until all unused reservations have expired.

    `name_exists` is True if it is a pod that is created next to a counted one of its name.
    """

    consumers: tuple[Consumer, ...] = ()
    expires_within: int | None = None
    name_exists: bool = False


@dataclass(frozen=True, slots=True)
class _CachedSums:
    """The sums of one ledger, and the time until which they are used."""

    sums: ConsumerSums
    expires_at: float


class TopConsumers:
    """A finder of top consumers, for any thread; while one thread computes the sums again, others use the cached ones.

    `usage_lister` shows the stored pods, where they are watched: otherwise only reservations are known, and those never
    expire. The ledger reconciler fills `ages`. `in_flight_bound` is B in seconds. Under `lock` the first sums of a
    ledger are computed once, and all threads that need them wait; without it each of them computes them.
    """

    def __init__(
        self,
        monotonic: Callable[[], float],
        usage_lister: UsageLister | None,
        in_flight_bound: float = IN_FLIGHT_BOUND_SECONDS,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._monotonic = monotonic
        self._usage_lister = usage_lister
        self._in_flight_bound = in_flight_bound
        self._owners = PodOwners()
        self._cache: dict[LedgerKey, _CachedSums] = {}
        self._in_progress: set[LedgerKey] = set()
        self._lock = lock or nullcontext()
        self.ages: dict[LedgerKey, ReservationAges] = {}

    def describe(
        self, namespace: str, result: CapChargeResult, name: str, *, allocated_claim: str = "", created_pod: str = ""
    ) -> ExcessDetails:
        """Return the top consumers of an exceeded resource and the time until unused reservations expire.

        `allocated_claim` is the name of the claim whose allocation is rejected: only others are consumers.
        `created_pod` is the name of the pod whose creation is rejected.
        """
        definition, key = result.charge.cap.definition, get_ledger_key(result.charge.cap, namespace)
        own = None
        if allocated_claim and definition.shared:
            own = Consumer(f"namespace {namespace}", result.charge.current.get(name, 0))
        elif allocated_claim:
            own = Consumer(f"{_KIND_NAMES[ConsumerKind.CLAIM]} {allocated_claim}", _EVERYTHING)
        consumers = self._get_sums(key, result).list_top(name, own) if definition.shows_top_consumers else ()
        if self._usage_lister is None:
            return ExcessDetails(consumers)
        exists = bool(created_pod) and self._usage_lister.has_running_pod(namespace, created_pod)
        return ExcessDetails(consumers, self._estimate_expiry(key, result.before, name), exists)

    def _get_sums(self, key: LedgerKey, result: CapChargeResult) -> ConsumerSums:
        if (cached := self._cache.get(key)) is None:
            with self._lock:
                return ready.sums if (ready := self._cache.get(key)) is not None else self._compute_sums(key, result)
        if self._monotonic() < cached.expires_at or key in self._in_progress:
            return cached.sums
        return self._compute_sums(key, result)

    def _compute_sums(self, key: LedgerKey, result: CapChargeResult) -> ConsumerSums:
        started_at = self._monotonic()
        self._in_progress.add(key)
        try:
            sums = self._sum_usage(key, result)
        finally:
            self._in_progress.discard(key)
        ended_at = self._monotonic()
        if len(self._cache) >= _MAX_CACHED_LEDGERS:
            self._cache.clear()
        self._cache[key] = _CachedSums(sums, ended_at + _CACHE_FACTOR * (ended_at - started_at))
        return sums

    def _sum_usage(self, key: LedgerKey, result: CapChargeResult) -> ConsumerSums:
        cap, usage_lister = result.charge.cap, self._usage_lister
        groups = () if usage_lister is None else usage_lister.list_groups(cap, key)
        list_names = _list_no_names if usage_lister is None else usage_lister.list_pod_names
        try:
            claims = () if usage_lister is None else usage_lister.list_claims(cap, key, result.before)
            if cap.definition.shared:
                return sum_by_namespace(groups, result.before, claims)
            return sum_by_workload(groups, result.before, self._owners, list_names, claims)
        except NotSyncedError:
            return ConsumerSums()

    def _estimate_expiry(self, key: LedgerKey, ledger: Ledger, name: str) -> int | None:
        """Return the seconds until the last of these reservations expires, by the ages known to this process."""
        now, ages = self._monotonic(), self.ages.get(key)
        by_attempt = ages.by_attempt if ages else {}
        ends = [
            (by_attempt[uid, reservation.attempt].first_seen if (uid, reservation.attempt) in by_attempt else now)
            + self._in_flight_bound
            + (GANG_BOUND_SECONDS if reservation.kind is ConsumerKind.WORKLOAD else 0.0)
            for uid, reservation in ledger.reservations.items()
            if reservation.requested.get(name, 0) > reservation.counted.get(name, 0)
        ]
        if not ends:
            return None
        remaining = max(max(ends) - now, 0.0) + _RECONCILE_SECONDS
        return math.ceil(remaining / _ROUNDING_SECONDS) * _ROUNDING_SECONDS


def _list_no_names(group: GroupUsage, max_names: int) -> list[str]:  # noqa: ARG001  # the names of a heap's pods, where none are known
    return []
