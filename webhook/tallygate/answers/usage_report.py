"""The usage report: the choice of ledgers, and a line for each ledger and each resource that it counts.

Ledgers are chosen by cap, by namespace, or all. A line has the surge of its cap; the report names unhealthy devices.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import groupby
from typing import NamedTuple

from tallygate.accounting.amounts import format_amount
from tallygate.accounting.names import LIMITS_PREFIX, is_extended
from tallygate.accounting.node_fit import UnhealthyDevices, format_unhealthy
from tallygate.admission.cap_index import ActiveCap, CapIndex, find_key_value, get_cap_name
from tallygate.answers.exceeded_times import AmountHistory
from tallygate.cluster.cap_ledger_list import CapLedgerRecord
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.consumers import CountedClaim, CountedUsage, describe_uncertain
from tallygate.cluster.kinds import NODES
from tallygate.cluster.resource_usage import ResourceUsage, list_counted, list_resource_usages
from tallygate.cluster.usage_lister import get_ledger_key
from tallygate.errors import TallygateError
from tallygate.policy.cap_limits import NO_SELECTION
from tallygate.policy.guarantees import MAX_GUARANTEED, count_beyond_most
from tallygate.policy.limit_annotations import find_invalid
from tallygate.policy.model import NamespaceCap
from tallygate.policy.periods import format_period
from tallygate.review.cap_messages import describe_activation, find_most
from tallygate.state.ledger.guarantees import Guarantees
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey


class UsageChoiceError(TallygateError):
    """A cap or group that does not exist."""


ShowsNames = Callable[[str], bool]
"""A function that returns whether the names in a namespace are shown; those in all of them for an empty name."""


def show_all_names(_: str) -> bool:
    """Return that all names are shown."""
    return True


@dataclass(frozen=True, slots=True)
class SurgeUsage:
    """A surge of `amount` under one name: the time at which it began, None if it does not run, and that of its end.

    The end is unknown without policies.
    """

    amount: int
    since: datetime | None = None
    until: datetime | None = None

    def describe(self, name: str) -> str:
        """Return a surge that runs as text, else an empty text."""
        if self.since is None:
            return ""
        end = f", until {format_time(self.until)}" if self.until is not None else ""
        return f"surge {format_amount(name, self.amount)} since {format_time(self.since)}{end}"


@dataclass(frozen=True, slots=True)
class GuaranteedUsage:
    """The guarantees under one name: the sum of all, the part that is not spent yet, and the number of namespaces."""

    amount: int
    unspent: int
    namespaces: int

    def describe(self, name: str, hard: int | None) -> str:
        """Return the guarantees as text, and by how much they exceed the hard limit that they are parts of."""
        count = f"{self.namespaces} namespace{'s' * (self.namespaces != 1)}"
        above = 0 if hard is None else max(self.amount - hard, 0)
        excess = f", {format_amount(name, above)} above hard" if above else ""
        unspent = f", {format_amount(name, self.unspent)} of it unspent"
        return f"{format_amount(name, self.amount)} guaranteed to {count}{excess}{unspent}"


def find_guaranteed(guarantees: Guarantees, ledger: Ledger | None, name: str) -> GuaranteedUsage | None:
    """Return the guarantees of the members of a ledger under a name; None without any."""
    amounts = [amounts[name] for amounts in guarantees.amounts.values() if name in amounts]
    unspent = guarantees.compute_unspent({} if ledger is None else ledger.reserved_by_namespace)
    return GuaranteedUsage(sum(amounts), unspent.get(name, 0), len(amounts)) if amounts else None


def find_guarantees(cluster: ClusterState, chosen: "ChosenLedger", ledger: Ledger | None) -> Guarantees:
    """Return the guarantees in a ledger, or those of the policy if it has none yet."""
    if ledger is not None and ledger.guarantees.amounts:
        return ledger.guarantees
    amounts = chosen.active_cap.resolve_guarantees(chosen.members)
    return Guarantees(amounts, cluster.count_usage_by_namespace(chosen.active_cap, amounts, ledger))


def find_surge(active_cap: ActiveCap, ledger: Ledger | None, name: str) -> SurgeUsage | None:
    """Return the surge of a cap under a name; None without one. The smaller limit of policy and ledger counts."""
    surge, definition = active_cap.surge.get(name), active_cap.definition.surge
    if surge is None or definition is None:
        return None
    hard = active_cap.hard[name]
    if ledger is None or name not in ledger.hard:
        return SurgeUsage(surge)
    most = find_most(active_cap, ledger, name)
    since = _find_begin(ledger, name)
    until = since + timedelta(seconds=definition.seconds) if since is not None else None
    return SurgeUsage(max(most - min(hard, ledger.hard[name]), 0), since, until)


def find_surge_of_ledger(ledger: Ledger, name: str) -> SurgeUsage | None:
    """Return the surge of a ledger under a name, for a caller that has no caps."""
    surge = ledger.surge.amounts.get(name)
    return None if surge is None else SurgeUsage(surge, _find_begin(ledger, name))


def _find_begin(ledger: Ledger, name: str) -> datetime | None:
    """Return the time at which a surge began that still exceeds the hard limit of a name."""
    since, charged = ledger.surge.since, ledger.used.get(name, 0) + ledger.reserved.get(name, 0)
    return (
        datetime.fromtimestamp(since, UTC) if since is not None and charged > ledger.hard.get(name, charged) else None
    )


def format_time(time: datetime) -> str:
    """Return a time as Kubernetes writes it."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ChosenLedger(NamedTuple):
    """A ledger and its member namespaces."""

    active_cap: ActiveCap
    key: LedgerKey
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class LedgerChoice:
    """A cap, a namespace and a group (the value of its label) by name; None for any."""

    cap: str | None = None
    namespace: str | None = None
    group: str | None = None

    def is_chosen(self, cap: str, key: LedgerKey, members: frozenset[str]) -> bool:
        """Return whether a ledger is chosen; a shared ledger matches each of its member namespaces."""
        return self.cap in (None, cap) and (self.namespace in (None, key.namespace) or self.namespace in members)

    def list_ledgers(self, cluster: ClusterState, caps: CapIndex) -> Iterator[ChosenLedger]:
        """Yield the chosen ledgers, by name of the cap and namespace.

        Raises:
            UsageChoiceError: if the chosen cap or group does not exist.
        """
        cap_names = sorted({cap.definition.name for cap in caps.list_caps()})
        if self.cap is not None and self.cap not in cap_names:
            raise UsageChoiceError(f"there is no cap {self.cap}; the policies have {', '.join(cap_names) or 'none'}")
        is_one = self.namespace is not None and self.group is None
        known = cluster.list_caps_of(caps, self.namespace or "") if is_one else cluster.list_caps(caps)
        listed = [cap for cap in known if self.cap in (None, cap.definition.name)]
        if self.group is not None:
            self._check_group([cap for cap in listed if cap.group_value is not None])
        for cap in listed:
            if self.group in (None, cap.group_value):
                yield from self._list_ledgers_of_cap(cluster, cap)

    def _check_group(self, groups: Sequence[ActiveCap]) -> None:
        """Check that the chosen group exists.

        Raises:
            UsageChoiceError: if no namespace has the value of the label, or no chosen cap has groups.
        """
        values = sorted({cap.group_value or "" for cap in groups})
        if self.group not in values:
            known = f"the groups are {format_first_names(values)}" if values else "no chosen cap has groupBy"
            raise UsageChoiceError(f"no namespace that a cap counts has the group {self.group}; {known}")

    def _list_ledgers_of_cap(self, cluster: ClusterState, active_cap: ActiveCap) -> Iterator[ChosenLedger]:
        is_shared = active_cap.definition.shared
        if is_shared or self.namespace is None:
            keys = cluster.list_keys(active_cap)
        else:
            keys = [get_ledger_key(active_cap, self.namespace)]
        for key in keys:
            members = cluster.get_membership(active_cap, key).names
            if (is_shared or members) and self.is_chosen(active_cap.definition.name, key, members):
                ledger, cap = cluster.find_ledger(key), active_cap.choose_limits(key.namespace)
                yield ChosenLedger(cap if ledger is None else cap.with_former(ledger.mappings), key, members)


