"""Building: from a document that has the right shape to a rule or a cap, with every default filled in.

The schema has judged already; what is not there takes its default here, and nothing is judged a second time.
"""

from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from types import MappingProxyType

from webhook.accounting.names import REQUESTS_PREFIX
from webhook.accounting.quantity import Quantity
from webhook.policy.model import (
    Bounds,
    Checks,
    Enforcement,
    Equality,
    Foresight,
    LabelRequirement,
    LabelSelector,
    Match,
    NamespaceCap,
    NamespaceSelector,
    Operator,
    PodFilter,
    ResourceRule,
    Schedulable,
    Source,
    Subjects,
)
from webhook.policy.nodes import Mapping, Node, Scalar, Sequence, joined

WHY = "tallygate.dev/why"
"""The annotation that holds the admin's own reason."""

_EQUALITY = {True: Equality.REQUIRE, False: Equality.IGNORE, "fill": Equality.FILL}


class Fields:
    """The fields of a node, each read with its default; a node that is absent has none."""

    def __init__(self, node: Node | None) -> None:
        self._node = node if isinstance(node, Mapping) else None

    def __bool__(self) -> bool:
        """Whether it is there at all."""
        return self._node is not None

    def node(self, name: str) -> Node | None:
        """The node of a field."""
        return None if self._node is None else self._node.get(name)

    def fields(self, name: str) -> "Fields":
        """The fields beneath a field."""
        return Fields(self.node(name))

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        node = self.node(name)
        return node.text if isinstance(node, Scalar) else default

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        node = self.node(name)
        return bool(node.value) if isinstance(node, Scalar) else default

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(item.text for item in self.items(name) if isinstance(item, Scalar))

    def items(self, name: str) -> tuple[Node, ...]:
        """A list."""
        node = self.node(name)
        return node.items if isinstance(node, Sequence) else ()

    def quantity(self, name: str) -> Quantity | None:
        """A quantity, from its source text."""
        node = self.node(name)
        return Quantity.parse(node.text) if isinstance(node, Scalar) else None

    def places(self, file: str) -> AnyMapping[str, Source]:
        """Where every field beneath is written, by its path."""
        return MappingProxyType(dict(_places(file, "", self._node))) if self._node else MappingProxyType({})

    def pairs(self) -> AnyMapping[str, str]:
        """Keys with texts."""
        pairs = self._node.pairs if self._node else ()
        return MappingProxyType({key.text: node.text for key, node in pairs if isinstance(node, Scalar)})


def _places(file: str, path: str, node: Node) -> Iterator[tuple[str, Source]]:
    """The paths below a node with their places; `requests.X` stands under `X`, as in the model."""
    yield path, Source(file, node.line, node.column)
    if isinstance(node, Mapping):
        for key, below in node.pairs:
            yield from _places(file, joined(path, key.text.removeprefix(REQUESTS_PREFIX)), below)
    elif isinstance(node, Sequence):
        for at, below in enumerate(node.items):
            yield from _places(file, joined(path, at), below)


def rule(document: Fields, source: Source) -> ResourceRule:
    """The rule that a document says."""
    metadata, spec = document.fields("metadata"), document.fields("spec")
    return ResourceRule(
        name=metadata.text("name"),
        resources=spec.texts("resources"),
        match=_match(spec.fields("match")),
        enforcement=Enforcement(spec.text("enforcement", Enforcement.DENY)),
        checks=_checks(spec.fields("checks")),
        source=source,
        why=metadata.fields("annotations").text(WHY),
        places=document.places(source.file),
    )


def cap(document: Fields, source: Source) -> NamespaceCap:
    """The cap that a document says."""
    metadata, spec = document.fields("metadata"), document.fields("spec")
    return NamespaceCap(
        name=metadata.text("name"),
        namespaces=_namespaces(spec.fields("namespaces")) or NamespaceSelector(),
        hard=_amounts(spec.fields("hard")),
        soft=_amounts(spec.fields("soft")),
        shared=spec.flag("shared", default=False),
        pods=_pod_filter(spec.fields("pods")),
        exceed=_subjects(spec.fields("exceed")),
        source=source,
        workloads=Foresight(spec.text("workloads", Foresight.WARN)),
        names_holders=spec.flag("namesHolders", default=True),
        why=metadata.fields("annotations").text(WHY),
        places=document.places(source.file),
    )


def _match(fields: Fields) -> Match:
    return Match(
        namespaces=_namespaces(fields.fields("namespaces")),
        kinds=frozenset(fields.texts("kinds")) or None,
        objects=_label_selector(fields.fields("objects")),
        except_for=_subjects(fields.fields("exceptFor")),
    )


def _checks(fields: Fields) -> Checks:
    whole, equality = fields.node("wholeQuantity"), fields.node("requestsEqualLimits")
    schedulable = fields.text("schedulable")
    return Checks(
        well_formed_name=fields.flag("wellFormedName", default=True),
        whole_quantity=bool(whole.value) if isinstance(whole, Scalar) else None,
        requests_equal_limits=_EQUALITY[equality.value] if isinstance(equality, Scalar) else None,
        per_container=_bounds(fields.fields("perContainer")),
        per_pod=_bounds(fields.fields("perPod")),
        advertised=fields.flag("advertised", default=False),
        schedulable=Schedulable(schedulable) if schedulable else None,
    )


def _bounds(fields: Fields) -> Bounds | None:
    if not fields:
        return None
    return Bounds(
        min=fields.quantity("min"),
        max=fields.quantity("max"),
        multiple_of=fields.quantity("multipleOf"),
        one_of=tuple(Quantity.parse(text) for text in fields.texts("oneOf")),
    )


def _namespaces(fields: Fields) -> NamespaceSelector | None:
    if not fields:
        return None
    selector = _label_selector(fields.fields("selector"))
    return NamespaceSelector(include=fields.texts("include"), exclude=fields.texts("exclude"), selector=selector)


def _label_selector(fields: Fields) -> LabelSelector | None:
    if not fields:
        return None
    return LabelSelector(
        match_labels=fields.fields("matchLabels").pairs(),
        match_expressions=tuple(_requirement(Fields(item)) for item in fields.items("matchExpressions")),
    )


def _requirement(fields: Fields) -> LabelRequirement:
    return LabelRequirement(
        key=fields.text("key"), operator=Operator(fields.text("operator")), values=frozenset(fields.texts("values"))
    )


def _subjects(fields: Fields) -> Subjects:
    return Subjects(
        users=fields.texts("users"), groups=fields.texts("groups"), service_accounts=fields.texts("serviceAccounts")
    )


def _pod_filter(fields: Fields) -> PodFilter:
    return PodFilter(
        priority_classes=fields.texts("priorityClasses"),
        node_selector=fields.fields("nodeSelector").pairs(),
        objects=_label_selector(fields.fields("objects")),
    )


def _amounts(fields: Fields) -> AnyMapping[str, Quantity]:
    """Counted names with their quantities; `requests.X` is `X`."""
    counted = fields.pairs().items()
    return MappingProxyType({name.removeprefix(REQUESTS_PREFIX): Quantity.parse(text) for name, text in counted})
