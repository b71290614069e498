"""The records of an AskUsage and of an AskHours as JSON: what `namespace_usage_json` and `live_hours` write.

Amounts are in thousandths if the unit is `milli`; in a mapping of amounts those of cpu are. Readers pass over fields
that they do not know.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from tallygate.accounting.scheduling.prediction import Feasibility
from tallygate.admission.limit_schedule import LimitPeriod
from tallygate.answers.answer_records import ObjectRecord, UnhealthyRecord
from tallygate.answers.device_hours import DeviceHours, HoursKey
from tallygate.answers.usage_report import GuaranteedUsage, SurgeUsage, UsageLine


class SurgeRecord(msgspec.Struct, frozen=True):
    """An amount above the hard limit for pods of a controller that rolls; `since` is null while none is used."""

    amount: int
    since: datetime | None
    until: datetime | None


class GuaranteedRecord(msgspec.Struct, frozen=True):
    """The sum of what is guaranteed to some of the namespaces that share a cap, and the part that is not spent yet."""

    amount: int
    unspent: int
    namespaces: int


class UsageItemRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One resource of one ledger of a cap: an item of `tallygate usage -o json`.

    `namespace` is null for a cap that `namespaces` share, and `group` is the label and value of a group. `hardUntil` is
    the end of a raise or another override, and `hardAfterwards` the limit from then on. A limit that is a `percent` of
    `capacity` has both, and `fallsTo` is the one by less capacity that does not act yet. `exceeded` is the limit that
    is exceeded since `exceededSince` or earlier. `free` is what the namespace that is asked about may use: not what is
    guaranteed to others. What is not known is null.
    """

    cap: str
    group: str | None
    namespace: str | None
    namespaces: int | None
    resource: str
    unit: Literal["milli", "whole"]
    hard: int | None
    hard_until: datetime | None
    hard_afterwards: int | None
    percent: str | None
    capacity: int | None
    falls_to: int | None
    soft: int | None
    used: int | None
    reserved: int | None
    free: int | None
    terminating: int
    counted_at: datetime | None
    exceeded: Literal["soft", "hard"] | None
    exceeded_since: datetime | None
    initializing: bool
    surge: SurgeRecord | None
    guaranteed: GuaranteedRecord | None
    remarks: Sequence[str]

    def to_line(self) -> UsageLine:
        """Return the line of a report."""
        surge, guaranteed, period, unspent_by_others = self.surge, self.guaranteed, None, 0
        if self.hard is not None and self.used is not None and self.free is not None:
            unspent_by_others = max(0, self.hard - self.used - (self.reserved or 0)) - self.free
        if self.hard is not None and self.hard_until is not None:
            period = LimitPeriod(self.hard, None, None, self.hard_until, self.hard_afterwards, self.hard)
        return UsageLine(
            cap=self.cap,
            namespace=self.namespace or "",
            members=self.namespaces,
            name=self.resource,
            hard=self.hard,
            soft=self.soft,
            used=self.used,
            reserved=self.reserved,
            period=period,
            percent=self.percent,
            capacity=self.capacity,
            falls_to=self.falls_to,
            unspent_by_others=unspent_by_others,
            terminating=self.terminating,
            counted_at=self.counted_at,
            is_initializing=self.initializing,
            remarks=tuple(self.remarks),
            group=self.group or "",
            surge=None if surge is None else SurgeUsage(surge.amount, surge.since, surge.until),
            exceeded_since=self.exceeded_since,
            guaranteed=None
            if guaranteed is None
            else GuaranteedUsage(guaranteed.amount, guaranteed.unspent, guaranteed.namespaces),
        )


class QuotaRecord(msgspec.Struct, frozen=True):
    """One key of a ResourceQuota."""

    quota: str
    resource: str
    unit: Literal["milli", "whole"]
    hard: int
    used: int
    free: int


class UsageHolderRecord(msgspec.Struct, frozen=True):
    """A pod, a claim or a reserving workload of the namespace, and its amounts; `workload` is that of a pod."""

    kind: Literal["pod", "claim", "workload"]
    namespace: str
    name: str
    workload: str | None
    state: Literal["counted", "terminating", "reserved"]
    amounts: Mapping[str, int]


