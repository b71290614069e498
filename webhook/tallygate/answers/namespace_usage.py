"""The usage of one namespace: its caps and quotas, what has their amounts, what one may still start, and what waits.

The lines of caps are those of `tallygate usage` (`usage_report`), and the reasons of waiting pods those of `tallygate
predict` (`waiting_pods`). Names are there as far as an asker may see them: what is hidden is counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from heapq import nsmallest
from typing import Final, NamedTuple

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.answers.startable_pods import PartTimes, StartableShape, list_startable
from tallygate.answers.usage_report import (
    ChosenLedger,
    LedgerChoice,
    LedgerUsage,
    UsageLine,
    UsageReport,
    compute_usage_of_caps,
)
from tallygate.answers.waiting_pods import WaitingPods, list_waiting
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumer_sums import PodOwners
from tallygate.cluster.consumers import ConsumerAmounts, ConsumerState
from tallygate.cluster.refusal_events import NOTHING_REPORTED, ReportedRefusals
from tallygate.policy.model import PolicySet
from tallygate.review.quota_forecast import is_compiled, read_limits
from tallygate.state.informers.consumer_columns import StoredConsumer

MAX_HOLDERS: Final = 200
"""The holders of one ledger that have names; the largest come first, the others are counted."""

_NOTHING: Final = Fraction(0)
_UNCOUNTED: Final = frozenset({ConsumerState.ENDED, ConsumerState.INVALID})


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageContext:
    """The inputs of an answer about the usage of a namespace.

    Args:
        policies: the policies that decide.
        state: the cluster, with columns; nothing else may use it before the answer is complete.
        namespace: the namespace, which exists.
        now: the time by which overrides of limits end.
        shows: whether the asker may list pods in a namespace; in all of them, for an empty name.
        reported: what is reported about pods that are not stored.
        check_time: a function that is called between the parts, and raises once the answer is too late.
        start_part: a function that is called at the begin of a part that may take long; it returns one that says
            whether that part may go on. What is left out then is named in the answer.
    """

    policies: PolicySet
    state: ClusterState
    namespace: str
    now: datetime
    shows: Callable[[str], bool]
    reported: ReportedRefusals = NOTHING_REPORTED
    check_time: Callable[[], None] = lambda: None
    start_part: Callable[[], Callable[[], bool]] = lambda: lambda: True


class Holder(NamedTuple):
    """A pod, a claim for devices or a reserving workload of the namespace, and its amounts under a ledger.

    `workload` is the workload of a pod, as in `Deployment trainer`; empty without one.
    """

    consumer: ConsumerAmounts
    workload: str = ""


@dataclass(frozen=True, slots=True)
class LedgerHolders:
    """The holders of one ledger in the namespace, the largest first; `more` is the number of further ones.

    `others` are the amounts that the other member namespaces use or have reserved. `by_namespace` has what each of
    these uses, the largest first; None if the asker may not list all pods.
    """

    chosen: ChosenLedger
    holders: tuple[Holder, ...]
    more: int
    others: Amounts
    by_namespace: tuple[tuple[str, Amounts], ...] | None = None


class QuotaLine(NamedTuple):
    """One key of a ResourceQuota whose used amount is computed already."""

    quota: str
    name: str
    hard: int
    used: int

    @property
    def free(self) -> int:
        """The free amount."""
        return max(0, self.hard - self.used)


@dataclass(frozen=True, slots=True)
class NamespaceUsage:
    """The usage of one namespace.

    `report` has a line for each resource of each cap that counts the namespace. `quotas` are None while those of the
    cluster are not known. `holders`, `startable` and `waiting` are None for an asker who may not list the pods of the
    namespace; the last two also if the state keeps no templates of pods. `reported` is from live reads. `revision` is
    the one up to which namespaces, pods and nodes are known.
    """

    namespace: str
    report: UsageReport
    quotas: tuple[QuotaLine, ...] | None
    holders: tuple[LedgerHolders, ...] | None = None
    startable: tuple[StartableShape, ...] | None = None
    waiting: tuple[WaitingPods, ...] | None = None
    reported: ReportedRefusals = NOTHING_REPORTED
    revision: int | None = field(default=None, kw_only=True)


def answer_usage(context: UsageContext) -> NamespaceUsage:
    """Return the usage of a namespace, with the names that the asker may see; afterwards the state is as before.

    Raises:
        TallygateError: what `check_time` raises.
    """
    state, namespace = context.state, context.namespace
    caps = state.index_caps(context.policies, context.now)
    report, ledgers = compute_usage_of_caps(state, caps, LedgerChoice(namespace=namespace), context.shows)
    quotas = tuple(_list_quotas(state, namespace)) if state.knows(kinds.QUOTAS) else None
    revision = state.find_revision()
    if not context.shows(namespace):
        return NamespaceUsage(namespace, report, quotas, revision=revision)
    context.check_time()
    holders = tuple(_list_holders(context, ledgers))
    context.check_time()
    startable, waiting = _list_pods(context, ledgers)
    return NamespaceUsage(namespace, report, quotas, holders, startable, waiting, context.reported, revision=revision)


def _list_pods(
    context: UsageContext, ledgers: Sequence[LedgerUsage]
) -> tuple[tuple[StartableShape, ...] | None, tuple[WaitingPods, ...] | None]:
    """Return the shapes of the pods that run, and the pods that wait; None if the state keeps no templates."""
    if context.state.pod_templates is None:
        return None, None
    state, namespace = context.state, context.namespace
    times = PartTimes(context.check_time, context.start_part())
    startable = tuple(list_startable(state, namespace, ledgers, times))
    times = PartTimes(context.check_time, context.start_part())
    return startable, tuple(list_waiting(state, namespace, times))


def _list_quotas(state: ClusterState, namespace: str) -> Iterator[QuotaLine]:
    """Yield the keys of the quotas of a namespace, by name, without those that are compiled from caps."""
    quotas = [quota for quota in state.quotas.list_quotas(namespace) if not is_compiled(quota)]
    for quota in sorted(quotas, key=lambda quota: (quota.metadata.name if quota.metadata else None) or ""):
        try:
            hard, used = read_limits(quota)
        except QuantityError:
            continue  # no API server stores such a quota
        for name in sorted(hard):
            yield QuotaLine((quota.metadata.name if quota.metadata else None) or "", name, hard[name], used[name])


def _list_holders(context: UsageContext, ledgers: Iterable[LedgerUsage]) -> Iterator[LedgerHolders]:
    """Yield the holders of each ledger in the namespace, and what other namespaces have."""
    state, namespace, owners = context.state, context.namespace, PodOwners()
    for chosen, lines in ledgers:
        context.check_time()
        ledger = state.find_ledger(chosen.key)
        consumers = [
            consumer
            for consumer in state.list_consumers(chosen.active_cap, (namespace,), ledger, by_pod=True)
            if consumer.namespace == namespace and consumer.amounts and consumer.state not in _UNCOUNTED
        ]
        limits = {line.name: line.hard or 1 for line in lines}
        largest = nsmallest(MAX_HOLDERS, consumers, key=lambda each: (-_compute_share(each.amounts, limits), each.name))
        others = _sum_others(lines, consumers)
        by_namespace = None
        if chosen.active_cap.definition.shared and context.shows(""):
            by_namespace = tuple(_list_namespaces(context, chosen, limits))
        holders = tuple(Holder(each, _find_workload(each, owners)) for each in largest)
        yield LedgerHolders(chosen, holders, len(consumers) - len(holders), others, by_namespace)


def _compute_share(amounts: Amounts, limits: Mapping[str, int]) -> Fraction:
    """Return the largest share of a limit among these amounts; an amount without a limit is a share of 1."""
    return max((Fraction(amount, limits.get(name) or 1) for name, amount in amounts.items()), default=_NOTHING)


def _sum_others(lines: Iterable[UsageLine], consumers: Iterable[ConsumerAmounts]) -> Amounts:
    """Return what is charged besides these consumers, for each resource whose charged amount is known."""
    own = Counter[str]()
    for consumer in consumers:
        own.update(consumer.amounts)
    charged = {line.name: line.charged for line in lines if line.charged is not None}
    return Amounts({name: amount - own[name] for name, amount in charged.items() if amount > own[name]})


def _list_namespaces(
    context: UsageContext, chosen: ChosenLedger, limits: Mapping[str, int]
) -> list[tuple[str, Amounts]]:
    """Return what the pods and claims of each other member namespace use, the largest first."""
    names, ledger = chosen.members - {context.namespace}, context.state.find_ledger(chosen.key)
    used = context.state.count_usage_by_namespace(chosen.active_cap, names, ledger)
    shares = ((_compute_share(amounts, limits), name, amounts) for name, amounts in used.items() if amounts)
    largest = nsmallest(MAX_HOLDERS, shares, key=lambda each: (-each[0], each[1]))
    return [(name, amounts) for _, name, amounts in largest]


def _find_workload(consumer: ConsumerAmounts, owners: PodOwners) -> str:
    return owners.find_owner(consumer.origin.group) if isinstance(consumer.origin, StoredConsumer) else ""
