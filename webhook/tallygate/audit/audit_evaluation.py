"""The evaluation of stored objects: each as the gate would evaluate its creation, and each mistake reported once.

Problems that depend on the other objects in the cluster at present are left out.

The owner of an object, the problems that were reported for owners, and idle objects.

A user with a Deployment of 500 pods wants one line, at the Deployment, since the fix belongs there. So a problem that
was reported for an owner is not reported again for the objects that its controller has created.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS, UNKNOWN_POD_DEFAULTS, PodDefaults
from tallygate.accounting.problem import BUILT_IN_CHECK, Problem
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.evaluate import evaluate_decoded_request, find_device_defaults_of
from tallygate.admission.implied_requests import NO_IMPLIED, create_missing_verdict, creates_pod
from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import CREATE, AdmissionRequest, Phase, ReviewError, Verdict
from tallygate.admission.rule_index import Labels, RuleIndex
from tallygate.audit.audit_findings import AuditCoverage, AuditFinding, AuditFindings, ObjectRef
from tallygate.audit.listing import POD, format_api_version
from tallygate.audit.old_names import find_old_names
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import ObjectMeta, OwnerReference
from tallygate.policy.model import CLAIM_KINDS, Enforcement, ForecastEnforcement, PolicySet
from tallygate.review.advertised_devices import DeviceLister
from tallygate.review.applied_workload import (
    DaemonPodCounter,
    ForecastWorkload,
    count_daemon_pods,
    create_workload,
)
from tallygate.review.cap_messages import create_missing_limit_problem, create_unknown_product_problem
from tallygate.review.cluster_snapshot import SnapshotProvider
from tallygate.review.gpu_annotation_review import find_uncounted_annotations
from tallygate.review.rejected_pods import find_rejected_pods
from tallygate.review.schedulability import check_schedulability
from tallygate.review.workload_forecast import describe_unknown_count, describe_unknown_defaults, forecast_cap
from tallygate.state.informers.claim_records import find_pod_uid
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


_NODE = "Node"  # it controls the copies of its static pods

EvaluatedProblem = tuple[Enforcement, Problem]


class ObjectEvaluator:
    """The rules, nodes and caps that evaluate an object; a check that cannot be evaluated becomes a remark."""

    def __init__(  # noqa: PLR0913  # the sources of an evaluation, each by its name
        self,
        caps: CapIndex,
        policies: PolicySet,
        *,
        labels: Callable[[str], Labels | None],
        nodes: tuple[SnapshotProvider | None, DeviceLister | None],
        coverage: AuditCoverage,
        find_pod_defaults: Callable[[str], PodDefaults],
        count_daemon_pods: DaemonPodCounter | None,
    ) -> None:
        self.caps = caps
        self._count_daemon_pods = count_daemon_pods
        self._find_pod_defaults = find_pod_defaults
        self._rules = RuleIndex(policies)
        self._labels = labels
        self._snapshots, self._devices = nodes if self._rules.has_node_rules else (None, None)
        self._coverage = coverage

    def decode(self, request: AdmissionRequest) -> DecodedRequest:
        """Return a request with its review target; the object is decoded on first use."""
        labels = self._labels(request.namespace) if request.namespace else None
        return self._rules.decode(request, labels)

    def evaluate(self, decoded_request: DecodedRequest) -> Iterator[EvaluatedProblem]:
        """Yield the problems of an object with their enforcement.

        Raises:
            ReviewError: if the object does not decode as its kind.
        """
        request, target = decoded_request.request, decoded_request.target
        labels = self._labels(request.namespace) if request.namespace else None
        yield from self._check_implied(decoded_request)
        # In this phase a request that a rule fills in is not missing.
        as_written = decoded_request
        if creates_pod(request) and decoded_request.implied is not NO_IMPLIED:
            as_written = DecodedRequest(request, self._rules.targets)
        verdicts = [evaluate_decoded_request(as_written, self._rules, labels, Phase.MUTATING)]
        creates_pods = target is not None and target.creates_pods
        defaults = self._find_pod_defaults(request.namespace) if creates_pods else NO_POD_DEFAULTS
        decoded_request.implied = decoded_request.implied.with_defaults(defaults)
        if self._snapshots is not None and (creates_pods or request.kind in CLAIM_KINDS):
            selection = self._rules.select_node_rules(request.kind, request.namespace, labels)
            if selection is not None:
                verdicts.append(check_schedulability(decoded_request, selection, self._snapshots, self._devices))
        for verdict in verdicts:
            for remark in verdict.unknown:
                self._coverage.add_remark(remark)
            yield from _list_problems(verdict)
        warnings = (*find_device_defaults_of(decoded_request), *find_rejected_pods(decoded_request))
        for problem in (*warnings, *find_old_names(request.object)):
            yield Enforcement.WARN, dataclasses.replace(problem, policy_kind=BUILT_IN_CHECK)
        if self.caps and request.namespace:
            matching = self.caps.find_matching(request.namespace, labels)
            for name in matching.unknown:
                self._coverage.add_remark(
                    f"cap {name} was not asked about namespace {request.namespace}, whose labels are unknown here"
                )
            for cap in matching.caps:
                yield from _evaluate_cap(cap, decoded_request, self._coverage.add_remark, self._count_daemon_pods)
            yield from _find_uncounted_annotations(matching.caps, decoded_request)

    def _check_implied(self, decoded_request: DecodedRequest) -> Iterator[EvaluatedProblem]:
        """Yield the problems of a stored pod that lacks implied requests; static pods get none.

        The user who created the pod is unknown, so no exemption applies.
        """
        request, target, implied = decoded_request.request, decoded_request.target, decoded_request.implied
        if target is None or not target.list_pods(decoded_object := decoded_request.get_object(target)):
            return
        for remark in implied.describe_unknown(request.namespace):
            self._coverage.add_remark(remark)
        if not isinstance(decoded_object, Pod) or not creates_pod(request):
            return
        owner = get_controller(decoded_object.metadata or ObjectMeta())
        if owner is None or owner.kind != _NODE:
            missing = implied.find_missing(decoded_object)
            for _, problem in _list_problems(create_missing_verdict(missing, is_stored=True)):
                yield Enforcement.WARN, problem


def _list_problems(verdict: Verdict) -> Iterator[EvaluatedProblem]:
    for problems, enforcement in (
        (verdict.problems, Enforcement.DENY),
        (verdict.warnings, Enforcement.WARN),
        (verdict.audits, Enforcement.AUDIT),
    ):
        for problem in problems:
            yield enforcement, problem


def _get_enforcement(cap: ActiveCap, name: str) -> Enforcement:
    """Return how the gate enforces a problem under a name: without a hard limit a cap rejects nothing."""
    return Enforcement.DENY if name in cap.hard else Enforcement.WARN


def _evaluate_cap(
    cap: ActiveCap,
    decoded_request: DecodedRequest,
    add_remark: Callable[[str], object],
    count_pods: DaemonPodCounter | None,
) -> Iterator[EvaluatedProblem]:
    """Yield the lasting problems of one cap: a limit or factor is missing, or the pods of a workload can never fit."""
    request, target = decoded_request.request, decoded_request.target
    if target is None:
        return
    decoded_object = decoded_request.get_object(target)
    if isinstance(decoded_object, ResourceClaim) and not find_pod_uid(decoded_object.metadata or ObjectMeta()):
        for name in cap.list_unknown_products(decoded_object):
            yield _get_enforcement(cap, name), create_unknown_product_problem(cap, name)
    pod_views = decoded_request.list_pods(target)
    if not pod_views:
        return
    try:
        if (request.group, request.kind) == POD:
            for name, containers in cap.compute_charge(pod_views[0].pod).unlimited.items():
                yield _get_enforcement(cap, name), create_missing_limit_problem(cap, name, containers, pod_views[0].pod)
            return
        implied, kind = decoded_request.implied, (request.group, request.kind)
        workload = create_workload(decoded_object, pod_views, defaults=implied.defaults)
        if workload is not None and cap.definition.workloads is not ForecastEnforcement.IGNORE:
            workload = count_daemon_pods(workload, kind, request.object, implied, count_pods)
            unknown = [*describe_unknown_defaults(workload, [cap], ActiveCap.compute_charge)]
            unknown.append(describe_unknown_count(workload, [cap], ActiveCap.compute_charge))
            for remark in filter(None, unknown):
                add_remark(f"{remark} in namespace {request.namespace}")
            yield from _forecast_workload(cap, workload)
    except QuantityError:
        return  # the rules report it, and no API server stores it


def _find_uncounted_annotations(
    caps: Collection[ActiveCap], decoded_request: DecodedRequest
) -> Iterator[EvaluatedProblem]:
    """Yield the annotations that request GPUs and that no cap counts, of a pod or of the pods of a workload."""
    target = decoded_request.target
    for view in decoded_request.list_pods(target) if target is not None else ():
        if view.replicas is None or view.replicas.count:
            for problem in find_uncounted_annotations(caps, view.pod, view):
                yield Enforcement.WARN, problem


def _forecast_workload(cap: ActiveCap, workload: ForecastWorkload) -> Iterator[EvaluatedProblem]:
    for forecast in forecast_cap(workload, cap, cap.compute_charge, NO_AMOUNTS, _get_no_charge):
        is_denied = forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY
        yield Enforcement.DENY if is_denied else Enforcement.WARN, forecast.problem


def _get_no_charge() -> None:
    """Return None in place of the ledger: present charges do not matter to a stored object."""


POD_BATCH_SIZE = 20  # pods, of which each may have a charge group of its own


class AuditEvaluator:
    """An evaluator of objects, one at a time; owners must come before the objects that they own, and pods last.

    `labels` returns the labels of a namespace, None if they are unknown; `excluded_namespaces` are the namespaces whose
    objects are not sent to the gate; `nodes` are the sources of nodes and of devices. `find_pod_defaults` returns what
    built-in admission gives new pods of a namespace. `count_daemon_pods` counts the pods of DaemonSets, where the nodes
    are known.
    """

    def __init__(  # noqa: PLR0913  # the sources of an evaluation, each by its name
        self,
        caps: CapIndex,
        policies: PolicySet,
        labels: Callable[[str], Labels | None],
        excluded_namespaces: frozenset[str],
        *,
        nodes: tuple[SnapshotProvider | None, DeviceLister | None] = (None, None),
        find_pod_defaults: Callable[[str], PodDefaults] = lambda _: UNKNOWN_POD_DEFAULTS,
        count_daemon_pods: DaemonPodCounter | None = None,
    ) -> None:
        self.findings = AuditFindings()
        self.coverage = AuditCoverage()
        self._excluded_namespaces = excluded_namespaces
        self._evaluator = ObjectEvaluator(
            caps,
            policies,
            labels=labels,
            nodes=nodes,
            coverage=self.coverage,
            find_pod_defaults=find_pod_defaults,
            count_daemon_pods=count_daemon_pods,
        )
        self._policy_reasons: Mapping[str, str] = {
            **{implied.name: implied.reason for implied in policies.implied_requests},
            **{rule.name: rule.reason for rule in policies.rules},
        }
        self._problems_by_owner = ProblemsByOwner()

    @property
    def caps(self) -> CapIndex:
        """The caps of the policies."""
        return self._evaluator.caps

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
                decoded_request = self._evaluator.decode(request)
                problems = list(self._evaluator.evaluate(decoded_request))
                self._add_object_findings(decoded_request, metadata, problems)
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

    def _add_object_findings(
        self, decoded_request: DecodedRequest, metadata: ObjectMeta, problems: list[EvaluatedProblem]
    ) -> None:
        request, target = decoded_request.request, decoded_request.target
        self.coverage.evaluated[request.kind] += 1
        owner_problems = self._problems_by_owner.get_problems(request.namespace, get_controller(metadata))
        views = target.list_pods(decoded_request.get_object(target)) if problems and target is not None else ()
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
            problems = list(self._evaluator.evaluate(self._evaluator.decode(request)))
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
        policy_reason = "" if problem.policy_kind == "cap" else self._policy_reasons.get(problem.rule, "")
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
