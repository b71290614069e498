"""The checker of manifests: one object after another, with all problems of each as findings at their lines.

It reports duplicate keys and numbers that reach the API server as other numbers, evaluates the rules and applies their
patches before the API server's validation, and converts a problem of a field to a finding at a line.

The namespaces among the manifests: their labels, and their annotations that set limits of caps.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from tallygate.accounting.devices.least_amounts import LeastAmounts
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.accounting.problem import BUILT_IN_CHECK, Problem, Reason
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.validation.claims import ADMIN_ACCESS_LABEL, requests_admin_access
from tallygate.admission.created_pods import find_rejections
from tallygate.admission.evaluate import NodeRuleEvaluator, evaluate_request
from tallygate.admission.implied_requests import find_implied_for_pods
from tallygate.admission.kinds import DecodedRequest, ReviewTargets, list_review_targets
from tallygate.admission.object_checks import MAX_VIOLATIONS
from tallygate.admission.request import Phase, Verdict
from tallygate.admission.resource_fields import list_resource_fields
from tallygate.admission.rule_codes import LIMIT_ANNOTATION
from tallygate.admission.rule_index import Labels, RuleIndex, RuleSelection
from tallygate.answers import api_validation
from tallygate.answers.api_validation import apply_patch
from tallygate.answers.created_pods import set_pod_defaults
from tallygate.answers.merge import (
    ACCEPTED_BY_KUBERNETES,
    API_SERVER,
    LocatedProblem,
    ReportedProblem,
    merge_problems,
)
from tallygate.answers.planned_charges import PlannedCharges
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.kinds import CLASSES, SLICES
from tallygate.documents.scalars import format_float
from tallygate.documents.syntax_tree import DocumentError, Entry, Limits, Scalar, locate
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.manifests.applied_objects import is_namespace, read_texts
from tallygate.manifests.findings import Finding, FindingSeverity, FindingSubject
from tallygate.manifests.known_fields import UnknownField, find_unknown_fields
from tallygate.manifests.manifest_files import create_document_finding
from tallygate.manifests.manifest_objects import Manifest, ManifestError, find_duplicates
from tallygate.manifests.typed_objects import TypedObject, create_subject, is_read, parse_object, replace_body
from tallygate.manifests.unread_kinds import (
    find_unread_amounts,
    find_unread_pods,
    find_unread_texts,
    find_wrong_kind,
)
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate
from tallygate.policy import limit_annotations
from tallygate.policy.model import Enforcement, Equality, NamespaceCap, PolicySet
from tallygate.policy.suggest import suggest_well_known
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.advertised_devices import KnownDevices
from tallygate.review.applied_workload import DaemonPodCounter
from tallygate.review.limit_annotation_review import format_subjects
from tallygate.review.planned_pods import PlannedState
from tallygate.review.review import review
from tallygate.review.view import ClusterView


def find_duplicate_keys(manifest: Manifest) -> Iterator[ManifestError]:
    """Yield an error for every duplicate key of a mapping."""
    for entry in find_duplicates(manifest.node):
        message = f"{entry.name} stands here a second time; kubectl keeps the last and drops the others: remove one"
        yield ManifestError("TG405", entry.key.position, message)


def find_misspelt_names(typed: TypedObject) -> Iterator[ManifestError]:
    """Yield an error for every resource in the requests and limits of pods that is probably misspelt, once a place."""
    for view in typed.views:
        for resource_field in list_resource_fields(typed.content, view):
            names = {name: field for field, amounts in resource_field.lists for name in amounts or ()}
            for name, field in names.items():
                suggestion = suggest_well_known(name) if "/" in name else None
                if suggestion is not None:
                    location = locate(typed.manifest.node, f"{resource_field.path}{field}[{name}]")
                    message = f'{name} is probably misspelt: did you mean "{suggestion}"?'
                    yield ManifestError("TG413", location.position, message)


def find_misread_numbers(typed: TypedObject) -> Iterator[ManifestError]:
    """Yield an error for every quantity without quotes that reaches the API server as another number than written."""
    for view in typed.views or (None,):
        for resource_field in list_resource_fields(typed.content, view):
            for field, _ in resource_field.lists:
                location = locate(typed.manifest.node, f"{resource_field.path}{field}")
                for entry in location.node.entries if location.exact and isinstance(location.node, MappingNode) else ():
                    yield from _check_number(entry)


def _check_number(entry: Entry) -> Iterator[ManifestError]:
    node = entry.value
    if not isinstance(node, Scalar) or isinstance(node.value, bool) or not isinstance(node.value, (int, float)):
        return
    sent = format_float(node.value) if isinstance(node.value, float) else str(node.value)
    try:
        is_same = Quantity.parse(node.text) == Quantity.parse(sent)
    except QuantityError:
        return
    if not is_same:
        message = f'{entry.name}: {node.text} without quotes is sent as {sent}: write "{node.text}" or {sent}'
        yield ManifestError("TG407", node.position, message)


NodeCheck = Callable[[DecodedRequest, RuleSelection, KnownDevices, bool], Verdict]
"""A check of node rules by the nodes and devices of a snapshot, and by the pods on them if the flag is set."""


@dataclass(frozen=True, slots=True)
class CompletedObject:
    """The object as it would be stored, and the notes on what its pods get.

    `typed` is a pod with the values that it gets without writing them, and templates with those that their pods get.
    `written` is a pod as it is written, and templates with the implied requests alone, as the API server stores them.
    """

    typed: TypedObject
    written: TypedObject
    notes: tuple[ReportedProblem, ...]


@dataclass(frozen=True, slots=True)
class ObjectReview:
    """The problems of an object by policies and quotas, and the messages on what was not evaluated.

    `admitted` is the number of the pods of each template that fit now; None if all do, or none was asked for.
    """

    problems: Sequence[ReportedProblem]
    not_evaluated: Sequence[str]
    admitted: tuple[int, ...] | None = None


class ObjectReviewer:
    """The reviews of manifests by the policies of a context."""

    def __init__(self, context: "CheckContext") -> None:
        policies, state = context.policies, context.state
        caps = state.index_caps(policies, context.now)
        self._policy_set = ActivePolicySet(policies, context.now, state.get_cap_sources(policies, context.now), caps)
        self.planned = PlannedState(state, context.count)
        self._charges = PlannedCharges(
            self._policy_set, self.planned, context.count_daemon_pods, context.charged_namespaces
        )
        self._view = ClusterView(namespaces=state.namespaces, find_pod_defaults=state.find_pod_defaults)
        self._rules_alone = ActivePolicySet(replace(policies, caps=()), None)
        self._fill_index = RuleIndex(_select_fill_rules(policies))

    def complete(self, typed: TypedObject, labels: Labels | None) -> CompletedObject:
        """Return an object as both webhooks store it; `labels` are those of its namespace, None if unknown.

        Before, built-in admission completes a pod; the pods of templates are completed after the rules.
        """
        defaults, written = self._view.find_pod_defaults(typed.subject.namespace), typed
        if isinstance(typed.content, Pod):
            body = json.loads(typed.body)
            set_pod_defaults(body, defaults)
            typed = replace_body(typed, msgspec.json.encode(body))
        implied = self._policy_set.rules.select_implied(typed.subject.namespace, labels)
        notes = (
            self._convert_problem(remark, FindingSeverity.NOTE)
            for remark in find_implied_for_pods(implied, typed.views)
        )
        # not by a review, which decides nothing without the labels that an implied request needs: rules fill in anyway
        patch = evaluate_request(typed.request, self._fill_index, labels, Phase.MUTATING).patch
        if patch:
            typed = replace_body(typed, apply_patch(typed.body, patch))
        completed = replace(typed, views=tuple(implied.with_defaults(defaults).complete_views(typed.views)))
        if not isinstance(typed.content, Pod):
            written = replace(typed, views=tuple(implied.complete_views(typed.views)))
        return CompletedObject(completed, written, tuple(notes))

    def review(
        self, typed: TypedObject, evaluate_node_rules: NodeRuleEvaluator | None, *, is_charged: bool
    ) -> ObjectReview:
        """Return the review of a completed object, by caps and quotas too if it is to be charged."""
        admitted = None
        if is_charged:
            outcome, admitted = self._charges.charge(typed.request, evaluate_node_rules)
        else:
            view = replace(self._view, evaluate_node_rules=evaluate_node_rules)
            outcome = review(typed.request, self._rules_alone, view)
        problems = [
            self._convert_problem(problem, _SEVERITIES[enforcement])
            for enforcement, problem in outcome.list_findings()
            if problem.policy_kind != BUILT_IN_CHECK  # those are of the API server, which is validated itself
        ]
        return ObjectReview(problems, outcome.verdict.unknown, admitted)

    def _convert_problem(self, problem: Problem, severity: FindingSeverity) -> ReportedProblem:
        policy = problem.policy_kind, problem.rule
        reporter = " ".join(policy) if problem.rule else API_SERVER  # ResourceQuotas are no policies
        return ReportedProblem(problem, reporter, severity, self._policy_set.reasons.get(policy, ""))


_SEVERITIES = {
    Enforcement.DENY: FindingSeverity.ERROR,
    Enforcement.WARN: FindingSeverity.WARNING,
    Enforcement.AUDIT: FindingSeverity.NOTE,
}


def _select_fill_rules(policies: PolicySet) -> PolicySet:
    """Return the rules that fill requests, without denial: a filled request is not missing, despite other problems."""
    rules = (rule for rule in policies.rules if rule.checks.requests_equal_limits is Equality.FILL)
    return replace(
        policies, rules=tuple(msgspec.structs.replace(rule, enforcement=Enforcement.AUDIT) for rule in rules)
    )


def create_findings(manifest: Manifest, subject: FindingSubject, problems: Sequence[ReportedProblem]) -> list[Finding]:
    """Return the problems of an object as findings in the order of the file, each mistake once.

    Of each severity these are the first 1,000, and one with the number of the others.
    """
    located = [LocatedProblem(problem, locate(manifest.node, problem.problem.field)) for problem in problems]
    return list(
        _limit_number(sorted(_create_finding(manifest, subject, problem) for problem in merge_problems(located)))
    )


def _limit_number(findings: Iterable[Finding]) -> Iterator[Finding]:
    omitted: dict[FindingSeverity, list[Finding]] = {}
    counts = Counter[FindingSeverity]()
    for finding in findings:
        counts[finding.severity] += 1
        if counts[finding.severity] <= MAX_VIOLATIONS:
            yield finding
        else:
            omitted.setdefault(finding.severity, []).append(finding)
    for others in omitted.values():
        message = f"and {len(others)} more findings of this object, after the first {MAX_VIOLATIONS}"
        yield replace(others[0], message=message, field="", why="")


def _create_finding(manifest: Manifest, subject: FindingSubject, located: LocatedProblem) -> Finding:
    reported, position = located.reported, located.location.position
    problem = reported.problem
    return Finding(
        manifest.file,
        position.line,
        position.column,
        reported.severity,
        problem.code,
        problem.message,
        reported.reporter,
        problem.field,
        subject,
        reported.why,
    )


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The context of the manifests: policies, the state of the cluster, the default namespace, and the parser limits.

    `state` has the applied objects (`list_applied_objects`); it `has_source` if it is also that of a snapshot. `now` is
    the time by which overrides of limits end. `check_nodes` stays None if no rule needs the nodes of the
    snapshot. `count_daemon_pods` counts the pods of a DaemonSet by these nodes. `count` is the number of pods of each
    template, in place of its own. With `charged_namespaces`, all objects are in these.
    """

    policies: PolicySet
    state: ClusterState
    namespace: str
    limits: Limits
    now: datetime
    check_nodes: NodeCheck | None = None
    count_daemon_pods: DaemonPodCounter | None = None
    has_source: bool = False
    count: int | None = None
    charged_namespaces: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """The findings about one object; `is_read` is False if its kind is not read, and then they say at most that.

    `admitted` is the number of pods of each template that caps and quotas admit now, None if all are.
    """

    findings: tuple[Finding, ...] = ()
    is_read: bool = True
    admitted: tuple[int, ...] | None = None


