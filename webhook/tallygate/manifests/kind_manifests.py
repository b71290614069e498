"""Definitions of kinds and shapes among manifests, and the objects whose kind has none, for the commands about pods."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tallygate.accounting.node_shape import NodeShape
from tallygate.admission.kinds import ReviewTargets, list_review_targets
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.documents.to_json import to_json
from tallygate.errors import TallygateError
from tallygate.manifests.findings import FindingSubject
from tallygate.manifests.manifest_objects import Manifest
from tallygate.manifests.typed_objects import create_subject, is_read
from tallygate.manifests.unread_kinds import find_unread_pods
from tallygate.policy.lint_findings import Severity
from tallygate.policy.model import POLICY_GROUP, PolicySet
from tallygate.policy.parse import parse


class ManifestsError(TallygateError):
    """Manifests that cannot be answered about: the text has every reason, with its place."""


def find_defined_targets(manifests: Iterable[Manifest]) -> ReviewTargets:
    """Return the review targets of the known kinds, and of those that a WorkloadKind among the manifests defines.

    Raises:
        ManifestsError: if a definition has mistakes; the text has each of them.
    """
    return list_review_targets(_parse_definitions(manifests, "WorkloadKind"))


def find_defined_shapes(manifests: Iterable[Manifest]) -> tuple[NodeShape, ...]:
    """Return the shapes of nodes that each NodeShape among the manifests defines.

    Raises:
        ManifestsError: if a definition has mistakes; the text has each of them.
    """
    return _parse_definitions(manifests, "NodeShape").node_shapes


def _parse_definitions(manifests: Iterable[Manifest], kind: str) -> PolicySet:
    definitions = [
        (
            f"{manifest.file}:{manifest.node.position.line}:{manifest.node.position.column}",
            to_json(manifest.node, DEFAULT_LIMITS.expanded),
        )
        for manifest in manifests
        if (manifest.group, manifest.kind) == (POLICY_GROUP, kind)
    ]
    parsed = parse(definitions)
    errors = [finding for finding in parsed.findings if finding.severity is Severity.ERROR]
    if errors:
        raise ManifestsError("\n".join(f"{error.file}: {error.message} ({error.code})" for error in errors))
    return parsed.policies


class UnreadObject(NamedTuple):
    """An object with pods whose kind is not read; `place` is that of its pods in a file."""

    place: str
    subject: FindingSubject
    message: str

    def __str__(self) -> str:
        """Return the place, the object and the message."""
        return f"{self.place}: {self.subject}: {self.message}"


def _list_unread_objects(
    manifests: Iterable[Manifest], namespace: str, targets: ReviewTargets
) -> Iterator[UnreadObject]:
    """Yield each object with pods whose kind is not read; `namespace` is that of objects that name none."""
    for manifest in manifests:
        warning = None if is_read(manifest, targets) else find_unread_pods(manifest, targets)
        if warning is not None:
            place = f"{manifest.file}:{warning.position.line}:{warning.position.column}"
            yield UnreadObject(place, create_subject(manifest, namespace, targets), warning.message)


def report_unread_kinds(
    manifests: Iterable[Manifest], namespace: str, targets: ReviewTargets, report: Callable[[str], None]
) -> tuple[UnreadObject, ...]:
    """Report each object with pods whose kind is not read, and return them."""
    unread = tuple(_list_unread_objects(manifests, namespace, targets))
    for each in unread:
        report(str(each))
    return unread
