"""The usages of all ledgers of the active caps, by one rule for what is published and what is reported.

The usages are made again if a ledger was read again, or its limits have changed: with 10,000 ledgers that saves 0.4 s
of CPU each time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.resource_usage import ResourceUsage, list_counted, list_resource_usages
from tallygate.state.informers.consumer_store import NotSyncedError
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey


@dataclass(frozen=True, slots=True)
class CountedLedger:
    """A ledger with the limits of its group or namespace, its members, and its usages.

    `ledger`: None as long as no version of it is known. `usages`: None as long as they cannot be counted; they are the
    same object as long as nothing that they depend on has changed.
    """

    cap: ActiveCap
    key: LedgerKey
    members: frozenset[str]
    ledger: Ledger | None = None
    usages: Sequence[ResourceUsage] | None = None


class _Origin(NamedTuple):
    """The inputs of usages: they stay as long as these are the same objects, and pods were not counted."""

    cap: ActiveCap
    ledger: Ledger
    members: int
    usages: Sequence[ResourceUsage]


class LedgerUsages:
    """The usages of all ledgers, for one thread.

    `state` is the watched cluster, `caps` returns the active caps, and `list_ledgers` the newest known version of each
    ledger.
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

    def list_usages(self) -> Iterator[CountedLedger]:
        """Yield each ledger of each active cap."""
        ledgers, origins = self._list_ledgers(), dict[LedgerKey, _Origin]()
        for cap in self._state.list_caps(self._caps()):
            for key in self._state.list_keys(cap):
                if not cap.definition.shared:
                    members = frozenset((key.namespace,))
                else:
                    members = self._state.get_membership(cap, key).names
                yield self._count(cap, key, members, ledgers.get(key), origins)
        self._origins = origins

    def _count(
        self,
        cap: ActiveCap,
        key: LedgerKey,
        members: frozenset[str],
        ledger: Ledger | None,
        origins: dict[LedgerKey, _Origin],
    ) -> CountedLedger:
        """Return a ledger; put its usages into `origins` if they depend on the ledger alone."""
        limited = cap.choose_limits(key.namespace)
        if ledger is None:
            return CountedLedger(limited, key, members)
        limited = limited.with_former(ledger.mappings)
        origin = self._origins.get(key)
        if origin is None or origin.cap is not limited or origin.ledger is not ledger or origin.members != len(members):
            usages = self._create_usages(limited, members, ledger)
            if usages is None or list_counted(limited, ledger) != limited.resources:
                return CountedLedger(limited, key, members, ledger, usages)
            origin = _Origin(limited, ledger, len(members), usages)
        origins[key] = origin
        return CountedLedger(limited, key, members, ledger, origin.usages)

    def _create_usages(self, cap: ActiveCap, members: frozenset[str], ledger: Ledger) -> Sequence[ResourceUsage] | None:
        try:
            return tuple(list_resource_usages(cap, ledger, lambda: self._state.count_usage(cap, members, ledger)))
        except NotSyncedError:
            return None