_AMOUNT_BITS = 80  # more than any amount has
SOURCE_MARK = "="
"""It is in the text of a way to a device, and in no name of a resource."""


def _describe_state(ledger: Ledger) -> str:
    """Return the state of a ledger that is not active, and from when on it is expected to be."""
    expected = describe_activation(ledger.activation)
    return f"new: {expected}" if ledger.counts_first else f"initializing: reserves nothing yet, {expected}"


class ExceededLimit(StrEnum):
    """The limit that a line exceeds."""

    NONE = ""
    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine(ResourceUsage):
    """The usage of one resource of a ledger, and what the report shows of that ledger.

    `namespace` is empty for a shared ledger; `members` is the number of its member namespaces, None if it is unknown.
    `group` is the label and value of a group, or only the value if no policies are given. `terminating` is the part of
    `used` that belongs to pods and claims that are being deleted, `counted_at` the time of the last recount from newer
    pods or claims. `surge` is what pods of a controller that rolls may use above `hard`. A limit is exceeded since
    `exceeded_since` or earlier; None if nothing shows it. `guaranteed` are the guarantees of members.
    """

    cap: str
    namespace: str
    members: int | None
    terminating: int = 0
    counted_at: datetime | None = None
    is_initializing: bool = False
    remarks: tuple[str, ...] = ()
    group: str = ""
    surge: SurgeUsage | None = None
    exceeded_since: datetime | None = None
    guaranteed: GuaranteedUsage | None = None

    @property
    def exceeded_limit(self) -> ExceededLimit:
        """The limit that the charged amount exceeds."""
        charged = self.charged or 0
        if self.hard is not None and charged > self.hard:
            return ExceededLimit.HARD
        return ExceededLimit.SOFT if self.is_above_soft else ExceededLimit.NONE

    @property
    def exceeded_amount(self) -> int:
        """The limit that the charged amount exceeds, 0 if it exceeds none."""
        exceeded = self.exceeded_limit
        return (self.hard if exceeded is ExceededLimit.HARD else self.soft if exceeded else 0) or 0


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The lines of a report, its notes, and the unhealthy devices of the resources in the lines.

    `has_caps` is false if no policies were known, so that the lines are those of ledgers alone. `is_narrowed` is true
    if lines below a share are left out. `totals` are the sums over the lines, if they are requested.
    """

    lines: tuple[UsageLine, ...]
    notes: tuple[str, ...]
    unhealthy: tuple[UnhealthyDevices, ...] = ()
    has_caps: bool = True
    totals: tuple["UsageTotal", ...] = ()
    is_narrowed: bool = False


class LedgerUsage(NamedTuple):
    """A ledger, and its lines in a report."""

    chosen: ChosenLedger
    lines: tuple[UsageLine, ...]


def compute_usage(cluster: ClusterState, caps: CapIndex, choice: LedgerChoice) -> UsageReport:
    """Return the usage of the chosen caps; without caps, the usage of the stored ledgers.

    Raises:
        UsageChoiceError: if the chosen cap does not exist.
    """
    if caps:
        return compute_usage_of_caps(cluster, caps, choice)[0]
    notes = list(cluster.ledgers.problems)
    if choice.namespace is not None and any(not key.namespace for key in cluster.ledgers.records):
        notes.append("shared caps are left out: --policies has their namespaces, a ledger does not")
    lines = tuple(_list_lines_without_caps(cluster, choice))
    return replace(_create_report(cluster, lines, notes, (line.name for line in lines)), has_caps=False)


def compute_usage_of_caps(
    cluster: ClusterState, caps: CapIndex, choice: LedgerChoice, shows: ShowsNames = show_all_names
) -> tuple[UsageReport, tuple[LedgerUsage, ...]]:
    """Return the usage of the chosen caps, all lines and those of each ledger; names are there as far as `shows` says.

    Raises:
        UsageChoiceError: if the chosen cap does not exist.
    """
    chosen_ledgers = list(choice.list_ledgers(cluster, caps))
    ledgers = tuple(LedgerUsage(each, _create_lines(cluster, each, choice.namespace, shows)) for each in chosen_ledgers)
    lines = tuple(line for each in ledgers for line in each.lines)
    notes = list(_list_notes_on_ledgers(cluster, caps, choice, shows))
    notes += list_ungrouped_namespaces(cluster, caps, choice)
    notes += list_invalid_annotations(cluster, caps, choice)
    if not all(line.is_from_ledger for line in lines):
        notes += cluster.list_unread(caps)
    else:
        notes += caps.list_unmeasured()
    notes += list_uncertain_devices(cluster, chosen_ledgers, shows)
    notes += _list_retry_advice(lines)
    names = (name for each in chosen_ledgers for name in each.active_cap.definition.list_requested_names())
    return _create_report(cluster, lines, notes, names), ledgers


def _list_notes_on_ledgers(
    cluster: ClusterState, caps: CapIndex, choice: LedgerChoice, shows: ShowsNames
) -> Iterator[str]:
    """Yield the notes on ledgers that are not known or not shown; those with names only if all names are shown."""
    if shows(""):
        yield from cluster.ledgers.problems
    if cluster.ledgers.missing_reason:
        yield f"used amounts are counted from pods, and reserved amounts are unknown: {cluster.ledgers.missing_reason}"
    unknown_caps = sorted({get_cap_name(key.cap) or key.cap for key in cluster.list_unknown_ledgers(caps)})
    if unknown_caps and shows(""):
        yield (
            "ledgers of caps that are missing from these policies, or differ there, are not shown: "
            f"{format_first_names(unknown_caps)}"
        )
    deleted_namespaces = [] if choice.cap or choice.namespace else cluster.list_deleted_namespaces(caps)
    if deleted_namespaces:
        yield f"ledgers of deleted namespaces are not shown: {format_first_names(deleted_namespaces)}"
    if choice.namespace:
        return
    empty_groups = [cap for cap in cluster.list_empty_groups(caps) if choice.cap in (None, cap.definition.name)]
    if empty_groups:
        names = [f"{cap.definition.name} for {cap.group}" for cap in empty_groups]
        yield f"ledgers of groups without namespaces are not shown: {format_first_names(names)}"


class SortKey(StrEnum):
    """The order of the lines."""

    CAP = "cap"
    NAMESPACE = "namespace"
    USED = "used"
    FREE = "free"
    UTILIZATION = "utilization"


def arrange_lines(lines: Iterable[UsageLine], sort_key: SortKey, min_percent: int | None) -> list[UsageLine]:
    """Return the lines in an order, without those whose charged amount is below a share of the hard limit in percent.

    Names are in natural order: gpu-2 before gpu-10. Amounts are in descending order, but for the free ones. A line
    whose amount is unknown comes last, and has no share.
    """
    chosen = [line for line in lines if min_percent is None or _has_share(line, min_percent)]
    split = cache(split_natural)  # names repeat: each resource in each namespace
    by_name = sorted(chosen, key=lambda line: tuple(map(split, (line.cap, line.group, line.namespace, line.name))))
    match sort_key:
        case SortKey.CAP:
            return by_name
        case SortKey.NAMESPACE:
            return sorted(by_name, key=lambda line: split_natural(line.namespace or line.group))
        case SortKey.USED:
            return sorted(by_name, key=lambda line: -1 if line.used is None else line.used, reverse=True)
        case SortKey.FREE:
            return sorted(by_name, key=lambda line: (line.free is None, line.free or 0))
        case SortKey.UTILIZATION:
            return sorted(by_name, key=_compute_utilization, reverse=True)


def split_natural(text: str) -> tuple[str | int, ...]:
    """Return the parts by which names are compared in natural order: texts and numbers, in turns, then the whole."""
    return (*(int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", text))), text)


def _has_share(line: UsageLine, percent: int) -> bool:
    if line.hard is None or line.charged is None:
        return False
    return line.charged * 100 >= line.hard * percent and (line.charged > 0 or percent == 0)


def _compute_utilization(line: UsageLine) -> int:
    """Return a number by which the charged parts of hard limits are compared, as their fractions would be.

    Different fractions of amounts differ by more than 1 / 2 ** (2 * _AMOUNT_BITS), and equal ones give one number. It
    is larger than any for a limit of 0 that is exceeded, and -1 if the part is unknown.
    """
    charged = line.charged
    if line.hard is None or charged is None:
        return -1
    return (charged << 2 * _AMOUNT_BITS) // line.hard if line.hard else charged << 3 * _AMOUNT_BITS


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The sums over the ledgers of a cap under one resource; an amount that one ledger does not know has no sum."""

    cap: str
    name: str
    ledgers: int
    hard: int | None
    used: int | None
    reserved: int | None
    free: int | None


