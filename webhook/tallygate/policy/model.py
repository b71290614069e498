"""The model of policies: rules, caps, implied requests, and sets of them.

All are immutable values with every default filled in. The fields are those of the documents, and their descriptions are
for users: the JSON schema is generated from them (`written`). Types whose name ends with `Spec` are the `spec` of a
document. `tallygate.admission` applies policies to objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from tallygate.accounting.claim_charge import find_named_class
from tallygate.accounting.gpu_annotations import GpuAnnotation
from tallygate.accounting.names import is_extended
from tallygate.accounting.node_shape import NodeShape
from tallygate.accounting.quantity import Quantity
from tallygate.policy.cap_limits import CapacitySelection, CapLimits, PercentLimit
from tallygate.policy.deadlines import DeadlineChecks
from tallygate.policy.guarantees import Guarantees
from tallygate.policy.node_resources import NodeResource
from tallygate.policy.periods import Seconds
from tallygate.policy.selectors import (
    LABEL_SELECTOR,
    NAMESPACES,
    SUBJECTS,
    LabelKey,
    Labels,
    Limits,
    NamespacePatterns,
    NamespaceSelector,
    PolicyLabelSelector,
    QuantityItem,
    Subjects,
    WrittenQuantity,
)
from tallygate.policy.workload_kinds import WorkloadKind
from tallygate.policy.written import UNIQUE, Written

POLICY_GROUP = "tallygate.dev"
"""The API group of policies."""

API_VERSION = f"{POLICY_GROUP}/v1alpha1"

CLAIM_KINDS = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
"""The kinds with claims for devices."""

COMPILED_FROM_LABEL = f"{POLICY_GROUP}/compiled-from"
"""The label of each object that is compiled from a policy (`tallygate.backstop`), with the kind of the policy."""

REASON_ANNOTATION = "tallygate.dev/why"
"""The annotation with the administrator's reason."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A position in a file: `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NO_LOCATIONS: Mapping[str, SourceLocation] = MappingProxyType({})
"""The locations of a policy that was not parsed from a file."""


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


class Admission(StrEnum):
    """The pods that are admitted together."""

    EACH = "each"
    WHOLE = "whole"


class ForecastEnforcement(StrEnum):
    """The consequence for a workload whose pods a cap will reject."""

    WARN = "warn"
    DENY = "deny"
    IGNORE = "ignore"


_ObjectName = Annotated[str, Meta(extra_json_schema={"format": "object-name"})]


class Match(Written, frozen=True):
    """The scope of a rule. `kinds` and `namespaces` of None mean all."""

    namespaces: Annotated[NamespaceSelector | None, NAMESPACES] = None
    """The namespaces; left out: every namespace that the gate receives requests for. Nodes have none, so a rule with
    this field does not apply to nodes."""
    kinds: (
        Annotated[
            frozenset[
                Annotated[
                    str,
                    Meta(
                        title="Kind of object",
                        description="The name of a kind: one of Kubernetes, one of another project that is read, or "
                        "one that a WorkloadKind defines.",
                        max_length=63,
                        examples=["Pod", "JobSet", "GangJob"],
                    ),
                ]
            ],
            Meta(min_length=1, examples=[["Pod", "Deployment"], ["JobSet", "GangJob"]]),
        ]
        | None
    ) = None
    """The kinds of object; left out: pods, every kind with a pod template that is read, nodes, quotas, limit ranges,
    and claims for devices and their templates, each where the check applies to it."""
    object_selector: Annotated[PolicyLabelSelector | None, LABEL_SELECTOR] = None
    """The objects, by their labels; of an object with a pod template, and of a ResourceClaimTemplate, the template's
    labels, which its pods or claims will have. Left out: all."""
    exempt: Annotated[Subjects, SUBJECTS] = Subjects()
    """The exempt users, groups and service accounts: the rule does not apply to their requests."""