class ManifestChecker:
    """A checker of manifests in order: the charges of earlier ones are not free for later ones."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._targets = list_review_targets(context.policies)
        self._find_pod_defaults = context.state.find_pod_defaults
        self._reviewer = ObjectReviewer(context)
        self._devices = _create_known_devices(context.state) if context.check_nodes is not None else None
        self._reported_messages: set[str] = set()

    def check(self, manifest: Manifest) -> CheckedObject:
        """Return all findings of one object, in the order of its lines."""
        subject = create_subject(manifest, self._context.namespace, self._targets)
        if is_namespace(manifest):
            problems = list(check_limit_annotations(manifest, self._context.policies.caps))
            unread = _check_unread(manifest, subject, self._targets)
            return CheckedObject((*unread, *create_findings(manifest, subject, problems)), is_read=bool(problems))
        if not is_read(manifest, self._targets):
            return CheckedObject(tuple(_check_unread(manifest, subject, self._targets)), is_read=False)
        found = find_unknown_fields(manifest, self._targets)
        unknown_fields = [_create_field_finding(manifest, subject, field) for field in found]
        try:
            typed = parse_object(manifest, self._context.namespace, self._context.limits, self._targets)
            checked = self._check_object(typed, is_valid=not unknown_fields) if typed else CheckedObject()
        except DocumentError as error:
            checked = CheckedObject((create_document_finding(manifest.file, error, subject),))
        return replace(checked, findings=(*unknown_fields, *checked.findings))

    def _check_object(self, typed: TypedObject, *, is_valid: bool) -> CheckedObject:
        """Return the findings of an object; its pods are charged if it `is_valid` and no check finds an error."""
        manifest, subject = typed.manifest, typed.subject
        findings = list(self._check_text(typed))
        labels = self._context.state.namespaces.labels(subject.namespace)
        completed = self._reviewer.complete(typed, labels)
        validated = [*_validate(completed, labels, self._find_pod_defaults(subject.namespace))]
        # with nodes only if the API server accepts the object: a pod that it rejects needs none
        evaluate = None if _has_error(validated) else self._create_node_evaluator(completed.typed)
        # last, since a pod that is rejected is charged to no cap
        is_charged = is_valid and not _has_error(validated)
        reviewed = self._reviewer.review(completed.typed, evaluate, is_charged=is_charged)
        findings += create_findings(manifest, subject, [*reviewed.problems, *completed.notes, *validated])
        for message in (*reviewed.not_evaluated, *_describe_unknown_access(typed, labels)):
            findings += self._report_once(typed, message)
        return CheckedObject(tuple(findings), admitted=reviewed.admitted)

    def _check_text(self, typed: TypedObject) -> Iterator[Finding]:
        """Yield the findings about what is written, and reaches the API server otherwise or is not read."""
        manifest, subject = typed.manifest, typed.subject
        misspelt = () if self._context.has_source else find_misspelt_names(typed)
        texts = find_unread_texts(manifest)
        for error in (*find_duplicate_keys(manifest), *find_misread_numbers(typed), *misspelt, *texts):
            yield create_document_finding(manifest.file, error, subject, FindingSeverity.WARNING)
        for error, names_extended in _find_unread_amounts(typed):
            severity = FindingSeverity.WARNING if names_extended else FindingSeverity.NOTE
            yield create_document_finding(manifest.file, error, subject, severity)

    def _create_node_evaluator(self, typed: TypedObject) -> NodeRuleEvaluator | None:
        """Return the evaluation of the node rules by the nodes of the snapshot, None where they are not known.

        It is without the pods of the snapshot if the object has pods in it.
        """
        check_nodes, devices = self._context.check_nodes, self._devices
        if check_nodes is None or devices is None:
            return None
        subject, find = typed.subject, self._reviewer.planned.find_pods
        has_pods = not any(find(subject.namespace, subject.name, view).pod_count for view in typed.views)
        return lambda request, selection: check_nodes(request, selection, devices, has_pods)

    def _report_once(self, typed: TypedObject, message: str) -> Iterator[Finding]:
        """Yield the finding for a check that was not evaluated, at the first such object only."""
        if message not in self._reported_messages:
            self._reported_messages.add(message)
            error = ManifestError("TG408", typed.manifest.node.position, message)
            yield create_document_finding(typed.manifest.file, error, typed.subject, FindingSeverity.NOTE)


def _has_error(problems: Iterable[ReportedProblem]) -> bool:
    return any(problem.severity is FindingSeverity.ERROR for problem in problems)


def _find_unread_amounts(typed: TypedObject) -> Iterator[tuple[ManifestError, bool]]:
    """Yield the requests and limits of another project's object that are not those of its pods."""
    if typed.target.definition is None:
        return
    fields = [field for view in typed.views for field in list_resource_fields(typed.content, view)]
    read_paths = {f"{field.path}{name}" for field in fields for name, _ in field.lists}
    yield from find_unread_amounts(typed.manifest, sorted(read_paths))