def sum_lines(lines: Iterable[UsageLine]) -> list[UsageTotal]:
    """Return the sums of each cap and resource, in the order in which they first occur."""
    groups: dict[tuple[str, str], list[UsageLine]] = {}
    for line in lines:
        groups.setdefault((line.cap, line.name), []).append(line)
    return [
        UsageTotal(
            cap,
            name,
            len(group),
            _sum_known(line.hard for line in group),
            _sum_known(line.used for line in group),
            _sum_known(line.reserved for line in group),
            _sum_known(line.free for line in group),
        )
        for (cap, name), group in groups.items()
    ]


def _sum_known(amounts: Iterable[int | None]) -> int | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def _create_report(
    cluster: ClusterState, lines: tuple[UsageLine, ...], notes: Sequence[str], names: Iterable[str]
) -> UsageReport:
    """Return the report, with the unhealthy devices of the resources among the names of limits."""
    resources = select_resources(names)
    unhealthy = cluster.list_unhealthy_devices(resources)
    return UsageReport(lines, (*notes, *list_unknown_health(cluster, resources)), unhealthy)


def list_uncertain_devices(
    cluster: ClusterState, chosen_ledgers: Iterable[ChosenLedger], shows: ShowsNames = show_all_names
) -> Iterator[str]:
    """Yield a note for the devices under each ledger that no slice publishes, or that are undecided."""
    for active_cap, key, members in chosen_ledgers:
        if active_cap.device_meters:
            claims = cluster.list_claims(active_cap, members, cluster.find_ledger(key))
            scope = (
                f" in namespace {key.namespace}"
                if key.namespace
                else f" for {active_cap.group}" * bool(active_cap.group)
            )
            for text in _describe_uncertain(active_cap, claims, shows):
                yield f"cap {active_cap.definition.name}{scope}: {text}"


