"""The used amounts of namespaces under one cap, kept until a pod of a namespace changes.

A cap that many namespaces share is asked for again and again, and between two asks few namespaces change. A sum of all
is corrected by those alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from itertools import takewhile
from typing import Final, NamedTuple

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, share_amounts
from tallygate.state.informers.pod_records import ChargeGroup

_MAX_NAMESPACES: Final = 65_536


class GroupUsage(NamedTuple):
    """The pods or claims of one namespace and charge group: their number, and what each uses under a cap.

    A group with an invalid quantity uses nothing.
    """

    namespace: str
    group: ChargeGroup
    is_terminating: bool
    pod_count: int
    used_per_pod: Amounts
    is_valid: bool = True


class GroupSums(NamedTuple):
    """The amounts that pods use, and the part of those that are being deleted; the groups with an invalid quantity."""

    used: Amounts = NO_AMOUNTS
    terminating: Amounts = NO_AMOUNTS
    invalid: tuple[GroupUsage, ...] = ()


def sum_groups(groups: Iterable[GroupUsage]) -> GroupSums:
    """Return the sums of groups of pods."""
    used, terminating, invalid = Counter[str](), Counter[str](), list[GroupUsage]()
    for group in groups:
        if not group.is_valid:
            invalid.append(group)
        for name, amount in group.used_per_pod.items():
            used[name] += amount * group.pod_count
            terminating[name] += amount * group.pod_count * group.is_terminating
    return GroupSums(_create_amounts(used), _create_amounts(terminating), tuple(invalid))


def _create_amounts(total: Counter[str]) -> Amounts:
    return share_amounts(Amounts({name: amount for name, amount in total.items() if amount}))


class ChangeCounts:
    """A number for each namespace that is another one after each change of its pods.

    `last` is the number of the last change of all.
    """

    def __init__(self) -> None:
        self.last = self._at_least = 0
        self._numbers: dict[str, int] = {}  # in the order of the changes

    def record(self, namespace: str) -> None:
        """Record a change in a namespace."""
        if len(self._numbers) >= _MAX_NAMESPACES:
            self.record_all()
        self.last += 1
        self._numbers.pop(namespace, None)
        self._numbers[namespace] = self.last

    def record_all(self) -> None:
        """Record that all namespaces may have changed."""
        self.last += 1
        self._at_least = self.last
        self._numbers.clear()

    def get(self, namespace: str) -> int:
        """Return the number of a namespace."""
        return self._numbers.get(namespace, self._at_least)

    def list_since(self, number: int) -> list[str] | None:
        """Return the namespaces that have changed after the change of a number; None if all may have changed."""
        if number < self._at_least:
            return None
        return list(takewhile(lambda namespace: self._numbers[namespace] > number, reversed(self._numbers)))


class CapSums:
    """The sums under one cap by namespace, and the sum of the namespaces that were asked for last. Not thread-safe."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, tuple[int, GroupSums]] = {}
        self._limit = _MAX_NAMESPACES
        self._members: Collection[str] = ()
        self.summed_at = -1
        """The number of the last change that is in the sum of all."""
        self._used, self._terminating = Counter[str](), Counter[str]()
        self._invalid: dict[str, tuple[GroupUsage, ...]] = {}

    def find(self, namespace: str, change: int) -> GroupSums | None:
        """Return the sums of a namespace as of this number of its changes; None if they are not known."""
        known = self._by_namespace.get(namespace)
        return None if known is None or known[0] != change else known[1]

    def put(self, namespace: str, change: int, sums: GroupSums) -> None:
        """Keep the sums of a namespace, and correct the sum of all if it is a part of it."""
        if len(self._by_namespace) >= self._limit and namespace not in self._by_namespace:
            self._drop_others()
        before = self._by_namespace.get(namespace)
        self._by_namespace[namespace] = change, sums
        if namespace in self._members:
            self._add(namespace, sums, 1)
            if before is not None:
                self._add(namespace, before[1], -1)

    def _drop_others(self) -> None:
        """Drop the sums of namespaces that are no part of the sum of all: some of them do not exist any more."""
        kept = self._by_namespace.keys() & frozenset(self._members)
        self._by_namespace = {name: self._by_namespace[name] for name in kept}
        self._limit = max(_MAX_NAMESPACES, 2 * len(kept))

    def sum_all(
        self,
        namespaces: Collection[str],
        find: Callable[[str], GroupSums],
        changed: Collection[str] | None = None,
        change: int = -1,
    ) -> GroupSums:
        """Return the sums of namespaces together; `find` returns those of one, and has put them here.

        `changed` are the namespaces that have changed after `summed_at`, None if all may have; `change` is the number
        of the last of these changes.
        """
        if self._members is not namespaces:
            self._members, changed = namespaces, None
            self._used, self._terminating, self._invalid = Counter[str](), Counter[str](), {}
            for name in namespaces:
                if name in self._by_namespace:
                    self._add(name, self._by_namespace[name][1], 1)
        for name in namespaces if changed is None else changed:
            if name in namespaces:
                find(name)
        self.summed_at = change
        invalid = tuple(group for name in namespaces for group in self._invalid.get(name, ())) if self._invalid else ()
        return GroupSums(_create_amounts(self._used), _create_amounts(self._terminating), invalid)

    def _add(self, namespace: str, sums: GroupSums, sign: int) -> None:
        for name, amount in sums.used.items():
            self._used[name] += sign * amount
        for name, amount in sums.terminating.items():
            self._terminating[name] += sign * amount
        if sums.invalid and sign > 0:
            self._invalid[namespace] = sums.invalid
        elif sign > 0:
            self._invalid.pop(namespace, None)
