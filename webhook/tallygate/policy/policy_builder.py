"""The policy builder: from a document of the right shape to a rule, a cap or an implied request.

The schema has validated the document already. The Structs of the documents have the defaults.
"""

from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from types import MappingProxyType
from typing import Annotated, Literal, TypedDict

import msgspec
from msgspec import Meta

from tallygate.accounting.names import REQUESTS_PREFIX
from tallygate.documents import syntax_tree
from tallygate.policy.model import (
    API_VERSION,
    REASON_ANNOTATION,
    Admission,
    CapSpec,
    Equality,
    ImpliedRequest,
    ImpliedRequestSpec,
    NamespaceCap,
    ResourceRule,
    RuleSpec,
    SourceLocation,
)
from tallygate.policy.times import parse_end_time
from tallygate.policy.written import Written, convert, read_plain

_EQUALITY_VALUES = {True: Equality.REQUIRE, False: Equality.IGNORE, "fill": Equality.FILL}


class Metadata(Written, frozen=True):
    """The name of a policy, and notes."""

    name: Annotated[
        str,
        Meta(
            max_length=63,
            examples=["whole-gpus", "team-vision.gpus"],
            extra_json_schema={"format": "policy-name", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
        ),
    ]
    """Names the policy in messages, logs, metrics and ledgers: lowercase letters, digits, '-' and '.', at most 63
    characters, once per kind. A cap's ledger belongs to its name: renaming a cap starts a new one."""
    annotations: Annotated[
        AnyMapping[
            str,
            Annotated[
                str,
                Meta(title="A note", description="Any text; tallygate ignores it.", examples=["platform@example.com"]),
            ],
        ],
        Meta(
            max_length=50,
            examples=[{REASON_ANNOTATION: "GPUs cannot be split; ask the ML platform team for MIG slices"}],
            extra_json_schema={
                "propertyNames": {"format": "label-key"},
                "properties": {
                    REASON_ANNOTATION: {
                        "title": "Why",
                        "description": "The admin's own reason, shown with every denial and warning of this policy: "
                        "name a contact and an alternative.",
                        "type": "string",
                        "default": "",
                        "maxLength": 500,
                        "examples": ["GPUs cannot be split; ask the ML platform team for MIG slices"],
                    }
                },
            },
        ),
    ] = msgspec.field(default_factory=dict)
    """Notes for people and tools. Denials show `tallygate.dev/why`; other annotations are ignored."""


class PolicyDocument(Written, frozen=True, kw_only=True):
    """A document of a policy."""

    api_version: Annotated[
        Literal["tallygate.dev/v1alpha1"],
        Meta(title="API version", examples=[API_VERSION], extra_json_schema={"type": "string"}),
    ]
    """The version of this language."""
    kind: str
    metadata: Annotated[Metadata, Meta(examples=[{"name": "whole-gpus"}])]
    """The policy's name and the reason for it."""


class RuleDocument(PolicyDocument, frozen=True, kw_only=True):
    """Constraints on requests for some resources. All rules that match apply, and all problems are reported."""

    kind: Annotated[str, Meta(examples=["ResourceRule"], extra_json_schema={"const": "ResourceRule"})]
    """ResourceRule."""
    spec: Annotated[RuleSpec, Meta(title="Rule", examples=[{"resources": ["extended", "opaque"]}])]
    """The resources, the requests that the rule matches, the checks, and the consequence of a failed check."""


class CapDocument(PolicyDocument, frozen=True, kw_only=True):
    """A limit on the amounts that a set of namespaces uses. Each cap that matches a pod must have room for it.

    Unlike a ResourceQuota it selects namespaces by label, may be shared among them, can warn below the limit, and
    counts opaque resources.
    """

    kind: Annotated[str, Meta(examples=["NamespaceCap"], extra_json_schema={"const": "NamespaceCap"})]
    """NamespaceCap."""
    spec: Annotated[
        CapSpec,
        Meta(
            title="Cap",
            examples=[{"hard": {"nvidia.com/gpu": 8}, "soft": {"nvidia.com/gpu": 6}}],
            extra_json_schema={"anyOf": [{"required": ["hard"]}, {"required": ["soft"]}]},
        ),
    ]
    """The namespaces, the amounts and the pods. At least one of hard and soft is required."""


class ImpliedRequestDocument(PolicyDocument, frozen=True, kw_only=True):
    """A request for a counted resource that pods get without writing it.

    When a pod is created, the mutating webhook adds request and limit to its first container, unless a container
    requests the resource already, in any amount. Pod templates stay as they are written; forecasts and predictions
    count what their pods will request.
    """

    kind: Annotated[str, Meta(examples=["ImpliedRequest"], extra_json_schema={"const": "ImpliedRequest"})]
    """ImpliedRequest."""
    spec: Annotated[
        ImpliedRequestSpec,
        Meta(
            title="Implied request",
            examples=[{"resource": "example.com/ip", "perPod": 1, "unless": {"hostNetwork": True}}],
        ),
    ]
    """The resource, the amount for each pod, and the pods that get it. Of several for one resource the first one that
    matches a pod counts."""


class Fields:
    """The fields of a node that need not be valid; a missing node has no fields."""

    def __init__(self, node: syntax_tree.Node | None) -> None:
        self._node = node if isinstance(node, syntax_tree.Mapping) else None

    def __bool__(self) -> bool:
        return self._node is not None

    def get_node(self, name: str) -> syntax_tree.Node | None:
        """Return the node of a field, or None."""
        return None if self._node is None else self._node.get(name)

    def get_fields(self, name: str) -> "Fields":
        """Return the fields below a field."""
        return Fields(self.get_node(name))

    def get_text(self, name: str, default: str = "") -> str:
        node = self.get_node(name)
        return node.text if isinstance(node, syntax_tree.Scalar) else default

    def get_items(self, name: str) -> list[syntax_tree.Node]:
        node = self.get_node(name)
        return node.items if isinstance(node, syntax_tree.Sequence) else []

    def list_names(self) -> tuple[str, ...]:
        return tuple(entry.name for entry in self._node.entries) if self._node else ()

    def list_entries(self, path: str) -> list[syntax_tree.Entry]:
        """Return the entries of the mapping at a path, such as `surge.amounts`; none if it is missing or no mapping."""
        parent, _, rest = path.partition(".")
        if rest:
            return self.get_fields(parent).list_entries(rest)
        node = self.get_node(path)
        return list(node.entries) if isinstance(node, syntax_tree.Mapping) else []


def list_node_locations(file: str, path: str, node: syntax_tree.Node) -> Iterator[tuple[str, SourceLocation]]:
    """Yield the paths below a node with their locations; `requests.X` has the path of `X`, as in the model."""
    yield path, SourceLocation(file, *node.position)
    if isinstance(node, syntax_tree.Mapping):
        for entry in node.entries:
            child_path = syntax_tree.join_path(path, entry.name.removeprefix(REQUESTS_PREFIX))
            yield from list_node_locations(file, child_path, entry.value)
    elif isinstance(node, syntax_tree.Sequence):
        for index, child in enumerate(node.items):
            yield from list_node_locations(file, syntax_tree.join_path(path, index), child)


class _Description(TypedDict):
    """The fields that all policies have besides those of their spec."""

    name: str
    location: SourceLocation
    reason: str
    locations: AnyMapping[str, SourceLocation]


def build_rule(node: syntax_tree.Node, location: SourceLocation) -> ResourceRule:
    plain = read_plain(node)
    checks = plain["spec"].get("checks", {})
    if "requestsEqualLimits" in checks:
        checks["requestsEqualLimits"] = _EQUALITY_VALUES[checks["requestsEqualLimits"]]
    document = convert(plain, RuleDocument)
    return ResourceRule(**msgspec.structs.asdict(document.spec), **_describe(document, node, location))


def build_cap(node: syntax_tree.Node, location: SourceLocation) -> NamespaceCap:
    plain = read_plain(node)
    spec = plain["spec"]
    overrides = spec.get("overrides", ())
    guaranteed = ((entry, "amounts") for entry in spec.get("guarantee", ()))
    limited = (
        (spec, "hard"),
        (spec, "soft"),
        (spec, "devices"),
        *((override, "hard") for override in overrides),
        *guaranteed,
    )
    for fields, name in (*limited, (spec.get("surge", {}), "amounts"), (spec.get("overrideAnnotation", {}), "most")):
        if name in fields:
            fields[name] = {key.removeprefix(REQUESTS_PREFIX): value for key, value in fields[name].items()}
    for override in overrides:
        if "until" in override:
            override["until"] = parse_end_time(override["until"])
    spec.setdefault("shared", "groupBy" in spec)
    document = convert(plain, CapDocument)
    return NamespaceCap(
        **msgspec.structs.asdict(document.spec),
        **_describe(document, node, location),
        group_by=document.spec.groups.label if document.spec.groups is not None else "",
        admits_whole=document.spec.admit is Admission.WHOLE,
    )


def build_implied_request(node: syntax_tree.Node, location: SourceLocation) -> ImpliedRequest:
    document = convert(read_plain(node), ImpliedRequestDocument)
    return ImpliedRequest(**msgspec.structs.asdict(document.spec), **_describe(document, node, location))


def _describe(document: PolicyDocument, node: syntax_tree.Node, location: SourceLocation) -> _Description:
    """Return the fields that all policies have: the location of every field, by its path, and the reason."""
    return _Description(
        name=document.metadata.name,
        location=location,
        reason=document.metadata.annotations.get(REASON_ANNOTATION, ""),
        locations=MappingProxyType(dict(list_node_locations(location.file, "", node))),
    )
