"""The namespaces among the manifests: their labels, and their annotations that set limits of caps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.rule_codes import LIMIT_ANNOTATION
from tallygate.admission.rule_index import Labels
from tallygate.cli.check.merge import ReportedProblem
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.output.findings import FindingSeverity
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.documents.syntax_tree import Scalar
from tallygate.gate.limit_annotation_review import format_subjects
from tallygate.policy.limit_annotations import (
    ANNOTATION_PREFIX,
    LimitAnnotationError,
    LimitAnnotations,
    describe_unread,
    parse_annotation,
    select_texts,
)
from tallygate.policy.model import NamespaceCap


def is_namespace(manifest: Manifest) -> bool:
    """Return whether a manifest is that of a namespace."""
    return (manifest.group, manifest.kind) == ("", "Namespace")


def collect_labels(manifests: Iterable[Manifest]) -> Mapping[str, Labels]:
    """Return the labels of the namespaces among the manifests."""
    return {manifest.name: _read_texts(manifest, "labels") for manifest in manifests if is_namespace(manifest)}


def merge_limit_annotations(stored: LimitAnnotations, manifests: Iterable[Manifest]) -> dict[str, Mapping[str, str]]:
    """Return the annotations that set limits after the manifests are applied: those that they omit stay."""
    merged = dict(stored)
    for manifest in filter(is_namespace, manifests):
        if texts := _select_limit_texts(manifest):
            merged[manifest.name] = {**merged.get(manifest.name, {}), **texts}
    return merged


def check_limit_annotations(manifest: Manifest, caps: Sequence[NamespaceCap]) -> Iterator[ReportedProblem]:
    """Yield an error for each annotation of a namespace that sets no limit, and a note on the users of each other one.

    The gate knows the user, and denies the change by another one; here the limits count in any case.
    """
    readers = {cap.name: (cap, cap.annotation) for cap in caps if cap.annotation}
    for name, text in sorted(_select_limit_texts(manifest).items()):
        field = f"metadata.annotations[{ANNOTATION_PREFIX}{name}]"
        severity = FindingSeverity.ERROR
        if name not in readers:
            rule, message = "", describe_unread(name, readers)
        else:
            cap, definition = readers[name]
            rule = cap.name
            try:
                parse_annotation(cap, definition, text)
                message = f"it is counted, and the gate accepts it from {format_subjects(definition.set_by)} only"
                severity = FindingSeverity.NOTE
            except LimitAnnotationError as error:
                message = str(error)
        problem = Problem(field, LIMIT_ANNOTATION.number, Reason.FORBIDDEN, message, rule=rule, policy_kind="cap")
        yield ReportedProblem(problem, f"cap {rule}" if rule else "tallygate", severity)


def _select_limit_texts(manifest: Manifest) -> Mapping[str, str]:
    return select_texts(_read_texts(manifest, "annotations"))


def _read_texts(manifest: Manifest, field: str) -> Mapping[str, str]:
    """Return a mapping of the metadata; a value that is no text is empty, which an API server rejects."""
    metadata = manifest.node.get("metadata")
    node = metadata.get(field) if isinstance(metadata, MappingNode) else None
    entries = node.entries if isinstance(node, MappingNode) else []
    return {entry.name: _get_text(entry.value) for entry in entries}


def _get_text(node: object) -> str:
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
