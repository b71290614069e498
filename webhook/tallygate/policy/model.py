"""The model of policies: rules, caps, implied requests, and sets of them.

All are immutable values with every default filled in. `tallygate.policy.schema` defines their written form,
`tallygate.admission` applies them to objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from tallygate.accounting.gpu_annotations import GpuAnnotation
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity import Quantity
from tallygate.policy.node_resources import NodeResource
from tallygate.policy.workload_kinds import WorkloadKind

POLICY_GROUP = "tallygate.dev"
"""The API group of policies."""

API_VERSION = f"{POLICY_GROUP}/v1alpha1"

CLAIM_KINDS = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
"""The kinds with claims for devices."""


def _create_empty_labels() -> Mapping[str, str]:
    return MappingProxyType({})


def _create_empty_locations() -> Mapping[str, "SourceLocation"]:
    """Return an empty mapping, for a policy that was not parsed from a file."""
    return MappingProxyType({})


def _create_no_devices() -> Mapping[str, "DeviceDefinition"]:
    return MappingProxyType({})


def _create_no_counts() -> Mapping[str, "CountDefinition"]:
    return MappingProxyType({})


def _create_no_weights() -> Mapping[str, int]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a file: `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """Return `file:line:column`, the notation of editors and compilers."""
        return f"{self.file}:{self.line}:{self.column}"


class Enforcement(StrEnum):
    """The consequence for a request that violates a rule."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"


class Equality(StrEnum):
    """The values of `requestsEqualLimits`."""

    IGNORE = "ignore"
    REQUIRE = "require"
    FILL = "fill"


class Schedulable(StrEnum):
    """The prediction from which a rule is violated."""

    NEVER = "never"
    NOT_NOW = "not-now"


class AllocationMode(StrEnum):
    """The values of `allocationMode` of a device request."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


class ForecastEnforcement(StrEnum):
    """The consequence for a workload whose pods a cap will reject."""

    WARN = "warn"
    DENY = "deny"
    IGNORE = "ignore"


class Operator(StrEnum):
    """The operators of a label selector (apimachinery metav1.LabelSelectorOperator)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """One entry of `matchExpressions`."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PolicyLabelSelector:
    """A Kubernetes label selector; an empty one matches everything."""

    match_labels: Mapping[str, str] = field(default_factory=_create_empty_labels)
    match_expressions: tuple[LabelRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """A selection of namespaces: a name in one of `include` (empty: all) and none of `exclude`, and matching labels.

    `include` and `exclude` are globs.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: PolicyLabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Subjects:
    """A selection of users: any of these users, groups, or service accounts (`namespace/name`), all of them globs."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The scope of a rule. `kinds` and `namespaces` of None mean all."""

    namespaces: NamespaceSelector | None = None
    kinds: frozenset[str] | None = None
    object_selector: PolicyLabelSelector | None = None
    exempt: Subjects = Subjects()


@dataclass(frozen=True, slots=True)
class AmountBounds:
    """The bounds of an amount: a missing one does not limit it."""

    min: Quantity | None = None
    max: Quantity | None = None
    multiple_of: Quantity | None = None
    one_of: tuple[Quantity, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceChecks:
    """The checks of each device request of a claim, and of each alternative of one; empty or None: no such check.

    `classes` are globs over names of DeviceClasses, with `!` to exclude. `admin_access` are the only users who may
    request it.
    """

    classes: tuple[str, ...] = ()
    allocation_modes: frozenset[AllocationMode] = frozenset()
    admin_access: Subjects | None = None
    requires_selectors: bool = False


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a rule.

    `None` for an optional check means *for countable resources* (extended and opaque): a rule that matches `*` should
    not demand whole CPUs.
    """

    well_formed_name: bool = True
    whole_quantity: bool | None = None
    requests_equal_limits: Equality | None = None
    per_container: AmountBounds | None = None
    per_pod: AmountBounds | None = None
    advertised: bool = False
    schedulable: Schedulable | None = None
    per_claim: AmountBounds | None = None
    devices: DeviceChecks | None = None


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """A rule: demands on the requests for some resources. `reason` is the administrator's text for the user."""

    name: str
    resources: tuple[str, ...]
    match: Match
    enforcement: Enforcement
    checks: Checks
    location: SourceLocation
    reason: str = ""
    locations: Mapping[str, SourceLocation] = field(default_factory=_create_empty_locations, compare=False, repr=False)

    def get_location(self, path: str) -> SourceLocation:
        """Return the location of a field (`spec.checks.perPod.max`), or of the policy if the field is missing."""
        return self.locations.get(path, self.location)


@dataclass(frozen=True, slots=True)
class ImpliedRequest:
    """A request that each matching pod gets which does not request the resource itself: `per_pod`, a whole number.

    With `unless_host_network`, pods in the network of their node get none. `enforcement` is the consequence for a new
    pod that lacks the request although it matches. `reason` is the administrator's text for the user.
    """

    name: str
    resource: str
    per_pod: Quantity
    match: Match
    enforcement: Enforcement
    location: SourceLocation
    unless_host_network: bool = False
    reason: str = ""
    locations: Mapping[str, SourceLocation] = field(default_factory=_create_empty_locations, compare=False, repr=False)

    def get_location(self, path: str) -> SourceLocation:
        """Return the location of a field (`spec.perPod`), or of the policy if the field is missing."""
        return self.locations.get(path, self.location)


@dataclass(frozen=True, slots=True)
class PodFilter:
    """A selection of pods that a cap counts: every given condition must match; an empty filter counts every pod."""

    priority_classes: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=_create_empty_labels)
    objects: PolicyLabelSelector | None = None  # the keys of ledgers contain a hash of these field names


