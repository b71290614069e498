"""Which ledgers are asked for: those of one cap, of one namespace, or all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from webhook.admission.capping import CapIndex, ActiveCap
from webhook.cli.cluster.seen import Seen
from webhook.cli.command import Misuse
from webhook.state.ports import LedgerKey


class Chosen(NamedTuple):
    """One ledger, and the namespaces that draw on it."""

    counted: ActiveCap
    key: LedgerKey
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A cap and a namespace by name; None for any."""

    cap: str | None = None
    namespace: str | None = None

    def takes(self, cap: str, key: LedgerKey, members: frozenset[str]) -> bool:
        """Whether a ledger is meant: a shared one by each of its namespaces."""
        return self.cap in (None, cap) and (self.namespace in (None, key.namespace) or self.namespace in members)

    def of(self, seen: Seen, caps: CapIndex) -> Iterator[Chosen]:
        """The ledgers meant, by name of the cap and namespace.

        Raises:
            Misuse: there is no such cap.
        """
        known = sorted({counted.definition.name for counted in caps.list_caps()})
        if self.cap is not None and self.cap not in known:
            raise Misuse(f"there is no cap {self.cap}; the policies have {', '.join(known) or 'none'}")
        for counted in sorted(caps.list_caps(), key=lambda counted: counted.definition.name):
            if self.cap in (None, counted.definition.name):
                yield from self._of(seen, counted)

    def _of(self, seen: Seen, counted: ActiveCap) -> Iterator[Chosen]:
        for key in seen.keys(counted):
            members = seen.members(counted, key).names
            if self.takes(counted.definition.name, key, members):
                yield Chosen(counted, key, members)
