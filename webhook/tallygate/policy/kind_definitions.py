"""Definitions of kinds: the documents `kind: WorkloadKind`, with the mistakes that a schema cannot express.

The paths of a definition have a meaning only together: a count is for the items of its template, and one field of
`least` has a default. Each mistake has the position of its value.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from tallygate.documents.syntax_tree import Mapping, Node, Scalar, join_path
from tallygate.policy.formats import quote_text
from tallygate.policy.known_kinds import BUILT_IN_KINDS, KNOWN_KINDS
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields, PolicyDocument
from tallygate.policy.policy_codes import BAD_NAME, BAD_PATH, BAD_POD_SET, KIND_IS_READ, KIND_NOT_READ
from tallygate.policy.suggest import format_suggestion
from tallygate.policy.workload_kinds import (
    CountFactor,
    CountField,
    FieldPath,
    PathError,
    PodForm,
    PodSetDefinition,
    WorkloadKind,
)
from tallygate.policy.written import UNIQUE, Written, convert, read_plain

_FORMS = ("template", "podSpec", "resources")
_COUNTS = ("count", "most")

_Path = Annotated[
    str,
    Meta(
        description="A path of fields from the top of the object, with dots between them. [*] stands for each item of "
        "a list, .* for each value of a mapping; a key with dots is written in brackets and double quotes.",
        max_length=512,
        examples=["spec.tasks[*].template", "spec.replicaSpecs.*.template", 'metadata.annotations["example.com/size"]'],
        extra_json_schema={"format": "field-path"},
    ),
]
_PlainPath = Annotated[str, Meta(max_length=512, extra_json_schema={"format": "field-path"})]
_PodCount = Annotated[int, Meta(ge=0, examples=[1], extra_json_schema={"format": "pod-count"})]


class FieldSpec(Written, frozen=True):
    """A field with a number, one of several of which the smallest counts."""

    field: Annotated[_Path, Meta(examples=["spec.completions"])]
    """The path of the field."""
    default: _PodCount | None = None
    """The number if the field is absent, before minus. Left out: the field does not count then."""
    minus: _PodCount = 0
    """The number by which the field is lowered."""


class FactorSpec(Written, frozen=True):
    """A factor of a number of pods: a field, or the smallest of several."""

    field: _Path | None = None
    """The path of the field. Left out: least."""
    default: _PodCount | None = None
    """The number if the field is absent, before minus. Left out: 1."""
    minus: Annotated[_PodCount, Meta(examples=[1])] = 0
    """The number by which the field is lowered, as for a leader that is counted elsewhere."""
    least: Annotated[
        tuple[
            Annotated[
                _PlainPath | FieldSpec,
                Meta(
                    title="Field",
                    description="The path of a field with a number, or a mapping with the path.",
                    examples=["spec.completions", {"field": "spec.parallelism", "default": 1}],
                ),
            ],
            ...,
        ],
        Meta(min_length=2, max_length=10, examples=[[{"field": "spec.parallelism", "default": 1}, "spec.completions"]]),
    ] = ()
    """The smallest of these fields counts, as of parallelism and completions of a Job. A path alone does not count if
    the field is absent, so that one of them needs a default. Left out: field."""


_Factor = Annotated[
    _PlainPath | FactorSpec,
    Meta(
        title="Count factor",
        description="The path of a field with a number, a mapping with the path, or the smallest of several fields. "
        "Annotations with a number count too.",
        examples=["spec.replicas", {"field": "spec.size", "minus": 1}],
    ),
]


class PodSetSpec(Written, frozen=True):
    """The pods of one template."""

    template: Annotated[_Path | None, Meta(examples=["spec.tasks[*].template"])] = None
    """The path of a pod template, with metadata and spec as in a Deployment. Left out: podSpec or resources."""
    pod_spec: Annotated[_Path | None, Meta(examples=["spec.predictor"])] = None
    """The path of the spec of a pod, with containers. Left out: template or resources."""
    resources: Annotated[_Path | None, Meta(examples=["spec.resourcesPerNode"])] = None
    """The path of requests and limits of one container whose template is in another object. Left out: template or
    podSpec."""
    fallback: Annotated[_Path | None, Meta(examples=["spec.template"])] = None
    """The path of the same form that counts where the first path has nothing. Left out: then there are no such pods."""
    noun: Annotated[
        str,
        Meta(max_length=40, examples=["workers"], extra_json_schema={"format": "noun", "pattern": "^[a-z][a-z -]*$"}),
    ] = "pods"
    """The name of these pods in messages, as in 8 workers."""
    count: Annotated[
        tuple[_Factor, ...],
        Meta(
            max_length=10, examples=[["spec.tasks[*].replicas"], ["spec.replicas", {"field": "spec.size", "minus": 1}]]
        ),
    ] = ()
    """The number of pods of each template: the product of these fields, 1 without any. A path alone counts as 1 if the
    field is absent. The wildcards of a path stand for the same items as those of the template."""
    most: Annotated[
        tuple[_Factor, ...], Meta(min_length=1, max_length=10, examples=[[{"field": "spec.maxReplicas", "default": 0}]])
    ] = ()
    """The largest number of pods, to which an autoscaler can raise it: the product of these fields. Left out: none
    does."""
    autoscaled: Annotated[_Path | None, Meta(examples=["spec.enableAutoscaling"])] = None
    """The path of a field: most counts only while it is true. Left out: most always counts."""


class Scope(StrEnum):
    """The scope of a kind."""

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"


class WorkloadKindSpec(Written, frozen=True, kw_only=True):
    """A kind and its pods."""

    group: Annotated[
        str,
        Meta(
            max_length=253,
            examples=["batch.example.com"],
            extra_json_schema={"format": "api-group", "pattern": "^[a-z0-9.-]+$"},
        ),
    ]
    """The API group, spec.group of the definition."""
    kind: Annotated[
        str,
        Meta(
            max_length=63,
            examples=["GangJob"],
            extra_json_schema={"format": "kind-name", "pattern": "^[A-Z][A-Za-z0-9]*$"},
        ),
    ]
    """The kind, spec.names.kind of the definition."""
    resource: Annotated[
        str,
        Meta(
            max_length=63,
            examples=["gangjobs"],
            extra_json_schema={"format": "plural-name", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
        ),
    ]
    """The plural in the paths of the API, spec.names.plural of the definition."""
    versions: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Version",
                    description="An API version.",
                    max_length=63,
                    examples=["v1"],
                    extra_json_schema={"format": "api-version", "pattern": "^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$"},
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=10, examples=[["v1", "v1beta1"]], extra_json_schema=UNIQUE),
    ]
    """The API versions that have these paths, the newest first."""
    scope: Annotated[Scope, Meta(examples=["Cluster"])] = Scope.NAMESPACED
    """Whether its objects are in namespaces, spec.scope of the definition."""
    starts_together: Annotated[bool, Meta(examples=[True])] = False
    """Whether the pods of an object wait for each other, so that a part of them is of no use. A cap with `admit: whole`
    then reserves for all of them, or denies the object."""
    suspended: Annotated[
        tuple[Annotated[_Path, Meta(title="Field path")], ...],
        Meta(min_length=1, max_length=10, examples=[["spec.suspend"]], extra_json_schema=UNIQUE),
    ] = ()
    """Paths without wildcards: an object makes no pods while one of these fields is true. Left out: it always makes
    them."""
    pods: Annotated[
        tuple[
            Annotated[
                PodSetSpec,
                Meta(
                    title="Pod set",
                    description="The pods of one template, or of each item that a wildcard of its path stands for. At "
                    "least one of template, podSpec and resources is given, and no second one.",
                    examples=[{"template": "spec.template", "count": ["spec.replicas"]}],
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=20, examples=[[{"template": "spec.template", "count": ["spec.replicas"]}]]),
    ]
    """The pod templates, each with the number of its pods."""


class WorkloadKindDocument(PolicyDocument, frozen=True, kw_only=True):
    """A kind whose objects contain pods: the paths of their pod templates and of the numbers of pods.

    Rules, caps, forecasts and commands then read it like a Deployment. Kubernetes' own kinds, and those of many
    projects, are read without a definition.
    """

    kind: Annotated[str, Meta(examples=["WorkloadKind"], extra_json_schema={"const": "WorkloadKind"})]
    """WorkloadKind."""
    spec: Annotated[
        WorkloadKindSpec,
        Meta(
            title="Definition",
            examples=[
                {
                    "group": "batch.example.com",
                    "kind": "GangJob",
                    "resource": "gangjobs",
                    "versions": ["v1"],
                    "pods": [{"template": "spec.template", "count": ["spec.replicas"]}],
                }
            ],
        ),
    ]
    """The kind, as its CustomResourceDefinition names it, and its pods."""


@dataclass(frozen=True, slots=True)
class _Mistake:
    node: Node
    code: str
    text: str
    severity: Severity = Severity.ERROR


def check_kind_definition(file: str, document: Node) -> set[LintFinding]:
    """Return the findings about the definition in a document; about values of a wrong form the schema reports."""
    spec = Fields(document).get_fields("spec")
    mistakes = [*_check_kind(spec), *_check_suspended(spec)]
    for index, item in enumerate(spec.get_items("pods")):
        if isinstance(item, Mapping):
            mistakes += _check_pod_set(item, join_path("spec.pods", index))
    return {
        LintFinding.create(SourceLocation(file, *mistake.node.position), mistake.code, mistake.severity, mistake.text)
        for mistake in mistakes
    }


def _check_kind(spec: Fields) -> Iterator[_Mistake]:
    node, group, kind = spec.get_node("kind"), spec.get_text("group"), spec.get_text("kind")
    if node is None:
        return
    known = {kind.kind.lower(): kind.kind for kind in KNOWN_KINDS if kind.group == group}
    if BUILT_IN_KINDS.get(kind) == group:
        yield _Mistake(
            node,
            KIND_IS_READ,
            f"spec.kind: {kind} of {group} is a kind of Kubernetes, read without a definition; remove this",
        )
    elif known.get(kind.lower()) == kind:
        text = f"spec.kind: {kind} of {group} is read without a definition; remove this document"
        yield _Mistake(node, KIND_IS_READ, text)
    elif kind.lower() in known:
        text = f"spec.kind: no API server has {kind} in {group}; {known[kind.lower()]} is read without a definition"
        yield _Mistake(node, KIND_IS_READ, text)
    plural = spec.get_node("resource")
    if plural is not None and spec.get_text("resource") == kind.lower() and not kind.lower().endswith("s"):
        text = f'spec.resource: "{kind.lower()}" is the singular; API paths have the plural, as in {kind.lower()}s'
        yield _Mistake(plural, BAD_NAME, text, Severity.WARNING)


def _check_suspended(spec: Fields) -> Iterator[_Mistake]:
    for index, node in enumerate(spec.get_items("suspended")):
        path = _parse_path(node)
        if path is not None and path.wildcard_count:
            field = join_path("spec.suspended", index)
            text = f"{field}: {quote_text(path.text)} stands for several fields; name one, without wildcards"
            yield _Mistake(node, BAD_PATH, text)


def _check_pod_set(pod_set: Mapping, field: str) -> Iterator[_Mistake]:
    fields = Fields(pod_set)
    forms = [name for name in _FORMS if fields.get_node(name) is not None]
    if not forms:
        text = f"{field}: it has no template; write template: spec.template, or podSpec or resources"
        yield _Mistake(pod_set, BAD_POD_SET, text)
    for name in forms[1:]:
        text = f"{field}.{name}: {forms[0]} is given too; an entry has one of {', '.join(_FORMS)}: write two entries"
        yield _Mistake(fields.get_node(name) or pod_set, BAD_POD_SET, text)
    template = _parse_path(fields.get_node(forms[0])) if forms else None
    if template is not None and forms[0] == "template" and template.steps[-1] == "spec":
        node = fields.get_node("template") or pod_set
        text = f"{field}.template: {quote_text(template.text)} seems to be the spec of a pod; write podSpec for that"
        yield _Mistake(node, BAD_POD_SET, text, Severity.WARNING)
    autoscaled = fields.get_node("autoscaled")
    if autoscaled is not None and fields.get_node("most") is None:
        text = f"{field}.autoscaled: without most it has no effect; add most, or remove this"
        yield _Mistake(autoscaled, BAD_POD_SET, text)
    for name in _COUNTS:
        for index, factor in enumerate(fields.get_items(name)):
            yield from _check_factor(factor, join_path(f"{field}.{name}", index))
    if template is not None:
        for node, node_field in _list_paths(fields, field):
            yield from _check_wildcards(node, node_field, template, forms[0])


def _check_factor(factor: Node, field: str) -> Iterator[_Mistake]:
    if not isinstance(factor, Mapping):
        return
    given = {entry.name: entry.key for entry in factor.entries}
    if "field" not in given and "least" not in given:
        yield _Mistake(factor, BAD_POD_SET, f"{field}: it names no field; write field: spec.replicas, or least")
    elif "least" in given:
        for name in ("field", "default", "minus"):
            if name in given:
                text = f"{field}.{name}: it belongs to one field; write it in an entry of least"
                yield _Mistake(given[name], BAD_POD_SET, text)
        items = Fields(factor).get_items("least")
        if items and all(Fields(item).get_node("default") is None for item in items):
            text = (
                f"{field}.least: none of these fields has a default, so their number is unknown where all are absent; "
                "give one, as in {field: spec.parallelism, default: 1}"
            )
            yield _Mistake(factor, BAD_POD_SET, text)


def _list_paths(fields: Fields, field: str) -> Iterator[tuple[Node, str]]:
    """Yield the paths of a pod set that share the wildcards of its template."""
    for name in ("fallback", "autoscaled"):
        node = fields.get_node(name)
        if node is not None:
            yield node, f"{field}.{name}"
    for name in _COUNTS:
        for index, factor in enumerate(fields.get_items(name)):
            path = join_path(f"{field}.{name}", index)
            least = Fields(factor).get_items("least")
            yield from _list_field(factor, path)
            for number, item in enumerate(least):
                yield from _list_field(item, join_path(f"{path}.least", number))


def _list_field(node: Node, field: str) -> Iterator[tuple[Node, str]]:
    if isinstance(node, Scalar):
        yield node, field
    elif (path := Fields(node).get_node("field")) is not None:
        yield path, f"{field}.field"


def _check_wildcards(node: Node, field: str, template: FieldPath, form: str) -> Iterator[_Mistake]:
    path = _parse_path(node)
    if path is not None and not path.shares_wildcards(template):
        text = (
            f"{field}: {quote_text(path.text)} stands for other items than {form}, {quote_text(template.text)}; begin "
            "both alike up to the last wildcard"
        )
        yield _Mistake(node, BAD_PATH, text)


def _parse_path(node: Node | None) -> FieldPath | None:
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return None
    try:
        return FieldPath.parse(node.text)
    except PathError:
        return None


def build_workload_kind(node: Node) -> WorkloadKind:
    """Return the kind of a document without mistakes."""
    spec = convert(read_plain(node), WorkloadKindDocument).spec
    return WorkloadKind(
        group=spec.group,
        kind=spec.kind,
        resource=spec.resource,
        versions=spec.versions,
        pod_sets=tuple(map(_build_pod_set, spec.pods)),
        suspended=tuple(map(FieldPath.parse, spec.suspended)),
        is_namespaced=spec.scope is Scope.NAMESPACED,
        starts_together=spec.starts_together,
    )


def _build_pod_set(pods: PodSetSpec) -> PodSetDefinition:
    written = {PodForm.TEMPLATE: pods.template, PodForm.SPEC: pods.pod_spec, PodForm.RESOURCES: pods.resources}
    form, path = next((form, path) for form, path in written.items() if path is not None)
    return PodSetDefinition(
        templates=tuple(FieldPath.parse(text) for text in (path, pods.fallback) if text is not None),
        counts=tuple(map(_build_factor, pods.count)),
        most=tuple(map(_build_factor, pods.most)),
        autoscaled=FieldPath.parse(pods.autoscaled) if pods.autoscaled is not None else None,
        form=form,
        noun=pods.noun,
    )


def _build_factor(factor: str | FactorSpec) -> CountFactor:
    if isinstance(factor, str):
        return (CountField(FieldPath.parse(factor)),)
    if factor.field is not None:
        return (
            CountField(FieldPath.parse(factor.field), 1 if factor.default is None else factor.default, factor.minus),
        )
    return tuple(map(_build_field, factor.least))


def _build_field(field: str | FieldSpec) -> CountField:
    """Return a field of several, which does not count if it is absent and has no default."""
    if isinstance(field, str):
        return CountField(FieldPath.parse(field), None)
    return CountField(FieldPath.parse(field.field), field.default, field.minus)


def check_kind_names(
    written: Iterable[tuple[SourceLocation, int, str]], defined: Collection[str]
) -> Iterator[LintFinding]:
    """Yield the kinds in rules that are not read; each is given with its place in a file and its index in the rule."""
    names = {*BUILT_IN_KINDS, *(kind.kind for kind in KNOWN_KINDS), *defined}
    for location, index, name in written:
        if name not in names:
            advice = format_suggestion(name, sorted(names)) or "; define it by a WorkloadKind, or remove it"
            text = f"spec.match.kinds[{index}]: no kind that is read is named {quote_text(name)}{advice}"
            yield LintFinding.create(location, KIND_NOT_READ, Severity.ERROR, text)