@dataclass(frozen=True, slots=True)
class DeviceDefinition:
    """The devices that count under a name of a cap: those of these device classes, besides the name's own.

    Or the allocated devices that `selector` matches (every one if it is empty): each counts once, or, with the name of
    a capacity in `sum`, with its amount of that.
    """

    classes: tuple[str, ...] = ()
    selector: str = ""
    sum: str = ""

    @property
    def is_by_allocation(self) -> bool:
        """Whether the devices count only once they are allocated, by their attributes or capacities."""
        return bool(self.selector or self.sum)


@dataclass(frozen=True, slots=True)
class CountDefinition:
    """The amount that counts under a name of the cap's own: a weighted sum of resources, or a product of them.

    `weights` are the weights by counted name, to which the amount is added that annotations of a pod request
    (`annotation`). `product` are the resources whose requests are multiplied, for each container, and `defaults` the
    amounts of those that a container lacks while it requests others. A sum has no product, and a product no sum.
    """

    weights: Mapping[str, int] = field(default_factory=_create_no_weights)
    product: tuple[str, ...] = ()
    defaults: Mapping[str, int] = field(default_factory=_create_no_weights)
    annotation: GpuAnnotation | None = None

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that count."""
        return (*self.weights, *self.product)


@dataclass(frozen=True, slots=True)
class LimitOverride:
    """Other hard limits for some groups or namespaces of a cap, until a time.

    `groups` are globs over the values of the label of `group_by`, `namespaces` globs over the names of namespaces; both
    empty select all. `until` is in UTC, and None without an end.
    """

    hard: Mapping[str, Quantity]
    groups: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    until: datetime | None = None

    def has_ended(self, now: datetime | None) -> bool:
        """Return whether the override has ended; at no time (None) every one with an end has."""
        return self.until is not None and (now is None or self.until <= now)


@dataclass(frozen=True, slots=True)
class AnnotationOverride:
    """The largest hard limits that an annotation of a namespace may give, and the users who may set it."""

    most: Mapping[str, Quantity]
    set_by: Subjects


@dataclass(frozen=True, slots=True)
class SurgeDefinition:
    """The amounts above `hard` for pods of a controller that rolls, and the seconds for which a surge may last."""

    amounts: Mapping[str, Quantity]
    seconds: int


@dataclass(frozen=True, slots=True)
class NamespaceCap:
    """A cap: limits for the pods and the claims for devices of a set of namespaces.

    `hard` and `soft` map a counted name (`nvidia.com/gpu`, `limits.memory`, `pods`; the prefix `requests.` is removed)
    to its limit. A `shared` cap has one ledger for all its namespaces. `workloads` is the consequence for a workload
    whose pods exceed the free amount. `shows_top_consumers` adds the top consumers to the message of a denial.
    `devices` maps counted names to the definitions of their devices, `counts` those of the cap's own to the definitions
    of their amounts. A cap with a label in `group_by` is shared by the
    namespaces of each value of that label, and counts no namespace without it. A cap that `admits_whole` reserves the
    amounts of all pods of a workload that start together, or denies the workload. Of `overrides` the first counts that
    selects a group or namespace, has a limit for the name and has not ended. `surge` is what pods of a controller that
    rolls may use above `hard`. With `annotation` a namespace may have an annotation that comes before `overrides`.
    """

    name: str
    namespaces: NamespaceSelector
    hard: Mapping[str, Quantity]
    soft: Mapping[str, Quantity]
    shared: bool
    pods: PodFilter
    exceed: Subjects
    location: SourceLocation
    workloads: ForecastEnforcement = ForecastEnforcement.WARN
    shows_top_consumers: bool = True
    devices: Mapping[str, DeviceDefinition] = field(default_factory=_create_no_devices)
    group_by: str = ""
    counts: Mapping[str, CountDefinition] = field(default_factory=_create_no_counts)
    admits_whole: bool = False
    overrides: tuple[LimitOverride, ...] = ()
    annotation: AnnotationOverride | None = None
    surge: SurgeDefinition | None = None
    reason: str = ""
    locations: Mapping[str, SourceLocation] = field(default_factory=_create_empty_locations, compare=False, repr=False)

    def get_location(self, path: str) -> SourceLocation:
        """Return the location of a field (`spec.checks.perPod.max`), or of the policy if the field is missing."""
        return self.locations.get(path, self.location)

    def list_requested_names(self) -> frozenset[str]:
        """Return the names of hard and soft; those of `counts` are replaced by the resources that count."""
        resources = (name for count in self.counts.values() for name in count.resources)
        return frozenset({*self.hard, *self.soft} - self.counts.keys()).union(resources)


@dataclass(frozen=True, slots=True)
class PolicySet:
    """All policies that are active at one time. `digest` identifies the set: equal files give an equal digest."""

    rules: tuple[ResourceRule, ...] = ()
    caps: tuple[NamespaceCap, ...] = ()
    digest: str = ""
    files: tuple[str, ...] = field(default=())
    workload_kinds: tuple[WorkloadKind, ...] = ()
    node_resources: tuple[NodeResource, ...] = ()
    node_shapes: tuple[NodeShape, ...] = ()
    implied_requests: tuple[ImpliedRequest, ...] = ()

    def count_documents(self) -> int:
        """Return the number of policies of all kinds."""
        definitions = self.workload_kinds, self.node_resources, self.node_shapes
        return sum(map(len, (self.rules, self.caps, self.implied_requests, *definitions)))

    @property
    def needs_slices(self) -> bool:
        """Whether a cap counts devices by their attributes or capacities, which ResourceSlices have."""
        return any(device.is_by_allocation for cap in self.caps for device in cap.devices.values())