def _create_known_devices(state: ClusterState) -> KnownDevices:
    """Return what is known: no classes and no devices if the snapshot does not have these kinds."""
    least_amounts = LeastAmounts(state.devices.list_slices, state.device_classes.find_selectors)
    return KnownDevices(
        lambda: state.device_classes.get_resources_by_class() if state.knows(CLASSES) else None,
        least_amounts if state.knows(SLICES) else None,
        state.claim_templates.find_claim,
    )


def _check_unread(manifest: Manifest, subject: FindingSubject, targets: ReviewTargets) -> Iterator[Finding]:
    """Yield the finding of an object whose kind is not read, if it is a wrong kind or has pods."""
    if error := find_wrong_kind(manifest, targets):
        yield replace(create_document_finding(manifest.file, error, subject), reporter=API_SERVER)
    elif warning := find_unread_pods(manifest, targets):
        yield create_document_finding(manifest.file, warning, subject, FindingSeverity.WARNING)


def _create_field_finding(manifest: Manifest, subject: FindingSubject, unknown: UnknownField) -> Finding:
    return Finding(
        manifest.file,
        *unknown.position,
        FindingSeverity.ERROR,
        "TG409",
        unknown.message,
        API_SERVER,
        unknown.field,
        subject,
    )


def _describe_unknown_access(typed: TypedObject, labels: Labels | None) -> Iterator[str]:
    """Yield a message if the labels that decide about the admin access of a claim are unknown."""
    content = typed.content
    if labels is None and isinstance(content, ResourceClaim | ResourceClaimTemplate) and requests_admin_access(content):
        yield (
            f"whether the API server accepts adminAccess is not known: namespace {typed.subject.namespace} is neither "
            f"among the manifests nor in a snapshot, and needs the label {ADMIN_ACCESS_LABEL}"
        )


