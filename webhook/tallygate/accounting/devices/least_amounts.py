"""The least amounts that claims can get of the devices that ResourceSlices publish, under the names of a cap.

Each amount is a lower bound: whichever devices kube-scheduler allocates, a claim counts at least as much. So a device
is possible if all selectors of its class and of the request match it, or if one of them is undecided. Taints,
constraints, other claims and the amounts that a whole device must have are left out: they only exclude devices. A
request for n devices gets the n least amounts, since it gets no device twice. Mode `All` gets all devices that match
and that one node reaches, so at least those of one slice, except devices that the scheduler may leave out. Of several
alternatives the least counts. A shared device counts with the least that the request consumes of it.

A request that no published devices can serve counts 0: nothing is known of the devices that others may publish.

The work of one review is limited, by the costs of expressions: beyond the limit there are no amounts. Results are kept
for each expression and slice, so that a later review continues. Sources: allocateOne and validateDeviceRequest in
k8s.io/dynamic-resource-allocation/structured/internal/experimental, v1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple, TypeVar

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts
from tallygate.accounting.devices import slice_devices
from tallygate.accounting.devices.device_meter import DeviceMeter
from tallygate.objects import devices

MAX_OWN_WORK = 20_000
"""The limit of a review for the expressions and capacities in claims, which tenants write."""
MAX_SHARED_WORK = 100_000
"""The limit of a review for the expressions of classes and policies, which are evaluated once for each device."""

_MAX_TABLES = 64
_MAX_RESULTS = 512
_T = TypeVar("_T")
_Tables = dict[object, dict[str, _T]]

SliceLister = Callable[[], Sequence[slice_devices.PublishedSlice] | None]
"""Returns all slices that count, the same object until one changes; None if some are not known."""

SelectorFinder = Callable[[str], tuple[str, ...] | None]
"""Returns the expressions that select the devices of a class; None if the class is unknown."""


class _Requirement(NamedTuple):
    """One alternative of a request; mode `All` has no `number`, and `capacities` are quantities by name."""

    class_selectors: tuple[str, ...]
    own_selectors: tuple[str, ...]
    capacities: tuple[tuple[str, bytes], ...]
    number: int | None


class LeastAmounts:
    """The least amounts by the slices and classes of a cluster. Any thread may use it."""

    def __init__(self, list_slices: SliceLister, find_selectors: SelectorFinder) -> None:
        self.list_slices = list_slices
        self.find_selectors = find_selectors
        self._matches: tuple[_Tables[slice_devices.SliceMatches], _Tables[slice_devices.SliceMatches]] = {}, {}
        self._amounts: tuple[_Tables[slice_devices.SliceAmounts], _Tables[slice_devices.SliceAmounts]] = {}, {}
        self._results: tuple[Sequence[slice_devices.PublishedSlice], dict[object, int | None]] = ((), {})

    def start_review(self) -> LeastAmountsReview:
        return LeastAmountsReview(self)

    def get_results(self, slices: Sequence[slice_devices.PublishedSlice]) -> dict[object, int | None]:
        """Return the results for these slices, to read and to extend."""
        known, results = self._results
        if known is not slices or len(results) >= _MAX_RESULTS:
            results = {}
            self._results = slices, results
        return results

    def get_matches(self, text: str, slice_count: int, *, is_own: bool) -> dict[str, slice_devices.SliceMatches]:
        """Return the results of an expression by the name of the slice, to read and to extend.

        Tenants may write many expressions (`is_own`): these drop no results of classes.
        """
        return _get_table(self._matches[is_own], text, slice_count)

    def get_amounts(self, key: object, slice_count: int, *, is_own: bool) -> dict[str, slice_devices.SliceAmounts]:
        """Return the amounts of a meter by the name of the slice, to read and to extend.

        They may be for the capacities that a claim requests (`is_own`).
        """
        return _get_table(self._amounts[is_own], key, slice_count)


class LeastAmountsReview:
    """The least amounts for the claims of one review, and the devices that expressions match.

    `slices` are all that count, None if some are not known.
    """

    def __init__(self, least_amounts: LeastAmounts) -> None:
        self._shared = least_amounts
        self.slices = least_amounts.list_slices()
        self.find_selectors = least_amounts.find_selectors
        self._work = slice_devices.Work(MAX_SHARED_WORK), slice_devices.Work(MAX_OWN_WORK)

    def compute(self, claims: Iterable[devices.ResourceClaim], meters: Mapping[str, DeviceMeter]) -> Amounts:
        """Return the least that these claims together count once they are allocated, by name.

        Names of which nothing is known are absent.
        """
        requests = [request for claim in claims for request in _list_requests(claim)] if self.slices else []
        amounts: dict[str, int] = {}
        try:
            for name, meter in meters.items():
                if amount := sum(self._compute_request(request, meter) for request in requests):
                    amounts[name] = amount
        except slice_devices.WorkLimitError:
            pass  # the names until here are complete
        return Amounts(amounts) if amounts else NO_AMOUNTS

    def _compute_request(self, request: devices.DeviceRequest, meter: DeviceMeter) -> int:
        """Return the least amount of a request; 0 if one of its alternatives is unknown."""
        if request.exactly is not None and request.exactly.admin_access:
            return 0
        alternatives = [request.exactly] if request.exactly is not None else request.first_available or ()
        least = [self._compute_alternative(alternative, meter) for alternative in alternatives]
        return min((0 if amount is None else amount for amount in least), default=0)

    def _compute_alternative(
        self, request: devices.ExactDeviceRequest | devices.DeviceSubRequest, meter: DeviceMeter
    ) -> int | None:
        class_selectors = self.find_selectors(request.device_class_name)
        if class_selectors is None:
            return None
        requirement = _create_requirement(request, class_selectors)
        results, key = self._shared.get_results(self.slices or ()), (requirement, meter.identity)
        if key not in results:
            results[key] = self._search(requirement, meter)
        return results[key]

    def _search(self, requirement: _Requirement, meter: DeviceMeter) -> int | None:
        """Return the least amount of a requirement; None if the published devices cannot serve it."""
        if requirement.number == 0:
            return 0
        slices = sorted(self._list_amounts(requirement, meter), key=lambda each: each.least)
        if requirement.number is None:
            return self._find_least_slice(requirement, slices)
        least: list[int] = []
        for resource_slice in slices:
            if len(least) >= requirement.number and resource_slice.least >= least[-1]:
                break
            _, possible = self._match(resource_slice.published, requirement)
            if possible:
                least = nsmallest(requirement.number, [*least, *_select(resource_slice.amounts, possible)])
        return sum(least) if len(least) >= requirement.number else None

    def _find_least_slice(self, requirement: _Requirement, slices: Iterable[slice_devices.SliceAmounts]) -> int | None:
        least: int | None = None
        for resource_slice in slices:
            if least is not None and resource_slice.least >= least:
                break
            sure, possible = self._match(resource_slice.published, requirement)
            if not possible:
                continue
            together = 0 if resource_slice.published.selects_per_device else sure & ~resource_slice.skippable
            amount = (
                sum(_select(resource_slice.amounts, together))
                if together
                else min(_select(resource_slice.amounts, possible))
            )
            least = amount if least is None else min(least, amount)
        return least

    def _match(self, published: slice_devices.PublishedSlice, requirement: _Requirement) -> tuple[int, int]:
        """Return the devices that all selectors match, and those that they may match."""
        sure = possible = (1 << len(published.devices)) - 1
        for is_own, texts in enumerate((requirement.class_selectors, requirement.own_selectors)):
            for text in texts:
                matches = self.evaluate(text, published, is_own=bool(is_own))
                sure, possible = sure & matches.sure, possible & matches.possible
                if not possible:
                    return 0, 0
        return sure, possible

    def get_work(self, *, is_own: bool) -> slice_devices.Work:
        """Return the remaining work for the expressions of claims (`is_own`), or for those of classes."""
        return self._work[is_own]

    def evaluate(
        self, text: str, published: slice_devices.PublishedSlice, *, is_own: bool
    ) -> slice_devices.SliceMatches:
        """Return the devices of a slice that an expression matches, evaluated once for each slice.

        Raises:
            WorkLimitError: if that is more work than is allowed.
        """
        work = self._work[is_own]
        table = self._shared.get_matches(text, len(self.slices or ()), is_own=is_own)
        matches = table.get(published.name)
        if matches is None or matches.published is not published:
            if not table:
                work.spend(len(text))  # to compile it
            matches = table[published.name] = slice_devices.evaluate_slice(text, published, work)
        return matches

    def _list_amounts(self, requirement: _Requirement, meter: DeviceMeter) -> list[slice_devices.SliceAmounts]:
        capacities = requirement.capacities
        is_own = bool(capacities)
        table = self._shared.get_amounts((meter.identity, capacities), len(self.slices or ()), is_own=is_own)
        found: list[slice_devices.SliceAmounts] = []
        for resource_slice in self.slices or ():
            amounts = table.get(resource_slice.name)
            if amounts is None or amounts.published is not resource_slice:
                amounts = table[resource_slice.name] = slice_devices.measure_slice(
                    resource_slice, meter, dict(capacities), self._work[is_own]
                )
            if amounts.amounts:
                found.append(amounts)
        return found


def _list_requests(claim: devices.ResourceClaim) -> Sequence[devices.DeviceRequest]:
    return ((claim.spec or devices.ResourceClaimSpec()).devices or devices.DeviceClaim()).requests or ()


def _create_requirement(
    request: devices.ExactDeviceRequest | devices.DeviceSubRequest, class_selectors: tuple[str, ...]
) -> _Requirement:
    requests = (request.capacity.requests if request.capacity else None) or {}
    is_all = request.allocation_mode == "All"
    return _Requirement(
        class_selectors,
        devices.list_expressions(request.selectors),
        tuple(sorted((name, bytes(quantity)) for name, quantity in requests.items())),
        None if is_all else 1 if request.count is None else max(request.count, 0),
    )


def _select(amounts: tuple[int, ...], bits: int) -> list[int]:
    return [amount for index, amount in enumerate(amounts) if bits >> index & 1]


def _get_table(tables: _Tables[_T], key: object, slice_count: int) -> dict[str, _T]:
    """Return the table of a key; a new one if it is missing, or has many slices that exist no more."""
    table = tables.get(key)
    if table is None or len(table) > 2 * slice_count + _MAX_TABLES:
        if len(tables) >= _MAX_TABLES:
            tables.clear()
        table = tables[key] = {}
    return table
