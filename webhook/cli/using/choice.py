"""Which ledgers are asked for: those of one cap, of one namespace, or all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from webhook.admission.cap_index import ActiveCap, CapIndex
from webhook.cli.cluster.seen import ObservedCluster
from webhook.cli.command import UsageError
from webhook.state.ports import LedgerKey


class ChosenLedger(NamedTuple):
    """One ledger, and the namespaces that draw on it."""

    active_cap: ActiveCap
    key: LedgerKey
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class LedgerChoice:
    """A cap and a namespace by name; None for any."""

    cap: str | None = None
    namespace: str | None = None

    def is_chosen(self, cap: str, key: LedgerKey, members: frozenset[str]) -> bool:
        """Whether a ledger is meant: a shared one by each of its namespaces."""
        return self.cap in (None, cap) and (self.namespace in (None, key.namespace) or self.namespace in members)

    def list_ledgers(self, cluster: ObservedCluster, caps: CapIndex) -> Iterator[ChosenLedger]:
        """The ledgers meant, by name of the cap and namespace.

        Raises:
            Misuse: there is no such cap.
        """
        cap_names = sorted({counted.definition.name for counted in caps.list_caps()})
        if self.cap is not None and self.cap not in cap_names:
            raise UsageError(f"there is no cap {self.cap}; the policies have {', '.join(cap_names) or 'none'}")
        for counted in sorted(caps.list_caps(), key=lambda counted: counted.definition.name):
            if self.cap in (None, counted.definition.name):
                yield from self._list_ledgers_of_cap(cluster, counted)

    def _list_ledgers_of_cap(self, cluster: ObservedCluster, active_cap: ActiveCap) -> Iterator[ChosenLedger]:
        for key in cluster.list_keys(active_cap):
            members = cluster.get_membership(active_cap, key).names
            if self.is_chosen(active_cap.definition.name, key, members):
                yield ChosenLedger(active_cap, key, members)