class NamespaceAmountsRecord(msgspec.Struct, frozen=True):
    """The amounts that another namespace uses under a shared cap."""

    namespace: str
    amounts: Mapping[str, int]


class LedgerHoldersRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The holders under one ledger of a cap, and the number of `more` ones.

    `others` is what other namespaces use or have reserved, in sum; `byNamespace` is null for who may not list all pods.
    """

    cap: str
    group: str | None
    namespace: str | None
    namespaces: int
    holders: Sequence[UsageHolderRecord]
    more: int
    others: Mapping[str, int]
    by_namespace: Sequence[NamespaceAmountsRecord] | None


class StartLimitRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The number of further pods under a cap, under a quota or on the nodes, and the resource that limits it."""

    by: Literal["cap", "quota", "nodes"]
    name: str | None
    resource: str | None
    copies: int
    at_least: bool


class StartableRecord(msgspec.Struct, frozen=True, rename="camel"):
    """A shape of `pods` that run in the namespace, and how many `copies` may still start; null if no limit is known."""

    pods: int
    workloads: Sequence[str]
    requests: Mapping[str, int]
    copies: int | None
    at_least: bool
    limits: Sequence[StartLimitRecord]
    unknown: Sequence[str]


class WaitingRecord(msgspec.Struct, frozen=True):
    """Equal pods without a node: their number, the first names, and why they wait. Some are not predicted."""

    pods: int
    names: Sequence[str]
    verdict: Feasibility | None
    sentence: str


class RejectedRecord(msgspec.Struct, frozen=True):
    """The pods that an object lacks, since its controller could not create them, and what it reports."""

    object: ObjectRecord
    pods: int
    message: str


class RefusalRecord(msgspec.Struct, frozen=True):
    """The owner of pods that the gate denied in the last hour: how often, when last, and the message then."""

    kind: str
    name: str
    times: int
    last: datetime
    message: str


class AskUsage(msgspec.Struct, frozen=True, rename="camel"):
    """The usage of a namespace from the state at `revision`; null if that is not known.

    `holders`, `startable`, `waiting` and `rejected` are null for who may not list the pods of the namespace, `refusals`
    for who may not list its Events. `unknown` says what could not be read.
    """

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskUsage"]
    revision: str | None
    as_of: datetime
    namespace: str
    items: Sequence[UsageItemRecord]
    notes: Sequence[str]
    unhealthy: Sequence[UnhealthyRecord]
    quotas: Sequence[QuotaRecord] | None
    holders: Sequence[LedgerHoldersRecord] | None
    startable: Sequence[StartableRecord] | None
    waiting: Sequence[WaitingRecord] | None
    rejected: Sequence[RejectedRecord] | None
    refusals: Sequence[RefusalRecord] | None
    unknown: Sequence[str]


class HoursItemRecord(msgspec.Struct, frozen=True, rename="camel"):
    """The devices of a group: whole devices times seconds, at least and at most, and the same as hours.

    `workload` and `value`, that of a label, are null where the answer has no groups by them, and for pods and claims of
    which they are not kept; a `value` is empty for those without the label.
    """

    namespace: str | None
    workload: str | None
    value: str | None
    resource: str
    hours: str
    hours_at_most: str
    seconds: int
    seconds_at_most: int
    pods: int
    claims: int

    def to_hours(self) -> DeviceHours:
        """Return the sums of the group."""
        key = HoursKey(self.namespace, self.workload, self.value, self.resource)
        return DeviceHours(key, self.seconds, self.seconds_at_most, self.pods, self.claims)


class AskHours(msgspec.Struct, frozen=True, rename="camel"):
    """The hours of devices in a namespace, or in all if it is null, while this server has watched the cluster.

    `by` has the groups: namespace, workload or label=KEY. What began and ended within an interruption of the watch is
    not known: the longest one has `longestGapSeconds`.
    """

    api_version: Literal["tallygate.dev/v1"]
    kind: Literal["AskHours"]
    namespace: str | None
    by: str
    since: datetime
    until: datetime
    longest_gap_seconds: int
    items: Sequence[HoursItemRecord]
    notes: Sequence[str]
