"""The usage of each resource of a ledger: its limits, and the used, reserved and free amounts.

One rule chooses the limits and the used amount, for the report of `tallygate usage` and for the objects that the gate
publishes: the smaller limit of policy and ledger (docs/design/caps.md, rule 8), and the used amount of the ledger where
it counts the resource by every way to a device, else the amount that stored pods and claims use.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tallygate.accounting.amounts import Amounts
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.limit_schedule import LimitPeriod
from tallygate.cluster.consumers import CountedUsage
from tallygate.state.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """The usage of one resource of a ledger, in the amounts of accounting.

    `used` is that of the ledger if it `is_from_ledger`, else that of the stored pods and claims, None if it is unknown.
    `hard` and `soft` are None without such a limit, `period` without an override of the hard one, and so is `reserved`
    without a ledger. `percent` is the hard limit as it is written, None for an amount, and `capacity` what it is of,
    None if that is unknown. `falls_to` is the limit by less capacity that does not act yet. `unspent_by_others` is what
    is guaranteed to other namespaces than the one whose usage it is, and not used by them yet; 0 for that of all.
    """

    name: str
    hard: int | None
    soft: int | None
    used: int | None
    reserved: int | None
    is_from_ledger: bool = True
    period: LimitPeriod | None = None
    percent: str | None = None
    capacity: int | None = None
    falls_to: int | None = None
    unspent_by_others: int = 0

    @property
    def charged(self) -> int | None:
        """The amount that counts against the cap, None if the used amount is unknown."""
        return None if self.used is None else self.used + (self.reserved or 0)

    @property
    def free(self) -> int | None:
        """The free amount, None without a hard limit, or if the used amount is unknown."""
        if self.hard is None or self.charged is None:
            return None
        return max(0, self.hard - self.charged - self.unspent_by_others)

    @property
    def is_above_soft(self) -> bool:
        """Whether the charged amount exceeds the soft limit."""
        return self.soft is not None and (self.charged or 0) > self.soft

    @property
    def is_full(self) -> bool:
        """Whether nothing is free of a limit that is not 0."""
        return bool(self.hard) and self.free == 0


def list_resource_usages(
    cap: ActiveCap, ledger: Ledger | None, count_usage: Callable[[], CountedUsage], *, is_settled: bool = True
) -> Iterator[ResourceUsage]:
    """Yield the usage of each resource that a cap counts, by name.

    A limit that is a percentage of an unknown capacity is that of the ledger. If the capacities of the cap are not
    settled, so is one that is smaller by them: less capacity acts later.

    `cap` has the limits of the ledger's group or namespace, and its mappings of device classes. `count_usage` counts
    stored pods and claims; it is called if the ledger does not count a resource.
    """
    counted = list_counted(cap, ledger)
    count = None if counted == cap.resources else count_usage()
    limits = cap.hard if ledger is None else _take_smaller_limits(cap.hard, ledger.hard)
    falls = {} if ledger is None or is_settled else _list_falls(cap, ledger.hard)
    if ledger is not None and (falls or cap.limits.unknown):
        kept = {name: limit for name, limit in ledger.hard.items() if name in falls or name in cap.limits.unknown}
        limits = Amounts({**limits, **kept})
    for name in sorted(cap.resources):
        is_counted = ledger is not None and name in counted
        used = ledger.used.get(name, 0) if ledger is not None and is_counted else None
        if count is not None and not is_counted and name not in count.uncounted:
            used = count.used.get(name, 0)
        yield ResourceUsage(
            name=name,
            hard=limits.get(name),
            soft=cap.soft.get(name),
            used=used,
            reserved=None if ledger is None else ledger.reserved.get(name, 0),
            is_from_ledger=is_counted,
            period=cap.limits.periods.get(name),
            percent=_find_percent(cap, name),
            capacity=cap.limits.shares[name].capacity.amount if _is_share(cap, name) else None,
            falls_to=falls.get(name),
        )


def _is_share(cap: ActiveCap, name: str) -> bool:
    """Return whether the hard limit of a name is a share of a capacity at present, and no override replaces it."""
    share, period = cap.limits.shares.get(name), cap.limits.periods.get(name)
    return share is not None and (period is None or period.hard == share.limit)


def _find_percent(cap: ActiveCap, name: str) -> str | None:
    is_written = name in cap.limits.unknown or _is_share(cap, name)
    return str(cap.definition.hard[name]) if is_written else None


def _list_falls(cap: ActiveCap, ledger_limits: Amounts) -> dict[str, int]:
    """Return the smaller limits by the present capacity, where a ledger still has a larger one."""
    shares = cap.limits.shares
    return {
        name: shares[name].limit
        for name in shares
        if _is_share(cap, name) and cap.hard[name] < ledger_limits.get(name, 0)
    }


def list_counted(cap: ActiveCap, ledger: Ledger | None) -> frozenset[str]:
    """Return the resources of a cap that its ledger counts by every way to a device."""
    if ledger is None or ledger.initializer:
        return frozenset()
    names = cap.resources & ledger.resources
    return frozenset(name for name in names if cap.list_sources((name,)) <= ledger.resources)


def _take_smaller_limits(policy_limits: Amounts, ledger_limits: Amounts) -> Amounts:
    return Amounts({name: min(limit, ledger_limits.get(name, limit)) for name, limit in policy_limits.items()})
