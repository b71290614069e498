"""The review of the objects in files before their pods are placed: rules, caps and quotas may reject pods.

It is the one of `tallygate check`, over the same state: both give one number of pods.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tallygate.admission.rule_index import RuleIndex
from tallygate.answers.checker import CheckContext, CheckedObject, ManifestChecker
from tallygate.answers.merge import API_SERVER
from tallygate.answers.node_check import create_daemon_counter, create_node_check
from tallygate.answers.pods_to_place import PodsInFiles, PodsToPlace, Progress, is_placed
from tallygate.cluster.cluster_state import ClusterState
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
from tallygate.manifests.findings import Finding, FindingSeverity, FindingSubject
from tallygate.manifests.manifest_objects import Manifest
from tallygate.objects.meta import ObjectMeta
from tallygate.objects.scheduling import SchedulingPod
from tallygate.policy.matching import matches_labels
from tallygate.policy.model import PolicySet
from tallygate.policy.selectors import PolicyLabelSelector


@dataclass(frozen=True, slots=True)
class Rejection:
    """The number of pods that are rejected at present, and the findings that say why; None if all are.

    It `has_happened` if a controller reports it: none of these pods is stored.
    """

    count: int | None
    findings: tuple[Finding, ...]
    has_happened: bool = False


@dataclass(frozen=True, slots=True)
class ReviewedPods:
    """The objects as they are checked, in the order of the files, and their pods.

    These are the admitted ones, completed as admission does it, each with the rejection of the others.
    """

    objects: tuple[CheckedObject, ...]
    pods: tuple[tuple[PodsToPlace, Rejection | None], ...]


_Reviewed = Mapping[FindingSubject, tuple[tuple[int, ...], tuple[Finding, ...]]]
"""By object the number of admitted pods of each template, empty for no pod, and the findings on the others."""


_REPORTED = re.compile(r"(?P<message>.*) \((?P<code>TG\d{3}), (?P<reporter>[^():]+)(?:: .*)?\)", re.DOTALL)


def find_rejected_pods(
    state: ClusterState, namespace: str | None, selector: PolicyLabelSelector | None
) -> Iterator[tuple[PodsToPlace, Rejection]]:
    """Yield the pods that controllers could not create, each with the reason, of a namespace, or of all with None."""
    for rejected in state.rejected_pods.list_rejected():
        if namespace in (None, rejected.namespace) and matches_labels(selector, rejected.labels):
            subject = FindingSubject(kind=rejected.kind, namespace=rejected.namespace, name=rejected.name)
            pod = SchedulingPod(metadata=ObjectMeta(name=rejected.name, namespace=rejected.namespace))
            finding = Finding("", 0, 0, FindingSeverity.ERROR, "", rejected.message, API_SERVER, subject=subject)
            if found := _REPORTED.fullmatch(rejected.message):
                finding = replace(finding, code=found["code"], message=found["message"], reporter=found["reporter"])
            yield PodsToPlace(subject, pod, 0), Rejection(rejected.number, (finding,), has_happened=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewContext:
    """The context of a review before a placement.

    Args:
        policies: the policies that decide.
        state: the cluster, with columns and with the objects that are applied.
        namespace: the namespace of objects that name none.
        count: the number of the copies of each object, in place of that in the manifests.
        charged_namespaces: the namespaces of all objects; None if they are not known, so that all ledgers count.
        now: the time by which overrides of limits end.
        progress: the place of messages.
    """

    policies: PolicySet
    state: ClusterState
    namespace: str
    now: datetime
    progress: Progress
    count: int | None = None
    charged_namespaces: Collection[str] | None = None


def review_pods(in_files: PodsInFiles, context: ReviewContext) -> ReviewedPods:
    """Return the review of the selected objects of files, and of their pods."""
    checked = _check_objects(in_files.selected, context)
    columns, report = context.state.require_columns(), context.progress.report
    all_pods = in_files.complete(context.policies, columns, report)
    completed = [pods for pods in all_pods if not is_placed(pods, report)]
    return ReviewedPods(checked, tuple(_admit_pods(completed, _select_reviewed(checked))))


def _check_objects(manifests: Sequence[Manifest], context: ReviewContext) -> tuple[CheckedObject, ...]:
    policies, state = context.policies, context.state
    node_check = create_node_check(state) if RuleIndex(policies).has_node_rules else None
    check_context = CheckContext(
        policies,
        state,
        context.namespace,
        DEFAULT_LIMITS,
        context.now,
        node_check,
        create_daemon_counter(state),
        has_source=True,
        count=context.count,
        charged_namespaces=context.charged_namespaces,
    )
    checker = ManifestChecker(check_context)
    return tuple(checker.check(manifest) for manifest in context.progress.track("reviewing objects", manifests))


def _select_reviewed(checked: Sequence[CheckedObject]) -> _Reviewed:
    """Return what is rejected of the objects of which not all pods are admitted."""
    reviewed: dict[FindingSubject, tuple[tuple[int, ...], tuple[Finding, ...]]] = {}
    for each in checked:
        errors = tuple(finding for finding in each.findings if finding.severity is FindingSeverity.ERROR)
        limits = tuple(finding for finding in each.findings if finding.severity is FindingSeverity.WARNING)
        if errors:
            reviewed[errors[0].subject] = (), errors
        elif each.admitted is not None and limits:
            reviewed[limits[0].subject] = each.admitted, limits
    return reviewed


def _admit_pods(all_pods: Sequence[PodsToPlace], reviewed: _Reviewed) -> Iterator[tuple[PodsToPlace, Rejection | None]]:
    """Yield the admitted pods with the rejection of the others; the pods of one object come in their order."""
    positions: dict[FindingSubject, int] = {}
    for pods in all_pods:
        index = positions[pods.subject] = positions.get(pods.subject, -1) + 1
        if pods.subject not in reviewed:
            yield pods, None
            continue
        admitted, findings = reviewed[pods.subject]
        number = admitted[index] if index < len(admitted) else 0
        if not admitted:
            yield replace(pods, count=0), Rejection(None, findings)
        elif pods.count is None or number >= pods.count:
            yield pods, None
        else:
            yield replace(pods, count=number), Rejection(pods.count - number, findings)
