"""The pods behind a number: what each holds, and how that adds up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.charge import PODS
from webhook.accounting.names import LIMITS_PREFIX
from webhook.accounting.pod_requests import compute_limits, compute_requests, explain_request
from webhook.accounting.pod_resources import PodResources, parse_pod_resources
from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.resize import ResizeView, apply_status
from webhook.admission.capping import ActiveCap
from webhook.cli.cluster.seen import Seen
from webhook.cli.report.table import aligned, harmless
from webhook.cli.using.choice import Chosen
from webhook.cli.using.table import where
from webhook.objects.core import Pod, PodSpec
from webhook.state.ledger.ledger import Ledger, Reservation
from webhook.state.watch.shapes import Shape

_NOTHING = Amounts()


class Holder(NamedTuple):
    """What one pod holds of one name, or is promised, and why so much."""

    namespace: str
    pod: str
    uid: str
    node: str
    state: str
    amount: int
    how: str


@dataclass(frozen=True, slots=True)
class Behind:
    """Who is behind the numbers of one name of a ledger; `tally` is what the ledger says, None without one."""

    cap: str
    namespace: str
    members: int
    name: str
    tally: int | None
    holders: tuple[Holder, ...]

    @property
    def held(self) -> int:
        """What the pods hold that are there."""
        return sum(holder.amount for holder in self.holders if holder.state != _PROMISED)


_HELD, _GOING, _PROMISED = "held", "terminating", "promised"


def behind(seen: Seen, chosen: Chosen) -> Iterator[Behind]:
    """Who is behind each number of a ledger."""
    counted, key, members = chosen
    row = seen.ledgers.rows.get(key)
    ledger = None if row is None else row.ledger
    found = [*_holders(seen, counted, members), *(_promised(ledger) if ledger else ())]
    for name in sorted(counted.resources):
        tally = None if ledger is None else ledger.used.get(name, 0)
        holders = tuple(holder for each, holder in found if each == name)
        yield Behind(counted.definition.name, key.namespace, len(members), name, tally, holders)


def title(each: Behind) -> str:
    """What the pods are behind of."""
    said = "" if each.tally is None else f", by the ledger {format_amount(each.name, each.tally)}"
    held = f"held {format_amount(each.name, each.held)}{said}"
    return harmless(f"{each.cap}  {where(each.namespace, each.members)}  {each.name}: {held}")


def rows(each: Behind) -> list[str]:
    """The pods, a line each."""
    cells = [
        (f"{held.namespace}/{held.pod}", held.node, held.state, format_amount(each.name, held.amount), held.how)
        for held in each.holders
    ]
    return aligned(("POD", "NODE", "STATE", "AMOUNT", "HOW"), cells) if cells else ["no pod"]


def data(each: Behind) -> dict[str, Any]:
    """The same for a program; amounts are milli-cpu for cpu and whole units otherwise."""
    return {
        "cap": each.cap,
        "namespace": each.namespace or None,
        "namespaces": each.members,
        "resource": each.name,
        "held": each.held,
        "tally": each.tally,
        "pods": [holder._asdict() for holder in each.holders],
    }


class _Why(NamedTuple):
    """What every pod of one shape holds of a name, and how that adds up."""

    name: str
    amount: int
    how: str


def _holders(seen: Seen, counted: ActiveCap, members: frozenset[str]) -> Iterator[tuple[str, Holder]]:
    """By name counted, the pods in the order of their names."""
    known: dict[Shape, list[_Why]] = {}
    for namespace in sorted(members):
        for place in sorted(seen.pods.within(namespace), key=lambda place: place.name):
            if place.has_ended:
                continue
            if place.shape not in known:
                known[place.shape] = list(_whys(counted, place.shape.pod()))
            state = _GOING if place.is_terminating else _HELD
            for why in known[place.shape]:
                who = place.namespace, place.name, place.uid, place.node
                yield why.name, Holder(*who, state, why.amount, why.how)


def _whys(counted: ActiveCap, pod: Pod) -> Iterator[_Why]:
    try:
        held = counted.compute_charge(pod).amounts
        ask = _asked(pod)
    except QuantityError as error:
        yield from (_Why(name, 0, f"cannot be read: {error}") for name in counted.resources)
        return
    yield from (_Why(name, amount, _how(ask, name)) for name, amount in held.items())


def _asked(pod: Pod) -> PodResources:
    """What a cap charges for (accounting.caps)."""
    return apply_status(parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.CHARGED)


def _how(ask: PodResources, name: str) -> str:
    if name == PODS:
        return "one pod"
    resource = name.removeprefix(LIMITS_PREFIX)
    effective = compute_requests(ask) if resource == name else compute_limits(ask)
    return explain_request(effective, resource).removeprefix(f"{resource} = ")


def _promised(ledger: Ledger) -> Iterator[tuple[str, Holder]]:
    for uid, row in sorted(ledger.reservations.items(), key=lambda each: (each[1].namespace, each[1].name)):
        for name, amount in row.compute_reserved().items():
            yield name, Holder(row.namespace, row.name, uid, "", _PROMISED, amount, _promise(row, name))


def _promise(row: Reservation, name: str) -> str:
    if name in row.counted:
        return (
            f"to {row.operation}: {format_amount(name, row.requested[name])}, of which "
            f"{format_amount(name, row.counted[name])} "
            "are counted"
        )
    return f"to {row.operation}: not counted yet"
