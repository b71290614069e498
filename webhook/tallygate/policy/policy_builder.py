"""The policy builder: from a document of the right shape to a rule, a cap or an implied request.

The schema has validated the document already. The builder replaces missing fields by their defaults and validates
nothing again.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AnyMapping
from types import MappingProxyType

from tallygate.accounting.gpu_annotations import GpuAnnotation
from tallygate.accounting.names import REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.documents.syntax_tree import Entry, Mapping, Node, Scalar, Sequence, join_path
from tallygate.policy.model import (
    AllocationMode,
    AmountBounds,
    AnnotationOverride,
    Checks,
    CountDefinition,
    DeviceChecks,
    DeviceDefinition,
    Enforcement,
    Equality,
    ForecastEnforcement,
    ImpliedRequest,
    LabelRequirement,
    LimitOverride,
    Match,
    NamespaceCap,
    NamespaceSelector,
    Operator,
    PodFilter,
    PolicyLabelSelector,
    ResourceRule,
    Schedulable,
    SourceLocation,
    Subjects,
    SurgeDefinition,
)
from tallygate.policy.periods import parse_period
from tallygate.policy.times import parse_end_time

REASON_ANNOTATION = "tallygate.dev/why"
"""The annotation with the administrator's reason."""

_EQUALITY_VALUES = {True: Equality.REQUIRE, False: Equality.IGNORE, "fill": Equality.FILL}
_WHOLE = "whole"


