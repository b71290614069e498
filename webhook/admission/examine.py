"""Examining one object: every fault that the selected rules find, each with the place it stands at."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from webhook.accounting.name_rules import NameContext
from webhook.accounting.pod_requests import compute_pod_requests, explain_request
from webhook.accounting.problem import Problem, Reason
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.admission import quantities
from webhook.admission.codes import LIMIT_MISSING, POD_BOUND, REQUEST_NOT_LIMIT, TOO_LARGE
from webhook.admission.plan import Plan, RuleFault
from webhook.admission.quantities import Fault
from webhook.admission.selection import Selection
from webhook.admission.sites import Site, counted_name
from webhook.admission.workloads import PodView
from webhook.objects.core import PodSpec, ResourceList
from webhook.policy.model import Bounds, Enforcement, Equality, ResourceRule

_VERBS = {NameContext.NODE: "advertise", NameContext.QUOTA: "write", NameContext.LIMIT_RANGE: "write"}
"""What one does with an amount where no pod asks for it."""

MOST_FOUND = 1000
"""Where one object is refused for more faults than anyone will read, the rest are not looked for."""

Same = tuple[str, ...]
"""Equal for the same thing found again in another version of the object."""


class Found(NamedTuple):
    """A problem, the rule that minds it, and what makes it the same as one found before."""

    problem: Problem
    rule: ResourceRule
    same: Same


class _Findings:
    """What is found and was not known: of each enforcement no more than `most`.

    What a rule merely warns of never uses up the room of what is refused.
    """

    def __init__(self, known: frozenset[Same], most: int | None) -> None:
        self.kept: list[Found] = []
        self._known = known
        self._most = most
        self._counts = dict.fromkeys(Enforcement, 0)

    @property
    def full(self) -> bool:
        """Whether so much is refused that looking on would tell nobody anything."""
        return self._is_full(Enforcement.DENY)

    def add(self, found: Iterable[Found]) -> None:
        """Keep what is new and has room."""
        for each in found:
            enforcement = each.rule.enforcement
            if each.same not in self._known and not self._is_full(enforcement):
                self._counts[enforcement] += 1
                self.kept.append(each)

    def _is_full(self, enforcement: Enforcement) -> bool:
        return self._most is not None and self._counts[enforcement] >= self._most


def examine(  # noqa: PLR0913  # two settings by name, of which callers rarely need any
    places: list[Site],
    view: PodView | None,
    selection: Selection,
    *,
    filling: bool,
    known: frozenset[Same] = frozenset(),
    most: int | None = MOST_FOUND,
) -> list[Found]:
    """Judge every quantity and name of an object.

    `filling` when missing limits are about to be filled in; `known` is passed over; of each enforcement no more than
    `most` are found (None: all, which the size of the object bounds).
    """
    found = _Findings(known, most)
    names: set[str] = set()
    told: set[str] = set()
    large = False
    for site in places:
        path, identity, place, lists, pair, bounded = site
        quota = place is NameContext.QUOTA
        verb = _VERBS.get(place, quantities.ASK)
        for field, entries in lists:
            for written, raw in entries.items():
                plan = selection.plan(counted_name(written) if quota else written)
                if plan.idle:
                    continue
                names.add(plan.name)
                token = bytes(raw)
                if pair and field == "limits" and (copied := pair[0].get(written)) and bytes(copied) == token:
                    continue  # the API server copied it: one fault is one problem
                reading = plan.read(token, bounded=bounded, verb=verb)
                large = large or reading.large
                faults = plan.name_faults(written, place) + reading.faults
                if faults:
                    told |= {written for each in faults if each.fault.code == TOO_LARGE.number}
                    found.add(_located(path, identity, (field, written, token), faults))
                    if found.full:
                        return found.kept
        if pair:
            found.add(_unequal(site, pair, selection, filling=filling))
    if view is not None and view.pod.spec is not None and (large or selection.sums_pods):
        found.add(_sums(view, view.pod.spec, names - told, selection))
    return found.kept


def _located(path: str, identity: str, entry: tuple[str, str, bytes], faults: tuple[RuleFault, ...]) -> Iterator[Found]:
    field, name, token = entry
    where = f"{path}{field}[{name}]"
    for rule, fault in ((each.rule, each.fault) for each in faults):
        yield _found(where, rule, fault, (identity, field, name, token.decode("utf-8", "replace")))


def _found(where: str, rule: ResourceRule, fault: Fault, same: tuple[str, ...]) -> Found:
    problem = Problem(where, fault.code, fault.reason, fault.message, value=fault.value, rule=rule.name)
    return Found(problem, rule, (fault.code, rule.name, *same))


def _unequal(
    site: Site, pair: tuple[ResourceList, ResourceList], selection: Selection, *, filling: bool
) -> Iterator[Found]:
    requests, limits = pair
    for name, raw in requests.items():
        plan = selection.plan(name)
        if not plan.equality:
            continue
        request = bytes(raw)
        limit = bytes(limits[name]) if name in limits else None
        if request == limit:
            continue
        fault = _missing(plan, request) if limit is None else _different(plan, request, limit)
        if fault is None:
            continue
        where = f"{site.path}limits" if limit is None else f"{site.path}requests[{name}]"
        for rule, equality in plan.equality:
            if limit is not None or not (filling and equality is Equality.FILL):
                yield _found(where, rule, fault, (site.identity, name, str(request), str(limit)))


def _missing(plan: Plan, request: bytes) -> Fault | None:
    try:
        asked = Quantity.from_json(request)
    except QuantityError:
        return None
    message = (
        f"{plan.name} is requested without a limit; what is not overcommitted needs both, and the same: "
        f"set limits[{plan.name}] to {_choice(plan, asked)}"
    )
    return Fault(LIMIT_MISSING.number, Reason.REQUIRED, "", message)


def _different(plan: Plan, request: bytes, limit: bytes) -> Fault | None:
    try:
        asked, most = Quantity.from_json(request), Quantity.from_json(limit)
    except QuantityError:
        return None
    if asked == most:
        return None
    larger = max(asked, most)
    choice = larger if larger.is_whole or not plan.whole else Quantity.from_int(larger.value())
    message = (
        f"request {asked} and limit {most} of {plan.name} differ; it cannot be overcommitted: set both to {choice}"
    )
    return Fault(REQUEST_NOT_LIMIT.number, Reason.INVALID, asked.text, message)


def _choice(plan: Plan, quantity: Quantity) -> Quantity:
    """The amount to advise: one that no other check of this plan refuses for being a fraction."""
    return quantity if quantity.is_whole or not plan.whole else Quantity.from_int(quantity.value())


def _sums(view: PodView, spec: PodSpec, names: set[str], selection: Selection) -> Iterator[Found]:
    try:
        effective = compute_pod_requests(spec)
    except QuantityError:
        return  # some entry is unreadable, and its rule says so
    for name in sorted(names & effective.quantities.keys()):
        total, plan = effective.quantities[name], selection.plan(name)
        where = f"{view.path}spec"
        for rule in plan.whole:
            if total.is_beyond_int64:
                yield _found(where, rule, quantities.too_large(f"{total} {name} in all"), ("sum", name, total.text))
        for rule, bounds in plan.per_pod:
            for message in _outside(
                f"the pod asks for {total} {name} in all ({explain_request(effective, name)})", total, bounds
            ):
                fault = Fault(POD_BOUND.number, Reason.INVALID, total.text, message)
                yield _found(where, rule, fault, ("sum", name, total.text))


def _outside(asks: str, total: Quantity, bounds: Bounds) -> Iterator[str]:
    if total.sign <= 0:
        return
    if bounds.min is not None and total < bounds.min:
        yield f"{asks}, less than the {bounds.min} that a pod must ask for"
    if bounds.max is not None and total > bounds.max:
        yield f"{asks}, more than the {bounds.max} that one pod may have"
    if bounds.multiple_of is not None and not quantities.is_multiple(total, bounds.multiple_of):
        around = " or ".join(each.text for each in quantities.multiples_around(total, bounds.multiple_of))
        yield f"{asks}, not a multiple of {bounds.multiple_of}: ask for {around}"
    if bounds.one_of and total not in bounds.one_of:
        yield f"{asks}: ask for one of {', '.join(one.text for one in bounds.one_of)}"
