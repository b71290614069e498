"""The evaluation of stored objects: each as the gate would evaluate its creation, and each mistake reported once.

Problems that depend on the other objects in the cluster at present are left out.

The owner of an object, the problems that were reported for owners, and idle objects.

A user with a Deployment of 500 pods wants one line, at the Deployment, since the fix belongs there. So a problem that
was reported for an owner is not reported again for the objects that its controller has created.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tallygate.accounting.problem import BUILT_IN_CHECK, Problem
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.kinds import find_review_target
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import CREATE, AdmissionRequest, ReviewError
from tallygate.audit.audit_findings import AuditCoverage, AuditFinding, AuditFindings, ObjectRef
from tallygate.audit.listing import format_api_version
from tallygate.audit.old_names import find_old_names
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.policy.model import Enforcement
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.review import review
from tallygate.review.view import ClusterView
from tallygate.state.informers.consumer_columns import StoredConsumer
from tallygate.state.informers.pod_records import ChargeGroup

ProblemKey = tuple[str, str, str, str]
"""The fields that a problem of a pod shares with the same problem of its template: code, rule, field, message."""

_ENDED_CONDITIONS = frozenset({"Complete", "Failed"})


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str | None = None
    status: str | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class StoredObject(msgspec.Struct, frozen=True):
    """The fields of an object that show its owner and whether it is idle."""

    metadata: ObjectMeta | None = None
    spec: _Spec | None = None
    status: _Status | None = None

    @property
    def metadata_or_empty(self) -> ObjectMeta:
        """The metadata, empty if the object has none."""
        return self.metadata or ObjectMeta()

    def is_idle(self, kind: str) -> bool:
        """Return whether the object creates no more pods: a ReplicaSet of a past rollout, or a Job that has ended."""
        if kind == "ReplicaSet":
            return (
                get_controller(self.metadata_or_empty) is not None and self.spec is not None and self.spec.replicas == 0
            )
        conditions = (self.status.conditions if self.status else None) or ()
        return kind == "Job" and any(
            condition.type in _ENDED_CONDITIONS and condition.status == "True" for condition in conditions
        )


STORED_DECODER = msgspec.json.Decoder(StoredObject)


class OwnerKey(NamedTuple):
    """The namespace, kind and name of an owner."""

    namespace: str
    kind: str
    name: str


def get_controller(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the controller that owns an object, None if it has none."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)


class ProblemsByOwner:
    """The reported problems of every object that may own others."""

    def __init__(self) -> None:
        self._problems: dict[OwnerKey, frozenset[ProblemKey]] = {}

    def record(self, owner: OwnerKey, problems: frozenset[ProblemKey]) -> None:
        """Record the problems of an owner, if it has any."""
        if problems:
            self._problems[owner] = problems

    def get_problems(self, namespace: str, owner: OwnerReference | None) -> frozenset[ProblemKey]:
        """Return the problems of an owner, none for an object without owner."""
        if owner is None:
            return frozenset()
        return self._problems.get(OwnerKey(namespace, owner.kind or "", owner.name or ""), frozenset())


def create_problem_key(problem: Problem, pod_field: str) -> ProblemKey:
    """Return the key of a problem at a field of a pod."""
    return problem.code, problem.rule, pod_field, problem.message


EvaluatedProblem = tuple[Enforcement, Problem]

POD_BATCH_SIZE = 20  # pods, of which each may have a charge group of its own


class AuditEvaluator:
    """An evaluator of objects, one at a time; owners must come before the objects that they own, and pods last.

    `excluded_namespaces` are the namespaces whose objects are not sent to the gate.
    """

    def __init__(self, policy_set: ActivePolicySet, view: ClusterView, excluded_namespaces: frozenset[str]) -> None:
        self.findings = AuditFindings()
        self.coverage = AuditCoverage()
        self._policy_set = policy_set
        self._view = view
        self._excluded_namespaces = excluded_namespaces
        self._problems_by_owner = ProblemsByOwner()

    @property
    def caps(self) -> CapIndex:
        """The caps of the policies."""
        return self._policy_set.caps

    def evaluate_object(self, group: str, kind: str, item: msgspec.Raw) -> None:
        """Evaluate an object other than a pod, given its stored JSON."""
        try:
            stored = STORED_DECODER.decode(item)
            metadata = stored.metadata_or_empty
            if (metadata.namespace or "") in self._excluded_namespaces:
                self.coverage.excluded[metadata.namespace or ""] += 1
            elif stored.is_idle(kind):
                self.coverage.idle += 1
            else:
                request = AdmissionRequest(
                    kind, CREATE, item, group=group, namespace=metadata.namespace or "", name=metadata.name or ""
                )
                self._add_object_findings(request, metadata, self._evaluate(request))
        except (ReviewError, ValueError, RecursionError) as error:
            self._count_unreadable(f"a {kind} cannot be read: {error}")

    def evaluate_pods(
        self, namespace: str, pod_records: Sequence[StoredConsumer], throttle: Callable[[int], None]
    ) -> None:
        """Evaluate the pods of a namespace, each group once; call `throttle` after each `POD_BATCH_SIZE` pods."""
        if namespace in self._excluded_namespaces:
            self.coverage.excluded[namespace] += len(pod_records)
            return
        problems_by_group: dict[ChargeGroup, _GroupProblems] = {}
        findings_by_owner: dict[tuple[str, ProblemKey], AuditFinding] = {}
        for number, pod_record in enumerate(pod_records, 1):
            if number % POD_BATCH_SIZE == 0:
                throttle(POD_BATCH_SIZE)
            if pod_record.has_ended:
                self.coverage.ended += 1
                continue
            self.coverage.evaluated["Pod"] += 1
            group_problems = problems_by_group.get(pod_record.group)
            if group_problems is None:
                group_problems = problems_by_group[pod_record.group] = self._evaluate_group(namespace, pod_record)
            self._add_pod_findings(pod_record, group_problems, findings_by_owner)

    def _evaluate(self, request: AdmissionRequest) -> list[EvaluatedProblem]:
        """Return the problems of an object with their enforcement; a check that cannot be evaluated becomes a remark.

        Raises:
            ReviewError: if the object does not decode as its kind.
        """
        outcome = review(request, self._policy_set, self._view, is_stored=True)
        for remark in outcome.verdict.unknown:
            self.coverage.add_remark(remark)
        old_names = (
            (Enforcement.WARN, dataclasses.replace(problem, policy_kind=BUILT_IN_CHECK))
            for problem in find_old_names(request.object)
        )
        return [*outcome.list_findings(), *old_names]

    def _add_object_findings(
        self, request: AdmissionRequest, metadata: ObjectMeta, problems: list[EvaluatedProblem]
    ) -> None:
        target = find_review_target(request, self._policy_set.rules.targets)
        self.coverage.evaluated[request.kind] += 1
        owner_problems = self._problems_by_owner.get_problems(request.namespace, get_controller(metadata))
        views = target.list_pods(target.decode(request.object)) if problems and target is not None else ()
        # Several templates of an object may have the same problem, each at its own field.
        keyed_problems = {
            (create_problem_key(problem, _find_pod_field(problem.field, views)), problem.field): (enforcement, problem)
            for enforcement, problem in problems
        }
        # Problems of the owner are recorded for the object too: caps evaluate a Deployment, not its ReplicaSets.
        self._problems_by_owner.record(
            OwnerKey(request.namespace, request.kind, request.name),
            frozenset(key for key, _ in keyed_problems) | owner_problems,
        )
        object_ref = ObjectRef(
            format_api_version(request.group, target.versions[0] if target is not None else "v1"),
            request.kind,
            request.namespace,
            request.name,
            metadata.uid or "",
        )
        for (key, _), (enforcement, problem) in keyed_problems.items():
            if key not in owner_problems:
                self.findings.add(self._create_finding(object_ref, enforcement, problem))

    def _evaluate_group(self, namespace: str, pod_record: StoredConsumer) -> "_GroupProblems":
        """Return the problems of all pods of a group that were not reported for their owner."""
        pod = pod_record.group.to_pod()
        owner = get_controller(pod.metadata or ObjectMeta())
        request = AdmissionRequest("Pod", CREATE, msgspec.json.encode(pod), namespace=namespace)
        try:
            problems = self._evaluate(request)
        except (ReviewError, ValueError) as error:
            self._count_unreadable(f"pod {namespace}/{pod_record.name} cannot be read: {error}")
            problems = []
        owner_problems = self._problems_by_owner.get_problems(namespace, owner)
        return _GroupProblems(
            f"{owner.kind} {owner.name}" if owner else "",
            tuple(
                (key, *item)
                for item in problems
                if (key := create_problem_key(item[1], item[1].field)) not in owner_problems
            ),
        )

    def _add_pod_findings(
        self,
        pod_record: StoredConsumer,
        group_problems: "_GroupProblems",
        findings_by_owner: dict[tuple[str, ProblemKey], AuditFinding],
    ) -> None:
        """Add a finding for each pod without owner; for the pods of one owner, add the first and count the others."""
        for key, enforcement, problem in group_problems.problems:
            earlier = findings_by_owner.get((group_problems.owner, key)) if group_problems.owner else None
            if earlier is not None:
                earlier.more_pods += 1
                continue
            object_ref = ObjectRef(format_api_version(""), "Pod", pod_record.namespace, pod_record.name, pod_record.uid)
            finding = self._create_finding(object_ref, enforcement, problem)
            if group_problems.owner:
                finding.owner = group_problems.owner
                findings_by_owner[group_problems.owner, key] = finding
            self.findings.add(finding)

    def _create_finding(self, object_ref: ObjectRef, enforcement: Enforcement, problem: Problem) -> AuditFinding:
        policy_reason = self._policy_set.reasons.get((problem.policy_kind, problem.rule), "")
        return AuditFinding(object_ref, enforcement, problem, object_ref.namespace, policy_reason)

    def _count_unreadable(self, remark: str) -> None:
        self.coverage.unreadable += 1
        self.coverage.add_remark(remark)


class _GroupProblems(NamedTuple):
    """The problems of the pods of one group, and their owner, empty for pods without owner."""

    owner: str
    problems: tuple[tuple[ProblemKey, Enforcement, Problem], ...]


def _find_pod_field(field: str, views: Sequence[PodView]) -> str:
    """Return the field of the pod that a path in its object names, or the path itself."""
    return next((found for view in views if (found := view.find_pod_field(field)) is not None), field)