class Fields:
    """The fields of a node, each with a default; a missing node has no fields."""

    def __init__(self, node: Node | None) -> None:
        self._node = node if isinstance(node, Mapping) else None

    def __bool__(self) -> bool:
        """Return whether the node exists."""
        return self._node is not None

    def get_node(self, name: str) -> Node | None:
        """Return the node of a field, or None."""
        return None if self._node is None else self._node.get(name)

    def get_fields(self, name: str) -> "Fields":
        """Return the fields below a field."""
        return Fields(self.get_node(name))

    def get_text(self, name: str, default: str = "") -> str:
        """Return a text, or the default if it is missing."""
        node = self.get_node(name)
        return node.text if isinstance(node, Scalar) else default

    def get_flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean, or the default if it is missing."""
        node = self.get_node(name)
        return bool(node.value) if isinstance(node, Scalar) else default

    def get_texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(item.text for item in self.get_items(name) if isinstance(item, Scalar))

    def get_items(self, name: str) -> list[Node]:
        """Return the nodes of a list."""
        node = self.get_node(name)
        return node.items if isinstance(node, Sequence) else []

    def get_quantity(self, name: str) -> Quantity | None:
        """Return a quantity, parsed from its source text, or None."""
        node = self.get_node(name)
        return Quantity.parse(node.text) if isinstance(node, Scalar) else None

    def list_locations(self, file: str) -> AnyMapping[str, SourceLocation]:
        """Return the location of every field below the node, by its path."""
        return (
            MappingProxyType(dict(_list_node_locations(file, "", self._node))) if self._node else MappingProxyType({})
        )

    def list_names(self) -> tuple[str, ...]:
        """Return the keys of a mapping."""
        return tuple(entry.name for entry in self._node.entries) if self._node else ()

    def list_entries(self, path: str) -> list[Entry]:
        """Return the entries of the mapping at a path, such as `surge.amounts`; none if it is missing or no mapping."""
        parent, _, rest = path.partition(".")
        if rest:
            return self.get_fields(parent).list_entries(rest)
        node = self.get_node(path)
        return list(node.entries) if isinstance(node, Mapping) else []

    def get_pairs(self) -> AnyMapping[str, str]:
        """Return the keys and texts of a mapping."""
        entries = self._node.entries if self._node else ()
        return MappingProxyType({entry.name: entry.value.text for entry in entries if isinstance(entry.value, Scalar)})


def _list_node_locations(file: str, path: str, node: Node) -> Iterator[tuple[str, SourceLocation]]:
    """Yield the paths below a node with their locations; `requests.X` has the path of `X`, as in the model."""
    yield path, SourceLocation(file, *node.position)
    if isinstance(node, Mapping):
        for entry in node.entries:
            child_path = join_path(path, entry.name.removeprefix(REQUESTS_PREFIX))
            yield from _list_node_locations(file, child_path, entry.value)
    elif isinstance(node, Sequence):
        for index, child in enumerate(node.items):
            yield from _list_node_locations(file, join_path(path, index), child)


def build_rule(document: Fields, location: SourceLocation) -> ResourceRule:
    """Return the rule of a document."""
    metadata, spec = document.get_fields("metadata"), document.get_fields("spec")
    return ResourceRule(
        name=metadata.get_text("name"),
        resources=spec.get_texts("resources"),
        match=_build_match(spec.get_fields("match")),
        enforcement=Enforcement(spec.get_text("enforcement", Enforcement.DENY)),
        checks=_build_checks(spec.get_fields("checks")),
        location=location,
        reason=metadata.get_fields("annotations").get_text(REASON_ANNOTATION),
        locations=document.list_locations(location.file),
    )


def build_cap(document: Fields, location: SourceLocation) -> NamespaceCap:
    """Return the cap of a document."""
    metadata, spec = document.get_fields("metadata"), document.get_fields("spec")
    group_by = spec.get_fields("groupBy").get_text("label")
    return NamespaceCap(
        name=metadata.get_text("name"),
        namespaces=_build_namespace_selector(spec.get_fields("namespaces")) or NamespaceSelector(),
        hard=_build_amounts(spec.get_fields("hard")),
        soft=_build_amounts(spec.get_fields("soft")),
        shared=spec.get_flag("shared", default=bool(group_by)),
        pods=_build_pod_filter(spec.get_fields("pods")),
        exceed=_build_subjects(spec.get_fields("exceed")),
        location=location,
        workloads=ForecastEnforcement(spec.get_text("workloads", ForecastEnforcement.WARN)),
        shows_top_consumers=spec.get_flag("showTopConsumers", default=True),
        devices=_build_devices(spec.get_fields("devices")),
        counts=_build_counts(spec.get_fields("counts")),
        group_by=group_by,
        admits_whole=spec.get_text("admit") == _WHOLE,
        overrides=tuple(_build_override(Fields(item)) for item in spec.get_items("overrides")),
        annotation=_build_annotation(spec.get_fields("overrideAnnotation")),
        surge=_build_surge(spec.get_fields("surge")),
        reason=metadata.get_fields("annotations").get_text(REASON_ANNOTATION),
        locations=document.list_locations(location.file),
    )


def build_implied_request(document: Fields, location: SourceLocation) -> ImpliedRequest:
    """Return the implied request of a document."""
    metadata, spec = document.get_fields("metadata"), document.get_fields("spec")
    per_pod = spec.get_quantity("perPod")
    return ImpliedRequest(
        name=metadata.get_text("name"),
        resource=spec.get_text("resource"),
        per_pod=Quantity.from_int(1) if per_pod is None else per_pod,
        match=_build_match(spec.get_fields("match")),
        enforcement=Enforcement(spec.get_text("enforcement", Enforcement.WARN)),
        location=location,
        unless_host_network=spec.get_fields("unless").get_flag("hostNetwork", default=False),
        reason=metadata.get_fields("annotations").get_text(REASON_ANNOTATION),
        locations=document.list_locations(location.file),
    )


def _build_match(fields: Fields) -> Match:
    return Match(
        namespaces=_build_namespace_selector(fields.get_fields("namespaces")),
        kinds=frozenset(fields.get_texts("kinds")) or None,
        object_selector=_build_label_selector(fields.get_fields("objectSelector")),
        exempt=_build_subjects(fields.get_fields("exempt")),
    )


def _build_checks(fields: Fields) -> Checks:
    whole, equality = fields.get_node("wholeQuantity"), fields.get_node("requestsEqualLimits")
    schedulable = fields.get_text("schedulable")
    return Checks(
        well_formed_name=fields.get_flag("wellFormedName", default=True),
        whole_quantity=bool(whole.value) if isinstance(whole, Scalar) else None,
        requests_equal_limits=_EQUALITY_VALUES[equality.value] if isinstance(equality, Scalar) else None,
        per_container=_build_bounds(fields.get_fields("perContainer")),
        per_pod=_build_bounds(fields.get_fields("perPod")),
        advertised=fields.get_flag("advertised", default=False),
        schedulable=Schedulable(schedulable) if schedulable else None,
        per_claim=_build_bounds(fields.get_fields("perClaim")),
        devices=_build_device_checks(fields.get_fields("devices")),
    )


def _build_bounds(fields: Fields) -> AmountBounds | None:
    if not fields:
        return None
    return AmountBounds(
        min=fields.get_quantity("min"),
        max=fields.get_quantity("max"),
        multiple_of=fields.get_quantity("multipleOf"),
        one_of=tuple(Quantity.parse(text) for text in fields.get_texts("oneOf")),
    )


def _build_device_checks(fields: Fields) -> DeviceChecks | None:
    if not fields:
        return None
    admin_access = fields.get_fields("adminAccess")
    return DeviceChecks(
        classes=fields.get_texts("classes"),
        allocation_modes=frozenset(AllocationMode(mode) for mode in fields.get_texts("allocationModes")),
        admin_access=_build_subjects(admin_access) if admin_access else None,
        requires_selectors=bool(fields.get_text("selectors")),
    )


def _build_namespace_selector(fields: Fields) -> NamespaceSelector | None:
    if not fields:
        return None
    selector = _build_label_selector(fields.get_fields("selector"))
    return NamespaceSelector(
        include=fields.get_texts("include"), exclude=fields.get_texts("exclude"), selector=selector
    )


def _build_label_selector(fields: Fields) -> PolicyLabelSelector | None:
    if not fields:
        return None
    return PolicyLabelSelector(
        match_labels=fields.get_fields("matchLabels").get_pairs(),
        match_expressions=tuple(
            _build_label_requirement(Fields(item)) for item in fields.get_items("matchExpressions")
        ),
    )


def _build_label_requirement(fields: Fields) -> LabelRequirement:
    return LabelRequirement(
        key=fields.get_text("key"),
        operator=Operator(fields.get_text("operator")),
        values=frozenset(fields.get_texts("values")),
    )


def _build_subjects(fields: Fields) -> Subjects:
    return Subjects(
        users=fields.get_texts("users"),
        groups=fields.get_texts("groups"),
        service_accounts=fields.get_texts("serviceAccounts"),
    )


def _build_pod_filter(fields: Fields) -> PodFilter:
    return PodFilter(
        priority_classes=fields.get_texts("priorityClasses"),
        node_selector=fields.get_fields("nodeSelector").get_pairs(),
        objects=_build_label_selector(fields.get_fields("objectSelector")),
    )


def _build_devices(fields: Fields) -> AnyMapping[str, DeviceDefinition]:
    """Return the definitions of devices by counted name; `requests.X` becomes `X`."""
    definitions = {name.removeprefix(REQUESTS_PREFIX): fields.get_fields(name) for name in fields.list_names()}
    return MappingProxyType(
        {
            name: DeviceDefinition(
                definition.get_texts("classes"), definition.get_text("selector"), definition.get_text("sum")
            )
            for name, definition in definitions.items()
        }
    )


def _build_counts(fields: Fields) -> AnyMapping[str, CountDefinition]:
    definitions = {name: fields.get_fields(name) for name in fields.list_names()}
    return MappingProxyType(
        {
            name: CountDefinition(
                MappingProxyType(
                    {key: int(text) for key, text in definition.get_fields("weights").get_pairs().items()}
                ),
                tuple(get_factor_name(item) for item in definition.get_items("product")),
                MappingProxyType(dict(_list_defaults(definition.get_items("product")))),
                GpuAnnotation(definition.get_text("annotation")) if definition.get_node("annotation") else None,
            )
            for name, definition in definitions.items()
        }
    )


def get_factor_name(item: Node) -> str:
    """Return the resource of a factor of a product: a name, or a mapping with `resource`."""
    return item.text if isinstance(item, Scalar) else Fields(item).get_text("resource")


def _list_defaults(factors: Iterable[Node]) -> Iterator[tuple[str, int]]:
    for item in factors:
        if default := Fields(item).get_text("default"):
            yield get_factor_name(item), int(default)


def _build_override(fields: Fields) -> LimitOverride:
    until = fields.get_text("until")
    return LimitOverride(
        hard=_build_amounts(fields.get_fields("hard")),
        groups=fields.get_texts("groups"),
        namespaces=fields.get_texts("namespaces"),
        until=parse_end_time(until) if until else None,
    )


def _build_annotation(fields: Fields) -> AnnotationOverride | None:
    if not fields:
        return None
    return AnnotationOverride(_build_amounts(fields.get_fields("most")), _build_subjects(fields.get_fields("setBy")))


def _build_surge(fields: Fields) -> SurgeDefinition | None:
    if not fields:
        return None
    return SurgeDefinition(_build_amounts(fields.get_fields("amounts")), parse_period(fields.get_text("for")))


def _build_amounts(fields: Fields) -> AnyMapping[str, Quantity]:
    """Return counted names with their quantities; `requests.X` becomes `X`."""
    counted = fields.get_pairs().items()
    return MappingProxyType({name.removeprefix(REQUESTS_PREFIX): Quantity.parse(text) for name, text in counted})
