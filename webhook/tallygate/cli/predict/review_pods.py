"""The review of the objects in files before their pods are placed: rules, caps and quotas may reject pods.

It is the one of `tallygate check`, over the same state: both give one number of pods.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tallygate.admission.rule_index import RuleIndex
from tallygate.cli.check.checker import CheckContext, ManifestChecker
from tallygate.cli.check.merge import API_SERVER
from tallygate.cli.check.node_check import create_daemon_counter, create_node_check
from tallygate.cli.manifests.manifest_objects import Manifest
from tallygate.cli.output.findings import Finding, FindingSeverity, FindingSubject
from tallygate.cli.predict.pods_to_place import PodsInFiles, PodsToPlace, is_placed
from tallygate.cli.progress import track
from tallygate.cluster.cluster_state import ClusterState
from tallygate.documents.syntax_tree import DEFAULT_LIMITS
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


def review_pods(
    in_files: PodsInFiles, policies: PolicySet, state: ClusterState, namespace: str, count: int | None
) -> list[tuple[PodsToPlace, Rejection | None]]:
    """Return the pods of files that are admitted, completed as admission does it, with the rejection of the others.

    `count` is the number of the copies of each, in place of that in the manifests. Claims of the files are put into the
    columns of the state.
    """
    reviewed = _review_objects(in_files.selected, policies, state, namespace, count)
    columns = state.require_columns()
    completed = [pods for pods in in_files.complete(policies, columns) if not is_placed(pods)]
    in_files.put_claims(columns)
    return list(_admit_pods(completed, reviewed))


def _review_objects(
    manifests: Sequence[Manifest], policies: PolicySet, state: ClusterState, namespace: str, count: int | None
) -> _Reviewed:
    node_check = create_node_check(state) if RuleIndex(policies).has_node_rules else None
    context = CheckContext(
        policies,
        state,
        namespace,
        DEFAULT_LIMITS,
        datetime.now(UTC),
        node_check,
        create_daemon_counter(state),
        has_source=True,
        count=count,
    )
    checker = ManifestChecker(context)
    reviewed: dict[FindingSubject, tuple[tuple[int, ...], tuple[Finding, ...]]] = {}
    for manifest in track("reviewing objects", manifests):
        checked = checker.check(manifest)
        errors = tuple(finding for finding in checked.findings if finding.severity is FindingSeverity.ERROR)
        limits = tuple(finding for finding in checked.findings if finding.severity is FindingSeverity.WARNING)
        if errors:
            reviewed[errors[0].subject] = (), errors
        elif checked.admitted is not None and limits:
            reviewed[limits[0].subject] = checked.admitted, limits
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