def _validate(completed: CompletedObject, labels: Labels | None, defaults: PodDefaults) -> Iterator[ReportedProblem]:
    """Yield the problems that the API server rejects, and those that it accepts although they are mistakes.

    It validates a pod after built-in admission has completed it, a template as it is stored, and its pods when they
    are created.
    """
    typed, written = completed.typed, completed.written
    found = api_validation.validate_object(typed.content, typed.views)
    in_writing = found if typed is written else api_validation.validate_object(written.content, written.views)
    is_pod, written_problems = isinstance(typed.content, Pod), frozenset(in_writing)
    for problem in found if is_pod else in_writing:
        if problem in written_problems:
            yield ReportedProblem(problem, API_SERVER, FindingSeverity.ERROR)
    if is_pod or typed.target.creates_pods:
        for problem in find_rejections(written.views, typed.views, defaults):
            yield ReportedProblem(problem, API_SERVER, FindingSeverity.ERROR)
    for problem in api_validation.validate_admin_access_of(typed.content, typed.subject.namespace, labels):
        yield ReportedProblem(problem, API_SERVER, FindingSeverity.ERROR)
    accepted = typed if is_pod else written
    for problem in api_validation.find_accepted_problems(accepted.content, accepted.views):
        yield ReportedProblem(problem, ACCEPTED_BY_KUBERNETES, FindingSeverity.WARNING)


