"""Definitions of kinds: the documents `kind: WorkloadKind`, with the mistakes that a schema cannot express.

The paths of a definition have a meaning only together: a count is for the items of its template, and one field of
`least` has a default. Each mistake has the position of its value.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tallygate.documents.syntax_tree import Mapping, Node, Scalar, join_path
from tallygate.policy.formats import quote_text
from tallygate.policy.known_kinds import BUILT_IN_KINDS, KNOWN_KINDS
from tallygate.policy.lint_findings import LintFinding, Severity
from tallygate.policy.model import SourceLocation
from tallygate.policy.policy_builder import Fields
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

_FORMS = {"template": PodForm.TEMPLATE, "podSpec": PodForm.SPEC, "resources": PodForm.RESOURCES}
_COUNTS = ("count", "most")
_CLUSTER = "Cluster"


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
    """Yield the reasons why no object of the kind would be read by this definition."""
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
    """Return the path in a node; None if the node has another value."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return None
    try:
        return FieldPath.parse(node.text)
    except PathError:
        return None


def build_workload_kind(document: Fields) -> WorkloadKind:
    """Return the kind of a document without mistakes."""
    spec = document.get_fields("spec")
    return WorkloadKind(
        group=spec.get_text("group"),
        kind=spec.get_text("kind"),
        resource=spec.get_text("resource"),
        versions=spec.get_texts("versions"),
        pod_sets=tuple(_build_pod_set(Fields(item)) for item in spec.get_items("pods")),
        suspended=tuple(map(FieldPath.parse, spec.get_texts("suspended"))),
        is_namespaced=spec.get_text("scope") != _CLUSTER,
        starts_together=spec.get_flag("startsTogether", default=False),
    )


def _build_pod_set(fields: Fields) -> PodSetDefinition:
    form = next(name for name in _FORMS if fields.get_node(name) is not None)
    paths = [text for name in (form, "fallback") if (text := fields.get_text(name))]
    autoscaled = fields.get_text("autoscaled")
    return PodSetDefinition(
        templates=tuple(map(FieldPath.parse, paths)),
        counts=tuple(_build_factor(item) for item in fields.get_items("count")),
        most=tuple(_build_factor(item) for item in fields.get_items("most")),
        autoscaled=FieldPath.parse(autoscaled) if autoscaled else None,
        form=_FORMS[form],
        noun=fields.get_text("noun", "pods"),
    )


def _build_factor(node: Node) -> CountFactor:
    least = Fields(node).get_items("least")
    return tuple(_build_field(item, None) for item in least) if least else (_build_field(node, 1),)


def _build_field(node: Node, default: int | None) -> CountField:
    if isinstance(node, Scalar):
        return CountField(FieldPath.parse(node.text), default)
    fields = Fields(node)
    written = fields.get_text("default")
    return CountField(
        FieldPath.parse(fields.get_text("field")),
        int(written) if written else default,
        int(fields.get_text("minus", "0")),
    )


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
