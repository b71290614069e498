"""The requests of claims, checked and prepared for one node (validateDeviceRequest in allocator_incubating.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tallygate.accounting.allocation.pools import Pool, TargetNode, reaches
from tallygate.accounting.allocation.published_devices import (
    AllocatableDevice,
    AllocatableSlice,
    DeviceContent,
    PreventingTaint,
)
from tallygate.accounting.cel.loops import MAX_COST
from tallygate.accounting.cel.syntax import ExpressionError
from tallygate.accounting.devices.consumed_capacity import Amounts, CapacityRequestError
from tallygate.accounting.devices.expression import CompiledSelector, UndecidedMatchError, compile_selector
from tallygate.accounting.devices.slice_devices import EVALUATION, Work, WorkLimitError
from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.errors import TallygateError
from tallygate.objects.devices import (
    CapacityRequirements,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)

MAX_RESULTS: Final = 32
"""The most devices that one claim can have (AllocationResultsMaxSize)."""

_MAX_SELECTORS: Final = 256
_MAX_LENGTH: Final = 200_000  # of all compiled selectors, which take 70 bytes for each character
_MAX_RESULTS: Final = 400_000
_MAX_RESULTS_OF_ONE: Final = 100_000
_COMPILATION: Final = 10  # the work for each character
_DEVICE: Final = 3  # the work for one of all devices
_ALL: Final = "All"
_EXACT: Final = "ExactCount"
_MISSING_KEY: Final = "no such key:"
_MISSING_KEY_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue())"
    " or guarding the check with has() for optional fields"
)


class AllocationError(TallygateError):
    """An error that ends the attempt on every node, in the words of kube-scheduler."""


class NodeAllocationError(AllocationError):
    """An error on one node; another node may have devices."""


class UndecidedAllocationError(TallygateError):
    """kube-scheduler has a result, and this package has not: an expression, or the size of the search."""


TOO_MUCH_WORK: Final = "the search for devices takes more work than is allowed"
"""The reason why an attempt has no result."""


class Selectors:
    """The compiled selectors, and their results by device; for one thread at a time.

    `work` is what the present attempt may still do.
    """

    def __init__(self, work: Work, version: KubernetesVersion) -> None:
        self.version = version
        self._reads_lists = version.has(Switch.READS_LIST_ATTRIBUTES)
        self._names_device = version.has(Switch.NAMES_DEVICE_IN_ERRORS)
        self.work = work
        self._matchers: dict[str, _Matcher] = {}
        self._time = 0

    def match(self, owner: str, selectors: Iterable[str], device: AllocatableDevice) -> bool:
        """Return whether a device meets all selectors of a class or of a claim.

        Raises:
            AllocationError: if kube-scheduler cannot evaluate one.
            UndecidedAllocationError: if this package cannot.
        """
        for index, text in enumerate(selectors):
            matcher = self._matchers.get(text) or self._create_matcher(text)
            matcher.used_at = self._time
            if matcher.error is not None:
                problem = f"compilation failed: {_format_compile_error(text, matcher.error)}"
                message = f"{owner}: selector #{index}: CEL compile error: {problem}"
                raise (UndecidedAllocationError if matcher.error.is_unsupported else AllocationError)(message)
            if device.content.list_attribute and not self._reads_lists:
                problem = f"attribute {device.content.list_attribute}: unsupported attribute value"
                raise AllocationError(f"{owner}: selector #{index}: CEL runtime error: {problem}")
            try:
                if not matcher.matches(device.content, self.work):
                    return False
            except UndecidedMatchError as error:
                on_device = f" on device {device.id}" if self._names_device else ""
                hint = _MISSING_KEY_HINT if self._names_device and _MISSING_KEY in str(error) else ""
                message = f"{owner}: selector #{index}{on_device}: CEL runtime error: {error}{hint}"
                raise (UndecidedAllocationError if error.is_unsupported else AllocationError)(message) from None
        return True

    def create_pool_error(self, message: str) -> AllocationError:
        """Return the error of a pool that is incomplete or invalid, for a request for all devices."""
        skips_node = self.version.has(Switch.SKIPS_NODES_OF_UNUSABLE_POOLS)
        return NodeAllocationError(message) if skips_node else AllocationError(message)

    def forget(self, contents: Iterable[DeviceContent]) -> None:
        """Drop the results of devices that are published no more."""
        for content in contents:
            for matcher in self._matchers.values():
                matcher.known.pop(content, None)

    def _create_matcher(self, text: str) -> _Matcher:
        """Compile a selector; those that were not used for the longest time make room for it."""
        spend(self.work, _COMPILATION * len(text))
        self._time += 1
        while self._matchers and self._is_full():
            del self._matchers[min(self._matchers.items(), key=lambda item: item[1].used_at)[0]]
        matcher = self._matchers[text] = _Matcher(text)
        return matcher

    def _is_full(self) -> bool:
        return (
            len(self._matchers) >= _MAX_SELECTORS
            or sum(map(len, self._matchers)) > _MAX_LENGTH
            or sum(len(matcher.known) for matcher in self._matchers.values()) > _MAX_RESULTS
        )


class _Matcher:
    """A compiled selector with its results, or the error of its compilation."""

    __slots__ = ("_selector", "error", "known", "used_at")

    def __init__(self, text: str) -> None:
        self.used_at = 0
        self.known: dict[DeviceContent, bool] = {}
        self.error: ExpressionError | None = None
        self._selector: CompiledSelector | None = None
        try:
            self._selector = compile_selector(text)
        except ExpressionError as error:
            self.error = error

    def matches(self, content: DeviceContent, work: Work) -> bool:
        """Return whether the selector matches a device.

        Raises:
            UndecidedMatchError: if that cannot be evaluated.
            UndecidedAllocationError: if that takes more work than is allowed.
        """
        found = self.known.get(content)
        if found is None:
            assert self._selector is not None  # noqa: S101  # else there is an error
            if len(self.known) >= _MAX_RESULTS_OF_ONE:
                self.known.clear()
            try:
                found, cost = self._selector.evaluate(content.expressed, max(min(work.remaining, MAX_COST), 0))
            except UndecidedMatchError as error:
                spend(work, EVALUATION + error.cost)
                raise
            spend(work, EVALUATION + cost)
            self.known[content] = found
        return found


def spend(work: Work, amount: int) -> None:
    """Reduce the work of an attempt.

    Raises:
        UndecidedAllocationError: if that was too much.
    """
    try:
        work.spend(amount)
    except WorkLimitError:
        raise UndecidedAllocationError(TOO_MUCH_WORK) from None


def _format_compile_error(text: str, error: ExpressionError) -> str:
    """Return an error as cel-go prints it: the message, the line, and a caret below the position."""
    line, column = error.position.line, error.position.column
    shown = text.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column}: {error.message}\n | {shown}\n | {'.' * (column - 1)}^"


Candidate = tuple[Pool, AllocatableSlice, AllocatableDevice]
"""A device in its slice and pool."""


class PlannedRequest(NamedTuple):
    """A request, or one alternative of a request (`parent` is then the name of the request).

    `every_device` are the devices of a request for all of them.
    """

    name: str
    parent: str
    class_name: str
    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    number: int
    is_all: bool
    has_admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    requested: Mapping[str, Quantity]
    every_device: tuple[Candidate, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in the results of an allocation."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def names(self) -> tuple[str, str]:
        """The names of the request and of its alternative, as constraints compare them."""
        return (self.parent, self.name) if self.parent else (self.name, "")

    @property
    def selector_count(self) -> int:
        """The number of selectors that a device must meet."""
        return len(self.class_selectors) + len(self.selectors)

    def tolerates(self, taint: PreventingTaint) -> bool:
        """Return whether a toleration permits the taint (ToleratesTaint in resourceclaim/devicetoleration.go)."""
        return any(_tolerates(toleration, taint) for toleration in self.tolerations)


class RequestPlanner:
    """Prepares the requests of claims for one node, with the pools that it can reach.

    `has_room` returns whether a device is one of those that a request for all devices gets.
    """

    def __init__(
        self,
        node: TargetNode,
        pools: Sequence[Pool],
        classes: Mapping[str, DeviceClass],
        selectors: Selectors,
        has_room: Callable[[AllocatableDevice, Amounts], bool],
    ) -> None:
        self._node = node
        self._pools = pools
        self._classes = classes
        self._selectors = selectors
        self._has_room = has_room

    def plan(self, claim: ResourceClaim) -> list[tuple[PlannedRequest, ...]]:
        """Return the alternatives of each request of a claim; a request without alternatives is its only one.

        Raises:
            AllocationError, UndecidedAllocationError: if the claim cannot be allocated on any node.
        """
        devices = claim.spec.devices if claim.spec else None
        planned = []
        least = 0
        for request in (devices.requests if devices else None) or ():
            alternatives = tuple(self._plan_alternatives(claim, request))
            planned.append(alternatives)
            count = min(alternative.number for alternative in alternatives)
            if self._selectors.version.has(Switch.LIMITS_DEVICES_BY_REQUEST) and least + count > MAX_RESULTS:
                limit = f"exceeds the claim limit of {MAX_RESULTS}, with {least} already accounted for"
                raise AllocationError(
                    f"claim {format_name(claim)}, request {request.name}: adding {count} devices {limit}"
                )
            least += count
        if least > MAX_RESULTS:
            limit = f"number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {format_name(claim)}: {limit}")
        return planned

    def is_selectable(
        self, claim: ResourceClaim, request: PlannedRequest, published: AllocatableSlice, device: AllocatableDevice
    ) -> bool:
        """Return whether a device is one that the request asks for, and the node can reach it.

        Raises:
            AllocationError, UndecidedAllocationError: as `Selectors.match`.
        """
        return (
            self._selectors.match(f"class {request.class_name}", request.class_selectors, device)
            and self._selectors.match(f"claim {format_name(claim)}", request.selectors, device)
            and (not published.has_nodes_by_device or reaches(device.content.nodes, self._node))
        )

    def _plan_alternatives(self, claim: ResourceClaim, request: DeviceRequest) -> Iterator[PlannedRequest]:
        if request.first_available:
            for alternative in request.first_available:
                yield self._plan_request(claim, alternative, alternative.name, request.name)
        else:
            yield self._plan_request(claim, request.exactly or ExactDeviceRequest(), request.name, "")

    def _plan_request(
        self, claim: ResourceClaim, request: ExactDeviceRequest | DeviceSubRequest, name: str, parent: str
    ) -> PlannedRequest:
        owner = f"claim {format_name(claim)}, request {name}"
        selectors = _list_expressions(owner, request.selectors)
        class_name = request.device_class_name
        if not class_name:
            raise AllocationError(f"{owner}: missing device class name (unsupported request type?)")
        device_class = self._classes.get(class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{class_name}" not found'
            raise AllocationError(f"{owner}: could not retrieve device class {class_name}: {missing}")
        mode = request.allocation_mode or _EXACT
        if mode not in (_ALL, _EXACT):
            raise AllocationError(f"{owner}: unsupported count mode {mode}")
        planned = PlannedRequest(
            name,
            parent,
            class_name,
            _list_expressions(f"class {class_name}", device_class.spec.selectors if device_class.spec else None),
            selectors,
            1 if request.count is None else request.count,
            mode == _ALL,
            isinstance(request, ExactDeviceRequest) and bool(request.admin_access),
            tuple(request.tolerations or ()),
            _read_requested(owner, request.capacity),
        )
        if not planned.is_all:
            return planned
        every = tuple(self._find_every_device(claim, owner, planned))
        return planned._replace(every_device=every, number=len(every))

    def _find_every_device(self, claim: ResourceClaim, owner: str, request: PlannedRequest) -> Iterator[Candidate]:
        for pool in self._pools:
            if not pool.is_usable:
                state = "being updated" if not pool.is_complete else "invalid"
                raise self._selectors.create_pool_error(
                    f"{owner}: asks for all devices, but resource pool {pool.id} is currently {state}"
                )
            for resource_slice in pool.slices:
                spend(self._selectors.work, _DEVICE * len(resource_slice.devices))
                for device in resource_slice.devices:
                    if self.is_selectable(claim, request, resource_slice, device) and self._check_room(
                        owner, request, device
                    ):
                        yield pool, resource_slice, device

    def _check_room(self, owner: str, request: PlannedRequest, device: AllocatableDevice) -> bool:
        try:
            return self._has_room(device, request.requested)
        except CapacityRequestError as error:
            raise AllocationError(f"{owner}: checking capacity for device {device.id.device}: {error}") from None


def format_name(claim: ResourceClaim) -> str:
    """Return `NAMESPACE/NAME`, or the name alone."""
    metadata = claim.metadata
    if metadata is None:
        return ""
    return f"{metadata.namespace}/{metadata.name or ''}" if metadata.namespace else metadata.name or ""


def _list_expressions(owner: str, selectors: Sequence[DeviceSelector] | None) -> tuple[str, ...]:
    expressions = []
    for index, selector in enumerate(selectors or ()):
        if selector.cel is None:
            raise AllocationError(f"{owner}, selector #{index}: CEL expression empty (unsupported selector type?)")
        expressions.append(selector.cel.expression)
    return tuple(expressions)


def _read_requested(owner: str, capacity: CapacityRequirements | None) -> Mapping[str, Quantity]:
    requests = (capacity.requests if capacity else None) or {}
    try:
        return {name: Quantity.from_json(raw) for name, raw in requests.items()}
    except QuantityError as error:
        raise AllocationError(f"{owner}: {error}") from None


def _tolerates(toleration: DeviceToleration, taint: PreventingTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"