def check_limit_annotations(manifest: Manifest, caps: Sequence[NamespaceCap]) -> Iterator[ReportedProblem]:
    """Yield an error for each annotation of a namespace that sets no limit, and a note on the users of each other one.

    The gate knows the user, and denies the change by another one; here the limits count in any case.
    """
    readers = {cap.name: (cap, cap.annotation) for cap in caps if cap.annotation}
    for name, text in sorted(_select_limit_texts(manifest).items()):
        field = f"metadata.annotations[{limit_annotations.ANNOTATION_PREFIX}{name}]"
        severity = FindingSeverity.ERROR
        if name not in readers:
            rule, message = "", limit_annotations.describe_unread(name, readers)
        else:
            cap, definition = readers[name]
            rule = cap.name
            try:
                limit_annotations.parse_annotation(cap, definition, text)
                message = f"it is counted, and the gate accepts it from {format_subjects(definition.set_by)} only"
                severity = FindingSeverity.NOTE
            except limit_annotations.LimitAnnotationError as error:
                message = str(error)
        problem = Problem(field, LIMIT_ANNOTATION, Reason.FORBIDDEN, message, rule=rule, policy_kind="cap")
        yield ReportedProblem(problem, f"cap {rule}" if rule else "tallygate", severity)


def _select_limit_texts(manifest: Manifest) -> Mapping[str, str]:
    return limit_annotations.select_texts(read_texts(manifest, "annotations"))