class PodMatch(Written, frozen=True):
    """The scope of an implied request, which applies to pods alone."""

    kinds: ClassVar[frozenset[str] | None] = None
    namespaces: Annotated[NamespaceSelector | None, NAMESPACES] = None
    """The namespaces; left out: every namespace that the gate receives requests for."""
    object_selector: Annotated[PolicyLabelSelector | None, LABEL_SELECTOR] = None
    """The pods, by their labels. Left out: all."""
    exempt: Annotated[Subjects, SUBJECTS] = Subjects()
    """The users, groups and service accounts whose new pods get no request. The pods of a workload are created by its
    controller, so exempting a person exempts only the pods that she creates herself."""


class AmountBounds(Written, frozen=True):
    """The bounds of an amount: a missing one does not limit it."""

    min: Annotated[WrittenQuantity | None, Meta(title="Minimum")] = None
    """The smallest amount; left out: none."""
    max: Annotated[WrittenQuantity | None, Meta(title="Maximum")] = None
    """The largest amount; left out: none."""
    multiple_of: WrittenQuantity | None = None
    """The amount must be a multiple of this, which is not 0; left out: none."""
    one_of: Annotated[tuple[QuantityItem, ...], Meta(min_length=1, max_length=100, examples=[[1, 2, 4, 8]])] = ()
    """The amount must be one of these; left out: any amount."""


_BOUNDS = Meta(examples=[{"min": 1, "max": 8}, {"oneOf": [1, 2, 4, 8]}], extra_json_schema={"minProperties": 1})


class DeviceChecks(Written, frozen=True):
    """The checks of each device request of a claim, and of each alternative of one; empty or None: no such check.

    `classes` are globs over names of DeviceClasses, with `!` to exclude. `admin_access` are the only users who may
    request it.
    """

    classes: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Class pattern",
                    description="The name of a DeviceClass or a glob: '*' matches any run of characters, '?' one. A "
                    "leading '!' excludes, at any position in the list.",
                    max_length=254,
                    examples=["gpu.example.com", "!*-exclusive.example.com"],
                    extra_json_schema={"format": "class-pattern", "pattern": "^!?[a-z0-9.*?-]+$"},
                ),
            ],
            ...,
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[["gpu.example.com", "mig-*.example.com"], ["*", "!whole-gpu.example.com"]],
            extra_json_schema=UNIQUE,
        ),
    ] = ()
    """The allowed DeviceClasses; left out: every class."""
    allocation_modes: Annotated[
        frozenset[
            Annotated[
                AllocationMode,
                Meta(title="Allocation mode", description="A value of allocationMode.", examples=["ExactCount"]),
            ]
        ],
        Meta(min_length=1, examples=[["ExactCount"]]),
    ] = frozenset()
    """The allowed allocation modes; left out: both. ExactCount is the default of a request; All requests every matching
    device of a node."""
    admin_access: Annotated[Subjects | None, SUBJECTS] = None
    """The users, groups and service accounts that may request admin access to devices, which ignores other allocations;
    {}: no user may. Left out: every user may. A claim that Kubernetes creates from a template is accepted if the rule
    applies to templates, where the user is known."""
    selectors: Annotated[
        Literal["required"] | None, Meta(examples=["required"], extra_json_schema={"type": "string"})
    ] = None
    """required: each request must select devices by at least one CEL selector of its own, beside those of the class.
    Left out: it need not."""


