"""Rule 15, guarantees: what the others may take of a shared cap leaves the unspent guarantees of its members free.

A member namespace has its guarantee for itself as far as it is not charged that much already. The rest of the cap is
lent to any member. Nothing is taken back: a namespace with more than its guarantee keeps it.
"""

from collections.abc import Collection, Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts

AmountsByNamespace = Mapping[str, Amounts]

NOTHING_GUARANTEED: AmountsByNamespace = MappingProxyType({})


class Guarantees(msgspec.Struct, frozen=True, dict=True):
    """The guarantees in a ledger, by namespace, and what `used` of the ledger counts for each of these namespaces.

    `used` has an entry for every namespace that is counted by itself, also for one that uses nothing. All in `amounts`
    have one.
    """

    amounts: AmountsByNamespace = NOTHING_GUARANTEED
    used: AmountsByNamespace = NOTHING_GUARANTEED

    @cached_property
    def unused(self) -> AmountsByNamespace:
        """The part of each guarantee that `used` does not count, without namespaces that have none left."""
        used, left = self.used, dict[str, Amounts]()
        for namespace, guaranteed in self.amounts.items():
            if rest := guaranteed.find_shortfall(used.get(namespace, NO_AMOUNTS)):
                left[namespace] = rest
        return left

    @cached_property
    def total_unused(self) -> Amounts:
        """The sum of `unused`."""
        total: dict[str, int] = {}
        for amounts in self.unused.values():
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        return Amounts(total)

    def are(self, amounts: AmountsByNamespace) -> bool:
        """Return whether these are the guarantees; the last ones that were are compared by identity first."""
        if amounts is self.amounts or amounts is self.__dict__.get("_equal"):
            return True
        if amounts != self.amounts:
            return False
        self.__dict__["_equal"] = amounts
        return True

    def compute_unspent(self, reserved: AmountsByNamespace, besides: str = "") -> Mapping[str, int]:
        """Return the sum of max(0, guarantee - charged) by name, over all namespaces but `besides`.

        `reserved` are the amounts by namespace that the reservations add to `used`.
        """
        if not self.unused:
            return NO_AMOUNTS
        known = self.__dict__.get("_unspent")  # of the last ledger: many requests are compared with one
        if known is None or known[0] is not reserved:
            known = self.__dict__["_unspent"] = reserved, self._sum_unspent(reserved)
        total: Mapping[str, int] = known[1]
        left = self.unused.get(besides)
        if left is None:
            return total
        own = reserved.get(besides, NO_AMOUNTS)
        return {name: amount - max(0, left.get(name, 0) - own.get(name, 0)) for name, amount in total.items()}

    def _sum_unspent(self, reserved: AmountsByNamespace) -> Mapping[str, int]:
        unused, total = self.unused, self.total_unused.copy()
        for namespace in unused.keys() & reserved.keys():
            own = reserved[namespace]
            for name, amount in unused[namespace].items():
                total[name] -= min(amount, own.get(name, 0))
        return total

    def list_unspent(self, name: str, reserved: AmountsByNamespace, besides: str) -> dict[str, int]:
        """Return the unspent guarantees of one name by namespace, without those of `besides` and those of 0."""
        left = {
            namespace: amounts.get(name, 0) - reserved.get(namespace, NO_AMOUNTS).get(name, 0)
            for namespace, amounts in self.unused.items()
            if namespace != besides
        }
        return {namespace: amount for namespace, amount in left.items() if amount > 0}

    def list_besides(self, name: str, besides: str) -> dict[str, int]:
        """Return the guarantees of one name by namespace, without that of `besides`."""
        return {
            namespace: amounts[name]
            for namespace, amounts in self.amounts.items()
            if namespace != besides and name in amounts
        }

    def find_left(self, namespace: str, name: str) -> int:
        """Return what a namespace has of its guarantee beyond what `used` counts for it."""
        return self.unused.get(namespace, NO_AMOUNTS).get(name, 0)

    def recount(self, used: AmountsByNamespace) -> "Guarantees":
        """Return the guarantees of the namespaces that a snapshot counts: others are no members any more."""
        if used == self.used:
            return self
        kept = {name: amounts for name, amounts in self.amounts.items() if name in used}
        return create_guarantees(self.amounts if len(kept) == len(self.amounts) else kept, used)

    def counts(self, namespaces: Collection[str]) -> bool:
        """Return whether each of these namespaces is counted by itself."""
        return all(namespace in self.used for namespace in namespaces)


NO_GUARANTEES = Guarantees()


def create_guarantees(amounts: AmountsByNamespace, used: AmountsByNamespace) -> Guarantees:
    """Return the guarantees of namespaces, all of which are counted."""
    return Guarantees(MappingProxyType(dict(amounts)), MappingProxyType(dict(used))) if used else NO_GUARANTEES
