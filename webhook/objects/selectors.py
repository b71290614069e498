"""Label selectors and node selectors, as pods, namespaces and volumes are chosen by them."""

import msgspec

from webhook.objects.meta import StringMap


class SelectorRequirement(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One expression of a selector: a key, an operator, and the values it is compared with."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A label selector (k8s.io/apimachinery/pkg/apis/meta/v1, LabelSelector)."""

    match_labels: StringMap | None = None
    match_expressions: list[SelectorRequirement] | None = None


class NodeSelectorTerm(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """One of the terms of a node selector, of which any may match."""

    match_expressions: list[SelectorRequirement] | None = None
    match_fields: list[SelectorRequirement] | None = None


class NodeSelector(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A node selector (k8s.io/api/core/v1, NodeSelector)."""

    node_selector_terms: list[NodeSelectorTerm] | None = None