class Checks(Written, frozen=True):
    """The checks of a rule.

    `None` for an optional check means *for countable resources* (extended and opaque): a rule that matches `*` should
    not demand whole CPUs.
    """

    well_formed_name: Annotated[bool, Meta(title="Well-formed name", examples=[True])] = True
    """Names must be valid by the rules of Kubernetes for that field. The gate also checks fields that Kubernetes does
    not validate, such as a node's status."""
    whole_quantity: Annotated[bool | None, Meta(examples=[True, False])] = None
    """Quantities must be whole numbers. Left out: for countable resources (extended, opaque) only, since half a GPU is
    a mistake and half a CPU is not. true: for every resource that the rule names; false: for none."""
    requests_equal_limits: Annotated[
        Equality | None,
        Meta(examples=[True, False, "fill"], extra_json_schema={"type": None, "enum": [True, False, "fill"]}),
    ] = None
    """Request and limit of a resource must both exist and be equal. Left out: for countable resources (extended,
    opaque) only. true: for every resource that the rule names; false: for none; fill: the mutating webhook fills in the
    missing one of the two, and different amounts are a problem."""
    per_container: Annotated[AmountBounds | None, _BOUNDS] = None
    """Bounds on one container's request for one resource; left out: none. A container without a request for the
    resource is not checked."""
    per_pod: Annotated[AmountBounds | None, _BOUNDS] = None
    """Bounds on one pod's request for one resource; left out: none. The amount is the scheduler's sum over the pod's
    containers."""
    advertised: Annotated[bool, Meta(examples=[True])] = False
    """At least one node must have the resource; otherwise the message suggests the nearest name on a node. Of a claim
    for devices, each class must exist, and at least one published device must pass its selectors and those of the
    request. The check applies to new pods, workloads, ResourceClaims and ResourceClaimTemplates, if the gate watches a
    cluster or a snapshot is given."""
    schedulable: Annotated[Schedulable | None, Meta(examples=["never", "not-now"])] = None
    """Report a problem if no node can ever run the pod ('never'), or also if no node has room for it at present
    ('not-now'). Left out: no prediction. The check applies to new pods and to workloads, if the gate watches a cluster
    or a snapshot is given; an unknown prediction is no problem."""
    per_claim: Annotated[AmountBounds | None, _BOUNDS] = None
    """Bounds on the devices that one ResourceClaim may get, in all classes that the rule names; left out: none.
    allocationMode All counts as 32, the largest number of a claim. With firstAvailable every alternative must be within
    the bounds. Admin access counts nothing, and a claim without such devices is not checked."""
    devices: Annotated[
        DeviceChecks | None,
        Meta(
            examples=[{"classes": ["gpu.example.com"], "allocationModes": ["ExactCount"]}],
            extra_json_schema={"minProperties": 1},
        ),
    ] = None
    """Checks of each device request of a ResourceClaim or ResourceClaimTemplate, and of each alternative, if the rule
    names its class; left out: none. Claims that kube-scheduler creates for the extended resources of a pod are not
    checked: the pod is."""
    active_deadline_seconds: Annotated[
        DeadlineChecks | None,
        Meta(examples=[{"max": "24h"}, {"max": "24h", "required": False}], extra_json_schema={"minProperties": 1}),
    ] = None
    """Bounds on the time that a pod may run which requests one of the resources: on its spec.activeDeadlineSeconds. Of
    a Job the smaller one counts of its own field and that of its pods. A pod with claims is checked if the rule names
    the devices of every class, as extended does. Left out: none."""


class RuleSpec(Written, frozen=True):
    """The demands of a rule on the requests for some resources."""

    resources: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Resource pattern",
                    description="A glob, 'extended', 'opaque', or '!' and one of these.",
                    max_length=320,
                    examples=["nvidia.com/*", "extended", "opaque", "!example.com/shared-*"],
                    extra_json_schema={"format": "resource-pattern", "pattern": "^!?[A-Za-z0-9._/*?-]+$"},
                ),
            ],
            ...,
        ],
        Meta(
            min_length=1, max_length=100, examples=[["extended", "opaque"], ["nvidia.com/*", "!nvidia.com/gpu.shared"]]
        ),
    ]
    """The resource names: globs over the whole name, in which '*' matches any run of characters ('/' too) and '?' one.
    'extended' names all fully qualified names outside kubernetes.io, 'opaque' all with the prefix
    pod.alpha.kubernetes.io/opaque-int-resource-. A leading '!' excludes, at any position in the list. The devices of
    claims have the names CLASS.deviceclass.resource.k8s.io/devices and deviceclass.resource.kubernetes.io/CLASS, of
    which one must match; 'extended' names all of them."""
    match: Annotated[
        Match, Meta(examples=[{"namespaces": {"include": ["team-*"]}, "exempt": {"groups": ["system:nodes"]}}])
    ] = Match()
    """The requests that the rule applies to. All given conditions must match; left out, the rule applies to every
    request."""
    enforcement: Annotated[Enforcement, Meta(examples=["deny", "warn", "audit"])] = Enforcement.DENY
    """The consequence for a request that breaks the rule. 'deny' denies it, 'warn' admits it with a warning that
    kubectl shows, 'audit' admits it and records it in the API server's audit log and the gate's log."""
    checks: Annotated[Checks, Meta(examples=[{"perContainer": {"oneOf": [1, 2, 4, 8]}}])] = Checks()
    """The checks. Checks that are left out have strict defaults: names must be well formed; countable resources
    (extended, opaque) need whole quantities and requests equal to limits."""