def _describe_uncertain(active_cap: ActiveCap, claims: Sequence[CountedClaim], shows: ShowsNames) -> Iterator[str]:
    """Yield the texts about claims whose names are shown, and the number of the others."""
    shown = [claim for claim in claims if shows(claim.claim.namespace)]
    yield from describe_uncertain(active_cap, shown)
    hidden = sum(not claim.allocated.is_certain and not shows(claim.claim.namespace) for claim in claims)
    if hidden:
        yield f"what devices of {hidden} claim{'s' * (hidden != 1)} of other namespaces count is not certain"


def _list_retry_advice(lines: Iterable[UsageLine]) -> list[str]:
    """Return the note on controllers that wait, if a limit that an override has changed leaves free amounts."""
    namespaces = [line.namespace for line in lines if line.period is not None and line.free]
    if not namespaces:
        return []
    scope = f"--namespace={namespaces[0] or 'NAMESPACE'}" if len(set(namespaces)) == 1 else "--all-namespaces"
    advice = (
        "after a raise, a ReplicaSet whose pods were rejected tries again by its own back-off, up to 1,000 s; at once "
        f"after: kubectl annotate {scope} --overwrite replicasets --all retried=1"
    )
    return [advice]


def list_ungrouped_namespaces(cluster: ClusterState, caps: CapIndex, choice: LedgerChoice) -> Iterator[str]:
    """Yield a note for each chosen cap with groups that does not count some namespaces, for lack of its label."""
    for cap in caps.list_caps():
        names = cluster.list_ungrouped(cap) if choice.cap in (None, cap.definition.name) else []
        if choice.namespace is not None:
            names = [name for name in names if name == choice.namespace]
        if names and choice.group is None:
            count = f"{len(names)} namespace{'s' * (len(names) != 1)}"
            yield (
                f"cap {cap.definition.name} does not count {count} without the label {cap.definition.group_by}: "
                f"{format_first_names(names)}"
            )


