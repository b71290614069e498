"""What a rule, a cap and a set of both are.

Plain immutable values with every default already filled in; how they are written is `webhook.policy.schema`'s matter,
what they mean to an object is `webhook.admission`'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from webhook.accounting.quantity import Quantity


def _create_empty_labels() -> Mapping[str, str]:
    return MappingProxyType({})


def _create_empty_locations() -> Mapping[str, "SourceLocation"]:
    """No places: a policy that was made and not read."""
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where something is written: `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        """`file:line:column`, as editors and compilers write it."""
        return f"{self.file}:{self.line}:{self.column}"


class Enforcement(StrEnum):
    """What happens to a request that breaks a rule."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"


class Equality(StrEnum):
    """What `requestsEqualLimits` asks for."""

    IGNORE = "ignore"
    REQUIRE = "require"
    FILL = "fill"


class Schedulable(StrEnum):
    """At which prediction a rule complains."""

    NEVER = "never"
    NOT_NOW = "not-now"


class ForecastEnforcement(StrEnum):
    """What happens to a workload whose pods a cap will not let in."""

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
class LabelSelector:
    """A Kubernetes label selector; an empty one matches everything."""

    match_labels: Mapping[str, str] = field(default_factory=_create_empty_labels)
    match_expressions: tuple[LabelRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class NamespaceSelector:
    """Which namespaces: in one of `include` (empty: all), in none of `exclude`, and labelled so. Globs both."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who: any of these users, groups, or service accounts (`namespace/name`, globs)."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """Whom a rule is for. `kinds` and `namespaces` absent mean all."""

    namespaces: NamespaceSelector | None = None
    kinds: frozenset[str] | None = None
    object_selector: LabelSelector | None = None
    exempt: Subjects = Subjects()


@dataclass(frozen=True, slots=True)
class AmountBounds:
    """What an amount may be: each absent means no such bound."""

    min: Quantity | None = None
    max: Quantity | None = None
    multiple_of: Quantity | None = None
    one_of: tuple[Quantity, ...] = ()


@dataclass(frozen=True, slots=True)
class Checks:
    """What a rule checks.

    `None` for a check that may be left out means *for countable resources* (extended and opaque): nobody wants
    whole CPUs because a rule matched `*`.
    """

    well_formed_name: bool = True
    whole_quantity: bool | None = None
    requests_equal_limits: Equality | None = None
    per_container: AmountBounds | None = None
    per_pod: AmountBounds | None = None
    advertised: bool = False
    schedulable: Schedulable | None = None


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """A rule: what a request for some resources must look like. `why` is the admin's own reason, shown to the user."""

    name: str
    resources: tuple[str, ...]
    match: Match
    enforcement: Enforcement
    checks: Checks
    location: SourceLocation
    reason: str = ""
    locations: Mapping[str, SourceLocation] = field(default_factory=_create_empty_locations, compare=False, repr=False)

    def get_location(self, path: str) -> SourceLocation:
        """Where a field (`spec.checks.perPod.max`) is written, or the policy itself where it is not."""
        return self.locations.get(path, self.location)


@dataclass(frozen=True, slots=True)
class PodFilter:
    """Which pods a cap counts: all that are said must hold; an empty one counts every pod."""

    priority_classes: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=_create_empty_labels)
    objects: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class NamespaceCap:
    """A cap: what a set of namespaces may hold.

    `hard` and `soft` map a counted name (`nvidia.com/gpu`, `limits.memory`, `pods`; a `requests.` prefix is already
    taken off) to the most there may be. `shared` caps hold one ledger for all their namespaces. `workloads` says what
    happens to a workload whose pods have no room, `names_holders` whether a refusal says who holds most.
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
    reason: str = ""
    locations: Mapping[str, SourceLocation] = field(default_factory=_create_empty_locations, compare=False, repr=False)

    def get_location(self, path: str) -> SourceLocation:
        """Where a field (`spec.checks.perPod.max`) is written, or the policy itself where it is not."""
        return self.locations.get(path, self.location)


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Everything in force at one time. `digest` names it: the same files give the same digest."""

    rules: tuple[ResourceRule, ...] = ()
    caps: tuple[NamespaceCap, ...] = ()
    digest: str = ""
    files: tuple[str, ...] = field(default=())