class ResourceRule(RuleSpec, frozen=True, kw_only=True):
    """A rule: demands on the requests for some resources. `reason` is the administrator's text for the user."""

    name: str
    location: SourceLocation
    reason: str = ""
    locations: Mapping[str, SourceLocation] = NO_LOCATIONS

    def get_location(self, path: str) -> SourceLocation:
        """Return the location of a field (`spec.checks.perPod.max`), or of the policy if the field is missing."""
        return self.locations.get(path, self.location)


class PodException(Written, frozen=True):
    """The pods that get no implied request."""

    host_network: Annotated[bool, Meta(examples=[True])] = False
    """Pods in the network of their node, with spec.hostNetwork, get no request."""


class ImpliedRequestSpec(Written, frozen=True):
    """The resource, its amount, and the pods that get it."""

    resource: Annotated[str, Meta(max_length=317, examples=["example.com/ip"])]
    """The name of an extended resource, as nodes advertise it."""
    per_pod: Annotated[WrittenQuantity, Meta(examples=[1], extra_json_schema={"default": 1})] = msgspec.field(
        default_factory=partial(Quantity.from_int, 1)
    )
    """The whole number that each pod requests."""
    unless: Annotated[PodException, Meta(examples=[{"hostNetwork": True}], extra_json_schema={"minProperties": 1})] = (
        PodException()
    )
    """The pods that get no request."""
    match: Annotated[PodMatch, Meta(examples=[{"namespaces": {"include": ["team-*"]}}])] = PodMatch()
    """The pods that get the request. All given conditions must match; left out, every new pod matches."""
    enforcement: Annotated[Enforcement, Meta(examples=["warn", "deny", "audit"])] = Enforcement.WARN
    """The consequence in the validating phase for a new pod that matches and does not request the resource, for example
    because another webhook has removed the request: 'warn' admits it with a warning, 'deny' denies it, 'audit' admits
    it and records it in the API server's audit log and the gate's log."""


class ImpliedRequest(ImpliedRequestSpec, frozen=True, kw_only=True):
    """A request that each matching pod gets which does not request the resource itself: `per_pod`, a whole number.

    `enforcement` is the consequence for a new pod that lacks the request although it matches. `reason` is the
    administrator's text for the user.
    """

    name: str
    location: SourceLocation
    reason: str = ""
    locations: Mapping[str, SourceLocation] = NO_LOCATIONS

    def get_location(self, path: str) -> SourceLocation:
        """Return the location of a field (`spec.perPod`), or of the policy if the field is missing."""
        return self.locations.get(path, self.location)


