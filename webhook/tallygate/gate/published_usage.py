"""The usage of caps as their member namespaces see it: numbers of this namespace and of those that share a ledger.

It has no name of another namespace, pod or user. The amounts are those of `tallygate usage`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from tallygate.accounting.amounts import format_amount
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.capacity_limits import CapacityShare
from tallygate.cluster.resource_usage import ResourceUsage
from tallygate.gate.ledger_usages import CountedLedger, LedgerUsages
from tallygate.state.kubernetes.cap_usage import (
    CapSharing,
    CapState,
    PublishedResource,
    PublishedStatus,
    create_resource,
    create_summary,
)
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey


class UsageKey(NamedTuple):
    """A member namespace, and the name of a cap that counts it."""

    namespace: str
    cap: str


PublishedStatuses = Mapping[UsageKey, PublishedStatus | None]
"""The status for each cap of each member namespace; None as long as its ledger is unknown."""


class _LedgerStatus(NamedTuple):
    """The status of a ledger, and the usages of which it is made."""

    status: PublishedStatus
    usages: Sequence[ResourceUsage]

    def restrict(self, ledger: Ledger, namespace: str) -> PublishedStatus:
        """Return the status for a member: what is guaranteed to others, and not spent yet, is not free for it."""
        unspent = ledger.guarantees.compute_unspent(ledger.reserved_by_namespace, namespace)
        if not any(unspent.values()):
            return self.status
        own = [dataclasses.replace(usage, unspent_by_others=unspent.get(usage.name, 0)) for usage in self.usages]
        resources = [
            resource if usage.free is None else replace(resource, free=format_amount(usage.name, usage.free))
            for resource, usage in zip(self.status.resources, own, strict=True)
        ]
        return replace(self.status, resources=resources, summary=create_summary(resources))


class UsagePublisher:
    """The statuses of all caps in their member namespaces, for one thread.

    `ledger_usages` are those of the watched cluster. A status is made again if its usages were.
    """

    def __init__(self, ledger_usages: LedgerUsages) -> None:
        self._ledger_usages = ledger_usages
        self._statuses: dict[LedgerKey, _LedgerStatus] = {}

    def list_statuses(self) -> PublishedStatuses:
        """Return the status for each cap of each member namespace."""
        statuses: dict[UsageKey, PublishedStatus | None] = {}
        by_ledger: dict[LedgerKey, _LedgerStatus] = {}
        for counted in self._ledger_usages.list_usages():
            found = self._find_status(counted)
            if found is not None:
                by_ledger[counted.key] = found
            for namespace in counted.members:
                status = None
                if found is not None and counted.ledger is not None:
                    status = found.restrict(counted.ledger, namespace)
                statuses[UsageKey(namespace, counted.cap.definition.name)] = status
        self._statuses = by_ledger
        return statuses

    def _find_status(self, counted: CountedLedger) -> _LedgerStatus | None:
        usages, ledger, cap = counted.usages, counted.ledger, counted.cap
        if usages is None or ledger is None:
            return None
        kept = self._statuses.get(counted.key)
        if kept is not None and kept.usages is usages:
            return kept
        resources = [_create_resource(usage, cap.limits.shares.get(usage.name)) for usage in usages]
        expected_at = ledger.activation.expected_at if ledger.initializer else 0
        status = PublishedStatus(
            state=_find_state(ledger),
            sharing=_find_sharing(cap),
            namespaces=len(counted.members) if cap.definition.shared else 1,
            resources=resources,
            summary=create_summary(resources),
            active_from=datetime.fromtimestamp(expected_at, UTC) if expected_at else None,
        )
        return _LedgerStatus(status, usages)


def _find_state(ledger: Ledger) -> CapState:
    if not ledger.initializer:
        return CapState.ACTIVE
    return CapState.NEW if ledger.counts_first else CapState.INITIALIZING


def _find_sharing(cap: ActiveCap) -> CapSharing:
    if cap.group_value is not None:
        return CapSharing.GROUP
    return CapSharing.NAMESPACES if cap.definition.shared else CapSharing.NONE


def _create_resource(usage: ResourceUsage, share: CapacityShare | None) -> PublishedResource:
    """Return a resource with the end of its limit: that of an override, or the time at which less capacity acts."""
    period, until, later = usage.period, None, None
    if period is not None and period.hard == usage.hard:  # a ledger may have a smaller limit
        until, later = period.end, period.later
    if until is None and share is not None and share.limit == usage.hard and share.later is not None:
        until, later = share.capacity.falls_at, share.later
    return create_resource(
        usage.name,
        hard=usage.hard,
        soft=usage.soft,
        used=usage.used,
        reserved=usage.reserved,
        free=usage.free,
        until=until,
        later=later,
    )