def list_invalid_annotations(cluster: ClusterState, caps: CapIndex, choice: LedgerChoice) -> Iterator[str]:
    """Yield a note for each annotation that is to set limits of a chosen cap and is not valid."""
    annotations = cluster.namespaces.get_limit_annotations()
    for cap in caps.list_caps():
        if choice.cap in (None, cap.definition.name):
            for invalid in find_invalid(cap.definition, annotations):
                if choice.namespace in (None, invalid.namespace):
                    yield str(invalid)


def _create_lines(
    cluster: ClusterState, chosen: ChosenLedger, namespace: str | None, shows: ShowsNames
) -> tuple[UsageLine, ...]:
    """Return the lines of a ledger, with the times since which limits are exceeded.

    With a `namespace`, what is guaranteed to the others is not free.
    """
    lines = tuple(_list_lines(cluster, chosen, namespace, shows))
    if not any(line.exceeded_limit for line in lines):
        return lines
    active_cap, key, members = chosen
    history = AmountHistory(cluster, active_cap, members, cluster.find_ledger(key))
    return tuple(replace(line, exceeded_since=_find_exceeded_since(line, history)) for line in lines)


def _find_exceeded_since(line: UsageLine, history: AmountHistory) -> datetime | None:
    """Return the earliest time that is known: of the present pods and claims, or that at which a surge began."""
    if not line.exceeded_limit:
        return None
    surge = line.surge.since if line.surge is not None else None
    known = (history.find_exceeded(line.name, line.exceeded_amount), surge)
    return min((time for time in known if time is not None), default=None)