class PodFilter(Written, frozen=True):
    """A selection of pods that a cap counts: every given condition must match; an empty filter counts every pod."""

    priority_classes: Annotated[
        tuple[
            Annotated[
                _ObjectName,
                Meta(title="Priority class", description="The name of a PriorityClass.", examples=["batch"]),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[["batch"]], extra_json_schema=UNIQUE),
    ] = ()
    """Only pods with one of these priority classes."""
    node_selector: Annotated[Labels, Meta(examples=[{"gpu": "a100"}])] = msgspec.field(default_factory=dict)
    """Only pods whose spec.nodeSelector has all of these labels."""
    objects: Annotated[PolicyLabelSelector | None, LABEL_SELECTOR] = msgspec.field(default=None, name="objectSelector")
    """Only pods with these labels."""


class DeviceDefinition(Written, frozen=True):
    """The devices that count under a name of a cap: those of these device classes, besides the name's own.

    Or the allocated devices that `selector` matches (every one if it is empty): each counts once, or, with the name of
    a capacity in `sum`, with its amount of that.
    """

    selector: Annotated[
        str, Meta(min_length=1, max_length=10240, examples=['device.attributes["gpu.example.com"].model == "h100"'])
    ] = ""
    """An expression in CEL over `device`, as in the selectors of a DeviceClass: only allocated devices that match
    count, from their allocation on. Left out: every device."""
    sum: Annotated[
        str, Meta(examples=["memory", "gpu.example.com/memory"], extra_json_schema={"format": "capacity-name"})
    ] = msgspec.field(default_factory=str)
    """The name of a capacity: each allocated device counts with its amount, of a shared device with the consumed part,
    of a partition with the counters that it consumes. A name without a domain is in that of the driver. Left out: each
    device counts once."""
    classes: Annotated[
        tuple[
            Annotated[
                _ObjectName, Meta(title="Class", description="The name of a DeviceClass.", examples=["gpu.example.com"])
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[["gpu.example.com", "mig.example.com"]], extra_json_schema=UNIQUE),
    ] = ()
    """The names of the DeviceClasses. Left out: the name counts by selector or sum."""

    @property
    def is_by_allocation(self) -> bool:
        """Whether the devices count only once they are allocated, by their attributes or capacities."""
        return bool(self.selector or self.sum)


class Factor(Written, frozen=True):
    """A resource of a product, and the amount of a container that lacks it while it requests others."""

    resource: Annotated[str, Meta(min_length=1, examples=["nvidia.com/gpumem"])]
    """The name of an extended resource."""
    default: (
        Annotated[int, Meta(ge=1, le=1000000, examples=[81920], extra_json_schema={"format": "default-amount"})] | None
    ) = None
    """The amount for a container that requests another factor and not this one, or 0 of it: a whole number from 1 to
    1000000. Left out: the pod is denied."""


class CountDefinition(Written, frozen=True):
    """The amount that counts under a name of the cap's own: a weighted sum of resources, or a product of them.

    `weights` are the weights by counted name, to which the amount is added that annotations of a pod request
    (`annotation`). The requests for the `factors` are multiplied for each container. A sum has no factors, and a
    product nothing else.
    """

    weights: Annotated[
        Mapping[
            str,
            Annotated[
                int,
                Meta(
                    title="Weight",
                    description="A whole number from 1 to 1000000.",
                    ge=1,
                    le=1000000,
                    examples=[4],
                    extra_json_schema={"format": "weight"},
                ),
            ],
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[{"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 4, "nvidia.com/gpu": 7}],
        ),
    ] = msgspec.field(default_factory=dict)
    """Resources with the weight of one unit of each: the effective requests of a pod are multiplied by them and added
    up. A device that a claim requests counts with the weight of its extended resource or class. Left out: no resource
    is weighed."""
    annotation: Annotated[GpuAnnotation | None, Meta(examples=["gpu-fraction"])] = None
    """GPUs that pods request by annotations of KAI-Scheduler and Run:ai and by no resource, each ×
    gpu-fraction-num-devices. gpu-fraction: thousandths of a GPU. gpu-memory: MiB, also of
    nvidia.com/container.NAME.gpu-memory.request. The amount is added to that of the weights. A pod with an annotation
    that is not an amount is denied. Left out: annotations count nothing."""
    factors: Annotated[
        tuple[
            Annotated[
                Annotated[str, Meta(min_length=1)] | Factor,
                Meta(
                    title="Factor",
                    description="The name of an extended resource, or a mapping with its name and a default.",
                    examples=["nvidia.com/gpu", {"resource": "nvidia.com/gpumem", "default": 81920}],
                ),
            ],
            ...,
        ],
        Meta(min_length=2, max_length=4, examples=[["nvidia.com/gpu", "nvidia.com/gpumem"]], extra_json_schema=UNIQUE),
    ] = msgspec.field(default=(), name="product")
    """Resources whose requests are multiplied in each container; the products of the containers are added up as
    requests are. A container that requests one of them requests all of them that have no default, or the pod is denied.
    Left out: the name counts by weights and an annotation."""

    @property
    def product(self) -> tuple[str, ...]:
        """The resources whose requests are multiplied."""
        return tuple(factor.resource if isinstance(factor, Factor) else factor for factor in self.factors)

    @property
    def defaults(self) -> Mapping[str, int]:
        """The amounts of factors that a container lacks."""
        factors = (factor for factor in self.factors if isinstance(factor, Factor))
        return {factor.resource: factor.default for factor in factors if factor.default is not None}

    @property
    def resources(self) -> tuple[str, ...]:
        return (*self.weights, *self.product)


class LimitOverride(Written, frozen=True, kw_only=True):
    """Other hard limits for some groups or namespaces of a cap, until a time.

    `groups` are globs over the values of the label of `group_by`, `namespaces` globs over the names of namespaces; both
    empty select all. `until` is in UTC, and None without an end.
    """

    groups: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Group pattern",
                    description="The value of a label or a glob: '*' matches any run of characters, '?' one.",
                    max_length=63,
                    examples=["vision"],
                    extra_json_schema={"format": "label-value-pattern", "pattern": "^[A-Za-z0-9._*?-]+$"},
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=1000, examples=[["vision"]], extra_json_schema=UNIQUE),
    ] = ()
    """Only groups with one of these values of the label of groupBy: values or globs. Left out: every group."""
    namespaces: Annotated[NamespacePatterns, Meta(examples=[["team-a"]])] = ()
    """Only namespaces with one of these names: names or globs. For a cap that each namespace has for itself. Left out:
    every namespace."""
    hard: Limits
    """The limits in place of those under the same names in hard of the cap. Other names keep their limits."""
    until: Annotated[
        datetime | None, Meta(examples=["2026-12-04T18:00:00Z", "2026-12-04"], extra_json_schema={"format": "end-time"})
    ] = None
    """The end: a time with its zone, or a date for the end of that day in UTC. Left out: the override does not end."""

    def has_ended(self, now: datetime | None) -> bool:
        """Return whether the override has ended; at no time (None) every one with an end has."""
        return self.until is not None and (now is None or self.until <= now)


class AnnotationOverride(Written, frozen=True, kw_only=True):
    """The largest hard limits that an annotation of a namespace may give, and the users who may set it."""

    set_by: Annotated[Subjects, SUBJECTS]
    """The users who may add, change or remove the annotation: these users, groups and service accounts."""
    most: Limits
    """The largest limits that an annotation may give, of names that are in hard. It sets no other name."""


class SurgeDefinition(Written, frozen=True):
    """The amounts above `hard` for pods of a controller that rolls, and the seconds for which a surge may last."""

    amounts: Limits
    """The amounts above hard, of names that are in hard."""
    seconds: Annotated[
        Seconds,
        Meta(examples=["15m", "1h30m"], extra_json_schema={"type": "string", "format": "period", "maxLength": 64}),
    ] = msgspec.field(name="for")
    """The time for which pods may be added above hard, from the first one on: up to 24h. It ends earlier, and begins
    again, when no more than hard is charged. Pods that run above hard stay."""


class LabelGroups(Written, frozen=True):
    """The namespaces that share a cap: those with the same value of a label."""

    label: Annotated[LabelKey, Meta(examples=["team"])]
    """The key of the label of namespaces."""


class CapSpec(Written, frozen=True, kw_only=True):
    """The namespaces, limits and pods of a cap.

    `hard` and `soft` map a counted name (`nvidia.com/gpu`, `limits.memory`, `pods`; the prefix `requests.` is removed)
    to its limit. A `shared` cap has one ledger for all its namespaces. `workloads` is the consequence for a workload
    whose pods exceed the free amount. `devices` maps counted names to the definitions of their devices, `counts` those
    of the cap's own to the definitions of their amounts. Of `overrides` the first counts that selects a group or
    namespace, has a limit for the name and has not ended; an annotation of a namespace comes before them.
    """

    namespaces: Annotated[NamespaceSelector, NAMESPACES] = NamespaceSelector()
    """The namespaces; left out: every namespace that the gate receives requests for."""
    shared: Annotated[bool, Meta(examples=[True])] = False
    """false: each matched namespace has the whole cap for itself. true: all matched namespaces share one."""
    groups: Annotated[LabelGroups | None, Meta(examples=[{"label": "team"}])] = msgspec.field(
        default=None, name="groupBy"
    )
    """One cap for each value of a namespace label: the matched namespaces with that value share it. A namespace without
    the label is not counted. Left out: no groups."""
    hard: CapLimits = msgspec.field(default_factory=dict)
    """The largest amounts: a request that would exceed one is denied (403). 0 allows none at all. `25%` is a share of
    the capacity that there is now."""
    soft: CapLimits = msgspec.field(default_factory=dict)
    """A request that exceeds this amount is admitted with a warning. The amount is below hard for the same name; a cap
    with soft alone only warns."""
    capacity: Annotated[
        CapacitySelection | None,
        Meta(
            examples=[{"nodeSelector": {"matchLabels": {"pool": "gpu"}}, "settle": "15m"}],
            extra_json_schema={"minProperties": 1},
        ),
    ] = None
    """The capacity of which hard and soft may name percentages: what is allocatable on these nodes, or the devices
    there that count under a name. Left out: all nodes."""
    overrides: Annotated[
        tuple[
            Annotated[
                LimitOverride,
                Meta(
                    title="Override",
                    description="The limits, those for whom they are, and their end.",
                    examples=[{"hard": {"nvidia.com/gpu": 12}, "until": "2026-12-04T18:00:00Z"}],
                ),
            ],
            ...,
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[[{"groups": ["vision"], "hard": {"nvidia.com/gpu": 12}, "until": "2026-12-04T18:00:00Z"}]],
        ),
    ] = ()
    """Other hard limits for a time, as in a raise for a week. For each name the first entry counts that selects the
    group or namespace, has the name and has not ended. Then its limit is the hard limit, larger or smaller; soft stays.
    At its end an entry ends by itself, without a change of the file. Left out: no override."""
    annotation: Annotated[
        AnnotationOverride | None,
        Meta(examples=[{"setBy": {"groups": ["platform-admins"]}, "most": {"nvidia.com/gpu": 16}}]),
    ] = msgspec.field(default=None, name="overrideAnnotation")
    """Lets an annotation of a namespace set its hard limits, for admins who may edit namespaces and not this file:
    `limits.tallygate.dev/` with the name of the cap, as in `nvidia.com/gpu=12 until=2026-12-04T18:00:00Z`. It comes
    before overrides until it ends. Only for caps that each namespace has for itself. Left out: annotations set
    nothing."""
    guarantee: Guarantees = ()
    surge: Annotated[SurgeDefinition | None, Meta(examples=[{"amounts": {"nvidia.com/gpu": 2}, "for": "15m"}])] = None
    """Room above hard for the pods of a controller that rolls, so that a full cap can roll: of a Deployment, Rollout,
    DaemonSet or LeaderWorkerSet with pods of another revision that the cap counts. Nothing exceeds hard and surge
    together. Left out: no pod exceeds hard."""
    pods: Annotated[PodFilter, Meta(examples=[{"priorityClasses": ["batch"]}])] = PodFilter()
    """The pods that count. All given conditions must match; left out: every pod. Finished pods are not counted."""
    devices: Annotated[
        Mapping[
            str,
            Annotated[
                DeviceDefinition,
                Meta(
                    title="Device",
                    description="The devices that count under the name.",
                    examples=[{"classes": ["gpu.example.com"]}, {"sum": "memory"}],
                    extra_json_schema={"minProperties": 1},
                ),
            ],
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[{"nvidia.com/gpu": {"classes": ["gpu.example.com", "mig.example.com"]}}],
            extra_json_schema={"propertyNames": {"format": "counted-name"}},
        ),
    ] = msgspec.field(default_factory=dict)
    """The devices that count under a name of hard or soft: by device classes, beside those whose extendedResourceName
    is the name, for classes that select the same devices; or by attributes and capacities of allocated devices, under a
    short name of your own, which no pod requests."""
    counts: Annotated[
        Mapping[
            str,
            Annotated[
                CountDefinition,
                Meta(
                    title="Count",
                    description="The amount that counts under the name: weights, an annotation or both, or a product.",
                    examples=[
                        {"weights": {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/gpu": 7}},
                        {"annotation": "gpu-fraction", "weights": {"nvidia.com/gpu": 1000}},
                        {"product": ["nvidia.com/gpu", "nvidia.com/gpumem"]},
                    ],
                    extra_json_schema={"minProperties": 1},
                ),
            ],
        ],
        Meta(
            min_length=1,
            max_length=100,
            examples=[{"gpu-slices": {"weights": {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/gpu": 7}}}],
        ),
    ] = msgspec.field(default_factory=dict)
    """Names of your own in hard and soft, each with an amount that is derived from several resources of a pod: their
    weighted sum, or their product for each container, or the GPUs that annotations request. Such a name is short,
    without a domain, and no pod requests it."""
    workloads: Annotated[ForecastEnforcement, Meta(examples=["deny"], extra_json_schema={"type": None})] = (
        ForecastEnforcement.WARN
    )
    """The answer to a Deployment, Job or other workload whose pods have no room under hard. warn: it is stored, with a
    warning that contains the sum. deny: it is denied if its pods exceed the cap even without any other pod. ignore: no
    warning; its pods are denied one by one, and only an event on the ReplicaSet reports it. The same applies to the
    warnings about claims for devices: of a pod whose claims from templates have no room now (TG210), and of claims that
    get more than is free of the devices that the cap counts by allocation (TG211, TG212); these are never denied."""
    admit: Annotated[Admission, Meta(examples=["whole"], extra_json_schema={"type": None})] = Admission.EACH
    """What is decided together. each: every pod by itself. whole: the pods of a Job or another workload that start
    together. Its creation reserves the amounts of all of them, or is denied; its pods then take over what is reserved,
    and what they do not take over is free again after some minutes. Pods of other workloads are decided each by
    itself."""
    shows_top_consumers: Annotated[bool, Meta(examples=[False])] = msgspec.field(default=True, name="showTopConsumers")
    """Whether a denial names the top consumers: workloads and pods of the namespace; for a shared cap its namespaces.
    With false a denial states only the sums: for clusters where tenants must not know of each other."""
    exceed: Annotated[Subjects, SUBJECTS] = Subjects()
    """Emergency access: pods created by these users, groups and service accounts are admitted above hard. They are
    counted, and the audit annotations and the log record every use. A controller's service account creates the pods of
    a Deployment or Job, not the person."""


class NamespaceCap(CapSpec, frozen=True, kw_only=True):
    """A cap: limits for the pods and the claims for devices of a set of namespaces.

    A cap with a label in `group_by` is shared by the namespaces of each value of that label, and counts no namespace
    without it. A cap that `admits_whole` reserves the amounts of all pods of a workload that start together, or denies
    the workload.
    """

    name: str
    location: SourceLocation
    group_by: str = msgspec.field(default="", name="groupLabel")
    admits_whole: bool = False
    reason: str = ""
    locations: Mapping[str, SourceLocation] = NO_LOCATIONS

    def get_location(self, path: str) -> SourceLocation:
        """Return the location of a field (`spec.checks.perPod.max`), or of the policy if the field is missing."""
        return self.locations.get(path, self.location)

    @property
    def follows_capacity(self) -> bool:
        """Whether a limit is a percentage of a capacity."""
        return any(isinstance(limit, PercentLimit) for limit in (*self.hard.values(), *self.soft.values()))

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
    files: tuple[str, ...] = ()
    workload_kinds: tuple[WorkloadKind, ...] = ()
    node_resources: tuple[NodeResource, ...] = ()
    node_shapes: tuple[NodeShape, ...] = ()
    implied_requests: tuple[ImpliedRequest, ...] = ()

    def count_documents(self) -> int:
        definitions = self.workload_kinds, self.node_resources, self.node_shapes
        return sum(map(len, (self.rules, self.caps, self.implied_requests, *definitions)))

    @property
    def needs_slices(self) -> bool:
        """Whether a cap counts devices by what ResourceSlices have, or a limit is a percentage of possible devices."""
        if any(device.is_by_allocation for cap in self.caps for device in cap.devices.values()):
            return True
        names = {name for cap in self.caps if cap.follows_capacity for name in cap.list_requested_names()}
        return any(is_extended(name) or find_named_class(name) for name in names)

    @property
    def needs_nodes(self) -> bool:
        """Whether a limit is a percentage of what nodes have."""
        return any(cap.follows_capacity for cap in self.caps)
