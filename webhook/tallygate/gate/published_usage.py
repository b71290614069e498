"""The usage of caps as their member namespaces see it: numbers of this namespace and of those that share a ledger.

It has no name of another namespace, pod or user. The amounts are those of `tallygate usage`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from tallygate.accounting.amounts import format_amount
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.capacity_limits import CapacityShare
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.resource_usage import ResourceUsage, list_counted, list_resource_usages
from tallygate.state.informers.consumer_store import NotSyncedError
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


class _Origin(NamedTuple):
    """The inputs of a status: it is the same as long as these are the same objects, and pods were not counted."""

    cap: ActiveCap
    ledger: Ledger
    members: int
    found: _LedgerStatus


class UsagePublisher:
    """The statuses of all caps in their member namespaces, for one thread.

    `state` is the watched cluster, `caps` returns the active caps, and `list_ledgers` the newest known version of each
    ledger. A status is made again if its ledger was read again, or its limits have changed: with 10,000 of them that
    saves 0.4 s of CPU each time.
    """

    def __init__(
        self,
        state: ClusterState,
        caps: Callable[[], CapIndex],
        list_ledgers: Callable[[], Mapping[LedgerKey, Ledger]],
    ) -> None:
        self._state = state
        self._caps = caps
        self._list_ledgers = list_ledgers
        self._origins: dict[LedgerKey, _Origin] = {}

    def list_statuses(self) -> PublishedStatuses:
        """Return the status for each cap of each member namespace."""
        statuses: dict[UsageKey, PublishedStatus | None] = {}
        ledgers, origins = self._list_ledgers(), dict[LedgerKey, _Origin]()
        for cap in self._state.list_caps(self._caps()):
            for key in self._state.list_keys(cap):
                ledger = ledgers.get(key)
                if not cap.definition.shared:
                    members = frozenset((key.namespace,))
                else:
                    members = self._state.get_membership(cap, key).names
                found = None if ledger is None else self._find_status(cap, key, members, ledger, origins)
                for namespace in members:
                    status = None if ledger is None or found is None else found.restrict(ledger, namespace)
                    statuses[UsageKey(namespace, cap.definition.name)] = status
        self._origins = origins
        return statuses

    def _find_status(
        self,
        cap: ActiveCap,
        key: LedgerKey,
        members: frozenset[str],
        ledger: Ledger,
        origins: dict[LedgerKey, _Origin],
    ) -> _LedgerStatus | None:
        """Return the status of a ledger; put it into `origins` if it depends on the ledger alone."""
        limited = cap.choose_limits(key.namespace).with_former(ledger.mappings)
        origin = self._origins.get(key)
        if origin is None or origin.cap is not limited or origin.ledger is not ledger or origin.members != len(members):
            found = self._create_status(limited, members, ledger)
            if found is None or list_counted(limited, ledger) != limited.resources:
                return found
            origin = _Origin(limited, ledger, len(members), found)
        origins[key] = origin
        return origin.found

    def _create_status(self, cap: ActiveCap, members: frozenset[str], ledger: Ledger) -> _LedgerStatus | None:
        try:
            usages = list(list_resource_usages(cap, ledger, lambda: self._state.count_usage(cap, members, ledger)))
        except NotSyncedError:
            return None
        resources = [_create_resource(usage, cap.limits.shares.get(usage.name)) for usage in usages]
        expected_at = ledger.activation.expected_at if ledger.initializer else 0
        status = PublishedStatus(
            state=_find_state(ledger),
            sharing=_find_sharing(cap),
            namespaces=len(members) if cap.definition.shared else 1,
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