def _list_lines(
    cluster: ClusterState, chosen: ChosenLedger, namespace: str | None, shows: ShowsNames
) -> Iterator[UsageLine]:
    active_cap, key, members = chosen
    ledger_record, ledger = cluster.ledgers.records.get(key), cluster.find_ledger(key)
    count = cluster.count_usage(active_cap, members, ledger)
    guarantees = find_guarantees(cluster, chosen, ledger)
    definition, unspent = active_cap.definition, dict[str, int]()
    number = count_beyond_most(definition.guarantee, active_cap.hard, members) if definition.shared else 0
    beyond = (f"{number} more match guarantees and have none: a ledger has at most {MAX_GUARANTEED}",) if number else ()
    if namespace is not None:
        unspent |= guarantees.compute_unspent({} if ledger is None else ledger.reserved_by_namespace, namespace)
    for usage in list_resource_usages(active_cap, ledger, lambda: count, is_settled=False):
        yield UsageLine(
            cap=active_cap.definition.name,
            namespace=key.namespace,
            members=len(members),
            name=usage.name,
            hard=usage.hard,
            soft=usage.soft,
            used=usage.used,
            reserved=usage.reserved,
            terminating=count.terminating.get(usage.name, 0),
            counted_at=ledger_record.counted_at if ledger_record is not None and usage.is_from_ledger else None,
            is_initializing=bool(ledger and ledger.initializer),
            remarks=(*_list_remarks(cluster, chosen, ledger, count, usage, shows), *beyond),
            is_from_ledger=usage.is_from_ledger,
            group=active_cap.group,
            period=usage.period,
            percent=usage.percent,
            capacity=usage.capacity,
            falls_to=usage.falls_to,
            unspent_by_others=unspent.get(usage.name, 0),
            surge=find_surge(active_cap, ledger, usage.name),
            guaranteed=find_guaranteed(guarantees, ledger, usage.name),
        )


def _list_remarks(  # noqa: PLR0913, PLR0917  # a line, and what it is made of
    cluster: ClusterState,
    chosen: ChosenLedger,
    ledger: Ledger | None,
    count: CountedUsage,
    usage: ResourceUsage,
    shows: ShowsNames,
) -> Iterator[str]:
    """Yield the remarks on a line."""
    name = usage.name
    if name in count.uncounted and name not in list_counted(chosen.active_cap, ledger):
        yield "not counted: the attributes and capacities of some devices are unknown"
    elif ledger is None:
        if not cluster.ledgers.missing_reason:
            yield "no ledger yet: counted from pods"
    else:
        if ledger.initializer:
            yield f"{_describe_state(ledger)}; counted from pods"
        elif name not in ledger.resources:
            yield "the ledger does not count it yet: counted from pods"
        elif not chosen.active_cap.list_sources((name,)) <= ledger.resources:
            yield "the ledger does not count every class of these devices yet: counted from pods and claims"
        ledger_limit, policy_limit = ledger.hard.get(name), chosen.active_cap.hard.get(name)
        if ledger_limit is not None and policy_limit not in {None, ledger_limit, usage.falls_to}:
            policy_text, ledger_text = format_amount(name, policy_limit or 0), format_amount(name, ledger_limit)
            yield f"hard is {policy_text} in the policies, {ledger_text} in the ledger"
    yield from _describe_limits(chosen.active_cap, usage)
    if count.invalid:
        yield f"counted as 0 because of an invalid quantity: {_name_invalid(cluster, count, shows)}"


def _describe_limits(cap: ActiveCap, usage: ResourceUsage) -> Iterator[str]:
    """Yield what is to be known about the limits of a line besides their amounts."""
    name, limits = usage.name, cap.limits
    if usage.falls_to is not None:
        settle = format_period((cap.definition.capacity or NO_SELECTION).settle)
        yield f"hard falls to {limits.describe(name)} once there has been no more capacity for {settle}"
    elif name in limits.unknown:
        yield f"hard {cap.definition.hard[name]} was not evaluated: the capacity is not known"
    elif name in limits.hard and (limit := limits.describe(name)) != format_amount(name, limits.hard[name]):
        yield f"hard {limit}"
    if name in cap.soft_shares:
        yield f"soft {cap.describe_soft(name)}"


def _name_invalid(cluster: ClusterState, count: CountedUsage, shows: ShowsNames) -> str:
    """Return the names of the pods with an invalid quantity, and the number of those whose names are not shown."""
    names = [
        f"{group.namespace}/{pod}"
        for group in count.invalid
        if shows(group.namespace)
        for pod in cluster.pods.list_pod_names(group, group.pod_count)
    ]
    hidden = sum(group.pod_count for group in count.invalid if not shows(group.namespace))
    others = [f"{hidden} pod{'s' * (hidden != 1)} of other namespaces"] if hidden else []
    return " and ".join([*([format_first_names(sorted(names))] if names else []), *others])


def _list_lines_without_caps(cluster: ClusterState, choice: LedgerChoice) -> Iterator[UsageLine]:
    """Yield the lines of the stored ledgers, for a caller that has no caps."""
    for key, ledger_record in sorted(
        cluster.ledgers.records.items(), key=lambda each: (each[0].cap, each[0].namespace)
    ):
        if ledger_record.ledger is not None and choice.is_chosen(get_cap_name(key.cap), key, frozenset()):
            yield from _list_lines_of_ledger(key, ledger_record, ledger_record.ledger)


def _list_lines_of_ledger(key: LedgerKey, ledger_record: CapLedgerRecord, ledger: Ledger) -> Iterator[UsageLine]:
    for name in sorted(ledger.hard.keys() | {resource for resource in ledger.resources if SOURCE_MARK not in resource}):
        yield UsageLine(
            cap=get_cap_name(key.cap) or key.cap,
            namespace=key.namespace,
            members=None,
            name=name,
            hard=ledger.hard.get(name),
            soft=None,
            used=ledger.used.get(name, 0),
            reserved=ledger.reserved.get(name, 0),
            counted_at=ledger_record.counted_at,
            is_initializing=bool(ledger.initializer),
            remarks=(_describe_state(ledger),) if ledger.initializer else (),
            group=find_key_value(key.cap) or "",
            surge=find_surge_of_ledger(ledger, name),
            guaranteed=find_guaranteed(ledger.guarantees, ledger, name),
        )


def format_first_names(names: list[str]) -> str:
    """Return the first ten names, and the number of the others."""
    remainder = f" and {len(names) - 10} more" if len(names) > 10 else ""  # noqa: PLR2004 -- ten fit into a line
    return ", ".join(names[:10]) + remainder


def select_resources(names: Iterable[str]) -> frozenset[str]:
    """Return the extended resources among the names of limits, for each limit of `limits.` the resource itself."""
    return frozenset(filter(is_extended, (name.removeprefix(LIMITS_PREFIX) for name in names)))


def may_count_devices(caps: Sequence[NamespaceCap]) -> bool:
    """Return whether a cap counts an extended resource; True too without caps, since ledgers have their names."""
    return not caps or any(select_resources(cap.list_requested_names()) for cap in caps)


def list_unknown_health(cluster: ClusterState, resources: frozenset[str]) -> Iterator[str]:
    """Yield a note if unhealthy devices of these resources are unknown."""
    if resources:
        yield from cluster.list_effects((NODES,))


def format_by_resource(unhealthy: Sequence[UnhealthyDevices]) -> Iterator[str]:
    """Yield a line for each resource; `unhealthy` is sorted by resource."""
    for _, devices in groupby(unhealthy, lambda each: each.resource):
        yield format_unhealthy(tuple(devices))
