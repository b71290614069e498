"""Evaluation: an admission request and the rules of the active policy set give a verdict.

On UPDATE the rules apply to changes only: a violation that the stored object has already does not prevent a user or
controller from labelling, finishing or deleting the object.

In the mutating phase the verdict has a JSON Patch (RFC 6902, paths by RFC 6901) that writes a missing limit or a
missing request where a rule has `fill`, and the implied requests of a new pod. A second application changes nothing,
because existing entries stay untouched.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import msgspec

from tallygate.accounting.name_rules import NameContext
from tallygate.accounting.problem import Problem
from tallygate.accounting.result_cache import Fingerprint
from tallygate.accounting.validation.limit_ranges import find_device_defaults
from tallygate.admission import implied_requests, kinds
from tallygate.admission.claim_checks import check_claim, describe_unknown_users, list_claim_rules
from tallygate.admission.deadline_checks import check_deadlines, is_bounded_by_job, list_deadline_rules
from tallygate.admission.object_checks import RuleViolation, ViolationIdentity, check_object, relocate_amounts
from tallygate.admission.pod_view import Completeness, PodView
from tallygate.admission.request import ALLOWED, CREATE, AdmissionRequest, PatchOperation, Phase, Verdict
from tallygate.admission.resource_fields import ResourceField, list_resource_fields, strip_quota_prefix
from tallygate.admission.rule_index import Labels, RuleIndex, RuleSelection
from tallygate.objects.core import LimitRange, ResourceList
from tallygate.policy.model import Enforcement

_STRICTEST_FIRST = (Enforcement.DENY, Enforcement.WARN, Enforcement.AUDIT)
_NUMBER_PATTERN = re.compile(r"(\d{1,18})", re.ASCII)  # a name may have more digits than Python converts to one int
_STEP_PATTERN = re.compile(r"\[([^\]]*)\]|\.?([^.\[]+)")
_NO_LABELS: Labels = {}
SCHEDULER_USER = "system:kube-scheduler"
"""The user that creates claims for the extended resources of pods, and writes the allocations of all claims."""

NodeRuleEvaluator = Callable[[kinds.DecodedRequest, RuleSelection], Verdict]
"""A function that evaluates the rules which compare the pods of a request with the nodes of a cluster."""


def evaluate_request(request: AdmissionRequest, rules: RuleIndex, labels: Labels | None, phase: Phase) -> Verdict:
    """Evaluate the rules on a request; `labels` are the labels of the namespace, None if unknown.

    Raises:
        ReviewError: if the object is not of the kind that the request states.
    """
    return evaluate_decoded_request(rules.decode(request, labels), rules, labels, phase)


def evaluate_decoded_request(
    decoded_request: kinds.DecodedRequest, rules: RuleIndex, labels: Labels | None, phase: Phase
) -> Verdict:
    """Evaluate the rules on a request whose object the caller also reads, so that it is decoded once.

    Raises:
        ReviewError: if the object is not of the kind that the request states.
    """
    request, target = decoded_request.request, decoded_request.target
    if target is None:
        return ALLOWED
    selection = rules.select(request.kind, request.namespace, labels)
    if not selection.rules and not selection.unknown and decoded_request.implied is implied_requests.NO_IMPLIED:
        return ALLOWED
    return _Evaluation(decoded_request, target, selection).compute_verdict(phase)


class _Part(NamedTuple):
    """A pod or template as it is evaluated, its rules, and the same as it is written; the object itself without pods.

    A template is evaluated with the requests that its pods get, and only what is written is filled in.
    """

    pod_view: PodView | None
    selection: RuleSelection
    written_view: PodView | None


class _Evaluation:
    """The evaluation of one request by one selection of rules."""

    def __init__(
        self, decoded_request: kinds.DecodedRequest, target: kinds.ReviewTarget, selection: RuleSelection
    ) -> None:
        self.decoded_request = decoded_request
        self.request = decoded_request.request
        self.target = target
        self.selection = selection

    def compute_verdict(self, phase: Phase) -> Verdict:
        """Return the verdict on the object; its templates are evaluated with the requests that their pods get."""
        written_views = self.target.list_pods(self.decoded_request.get_object(self.target))
        implied = self.decoded_request.implied
        if implied is implied_requests.NO_IMPLIED or not written_views:
            return self._check_views(written_views, written_views, phase)
        unknown = implied.describe_unknown(self.request.namespace)
        if implied_requests.creates_pod(self.request):
            verdict = self._check_new_pod(written_views[0], phase)
        else:
            verdict = self._check_views(written_views, implied.complete_views(written_views), phase)
            if self.request.dry_run and phase is Phase.VALIDATING:
                remarks = implied_requests.find_implied_for_pods(
                    implied, [view for view in written_views if view.is_template]
                )
                verdict = replace(verdict, warnings=(*verdict.warnings, *remarks)) if remarks else verdict
        return replace(verdict, unknown=(*verdict.unknown, *unknown)) if unknown else verdict

    def _check_new_pod(self, pod_view: PodView, phase: Phase) -> Verdict:
        """Return the verdict on a new pod: the mutating phase adds the implied requests, and evaluates it with them."""
        missing = self.decoded_request.implied.find_missing(pod_view.pod, self.request.user)
        if not missing or phase is Phase.VALIDATING:
            verdict = self._check_views((pod_view,), (pod_view,), phase)
            return verdict.merge(implied_requests.create_missing_verdict(missing)) if missing else verdict
        added = implied_requests.create_request_patch(pod_view.pod, missing)
        completed = msgspec.structs.replace(pod_view, pod=implied_requests.add_requests(pod_view.pod, missing))
        verdict = self._check_views((completed,), (completed,), phase)
        if verdict.problems:
            return verdict
        return replace(
            verdict, patch=(*added, *verdict.patch), implied=tuple(map(implied_requests.describe_amount, missing))
        )

    def _check_views(self, written_views: Sequence[PodView], pod_views: Sequence[PodView], phase: Phase) -> Verdict:
        decoded_object = self.decoded_request.get_object(self.target)
        if len(pod_views) > 1:
            return self._check_parts(
                decoded_object,
                [
                    _Part(pod_view, self._select_for_user(decoded_object, pod_view), written_view)
                    for pod_view, written_view in zip(pod_views, written_views, strict=True)
                ],
                phase,
            )
        pod_view, written_view = (pod_views[0], written_views[0]) if pod_views else (None, None)
        selection = self._select_for_user(decoded_object, pod_view)
        claim = kinds.find_claim(decoded_object) if pod_view is None else None
        if claim is not None:
            return self._check_claim(claim, selection)
        key = self._create_pass_key(pod_view, selection, phase) if pod_view is not None else None
        if key is not None and selection.passing_pods.get(key):
            return ALLOWED  # most pods are made from a template that passed before
        verdict = self._check_parts(decoded_object, [_Part(pod_view, selection, written_view)], phase)
        if key is not None and verdict is ALLOWED and self.request.old_object is None:
            selection.passing_pods.put(key, value=True)
        return verdict

    def _create_pass_key(self, pod_view: PodView, selection: RuleSelection, phase: Phase) -> Fingerprint | None:
        """Return all by which the selected rules decide that a pod passes; None if more than its spec decides."""
        spec = pod_view.pod.spec
        if spec is None or selection.unknown or (phase is Phase.MUTATING and selection.has_fill):
            return None
        if pod_view.is_partial:
            return None  # it may lack what a whole pod must have
        if not selection.deadline_rules:
            return self.decoded_request.get_fingerprint(pod_view.pod)
        if is_bounded_by_job(pod_view):
            return None  # the Job decides too
        fingerprint = self.decoded_request.get_fingerprint(pod_view.pod)
        if fingerprint is None:
            return None
        return (*fingerprint, spec.active_deadline_seconds, bool(spec.resource_claims))

    def _check_claim(self, claim: kinds.ClaimView, selection: RuleSelection) -> Verdict:
        if self.request.user.name == SCHEDULER_USER and not claim.is_template:
            return ALLOWED  # it follows from the extended resources of a pod, which rules have checked
        user = self.request.user
        violations = check_claim(claim, selection.claim_rules, user)
        if violations and self.request.old_object is not None:
            violations = check_claim(claim, selection.claim_rules, user, existing=self._existing)
        unknown = self._describe_unevaluated({rule.name for rule in list_claim_rules(claim, self.selection.unknown)})
        if self.request.old_object is None:
            unknown += tuple(describe_unknown_users(claim, selection.claim_rules, user))
        return create_verdict(violations, unknown) if violations or unknown else ALLOWED

    def _check_parts(self, decoded_object: kinds.DecodedObject, parts: Iterable["_Part"], phase: Phase) -> Verdict:
        """Return the verdict on the templates of an object, or on the object itself, each with its rules."""
        violations: list[RuleViolation] = []
        patch: tuple[PatchOperation, ...] = ()
        unevaluated: set[str] = set()
        for pod_view, selection, written_view in parts:
            resource_fields = list_resource_fields(decoded_object, pod_view)
            written_fields = resource_fields
            if written_view is not pod_view:
                written_fields = list_resource_fields(decoded_object, written_view)
            can_fill = written_view is None or written_view.completeness is Completeness.WHOLE
            fill = self._create_patch(written_fields, selection) if phase is Phase.MUTATING and can_fill else ()
            found = check_object(resource_fields, pod_view, selection, fills_limits=bool(fill))
            if found and self.request.old_object is not None:
                found = check_object(
                    resource_fields, pod_view, selection, fills_limits=bool(fill), existing=self._existing
                )
            violations += found if pod_view is None else relocate_amounts(found, pod_view.amounts)
            violations += self._check_deadlines(pod_view, selection)
            patch += fill
            if selection.unknown:
                unevaluated |= self._find_unevaluated(resource_fields)
                if pod_view is not None:
                    unevaluated.update(list_deadline_rules(pod_view, RuleSelection(selection.unknown, ())))
        unknown = self._describe_unevaluated(unevaluated)
        if not violations:
            return Verdict(unknown=unknown, patch=patch) if unknown or patch else ALLOWED
        return create_verdict(violations, unknown, patch)

    def _check_deadlines(self, pod_view: PodView | None, selection: RuleSelection) -> list[RuleViolation]:
        if pod_view is None or not selection.deadline_rules:
            return []
        found = list(check_deadlines(pod_view, selection, self.request))
        if found and self.request.old_object is not None:
            return [violation for violation in found if violation.identity not in self._existing]
        return found

    def _select_for_user(self, decoded_object: kinds.DecodedObject, pod_view: PodView | None) -> RuleSelection:
        # The labels of a template decide for its workload, as they do for the pods or claims created from it.
        claim = kinds.find_claim(decoded_object) if pod_view is None else None
        metadata = (
            pod_view.pod.metadata if pod_view is not None else claim.metadata if claim else decoded_object.metadata
        )
        return self.selection.for_user(self.request.user, (metadata.labels if metadata else None) or _NO_LABELS)

    @cached_property
    def _existing(self) -> frozenset[ViolationIdentity]:
        """All violations of the stored object: with a limit, the others would count as new."""
        stored_object = kinds.decode_object(self.target, self.request, self.request.old_object)
        claim = kinds.find_claim(stored_object)
        if claim is not None:
            selection = self._select_for_user(stored_object, None)
            violations = check_claim(claim, selection.claim_rules, self.request.user, max_violations=None)
            return frozenset(violation.identity for violation in violations)
        violations = []
        for pod_view in self.decoded_request.implied.complete_views(self.target.list_pods(stored_object)) or (None,):
            selection = self._select_for_user(stored_object, pod_view)
            resource_fields = list_resource_fields(stored_object, pod_view)
            violations += check_object(resource_fields, pod_view, selection, fills_limits=False, max_violations=None)
            if pod_view is not None and selection.deadline_rules:
                violations += check_deadlines(pod_view, selection, self.request)
        return frozenset(violation.identity for violation in violations)

    def _create_patch(
        self, resource_fields: list[ResourceField], selection: RuleSelection
    ) -> tuple[PatchOperation, ...]:
        if not selection.has_fill:
            return ()
        if self.request.operation == CREATE:
            return tuple(create_fill_operations(resource_fields, [], selection))
        if self.request.kind == "Pod" or self.request.old_object is None:
            return ()  # a stored pod's resources cannot be changed by a patch
        stored_object = kinds.decode_object(self.target, self.request, self.request.old_object)
        stored_fields = [
            resource_field
            for pod_view in self.target.list_pods(stored_object) or (None,)
            for resource_field in list_resource_fields(stored_object, pod_view)
        ]
        return tuple(create_fill_operations(resource_fields, stored_fields, selection))

    def _find_unevaluated(self, resource_fields: list[ResourceField]) -> set[str]:
        """Return the names of the rules that were not evaluated although they have something to check."""
        unevaluated = RuleSelection(self.selection.unknown, ())
        names = {
            strip_quota_prefix(written_name) if resource_field.context is NameContext.QUOTA else written_name
            for resource_field in resource_fields
            for _, entries in resource_field.lists
            for written_name in entries
        }
        return {rule.name for name in names for rule in unevaluated.get_checks(name).group.rules}

    def _describe_unevaluated(self, rule_names: set[str]) -> tuple[str, ...]:
        return tuple(
            f"rule {name} was not evaluated: it selects namespaces by label, and the labels of namespace "
            f"{self.request.namespace} are unknown here"
            for name in sorted(rule_names)
        )


def find_device_defaults_of(decoded_request: kinds.DecodedRequest) -> list[Problem]:
    """Return the problems of the devices that a LimitRange gives containers; of a change only those that are new.

    Raises:
        ReviewError: if an object is not of the kind that it states.
    """
    request, target = decoded_request.request, decoded_request.target
    if target is None or request.kind != "LimitRange":
        return []
    limit_range = decoded_request.get_object(target)
    old = kinds.decode_object(target, request, request.old_object) if request.old_object is not None else None
    existing = find_device_defaults(old) if isinstance(old, LimitRange) else ()
    found = find_device_defaults(limit_range) if isinstance(limit_range, LimitRange) else ()
    return [default for default in found if default not in existing]


def create_verdict(
    violations: list[RuleViolation], unknown: tuple[str, ...] = (), patch: tuple[PatchOperation, ...] = ()
) -> Verdict:
    """Return the verdict on a list of violations, ordered by the enforcement of their rules."""
    by_enforcement: dict[Enforcement, list[Problem]] = {enforcement: [] for enforcement in Enforcement}
    seen: set[tuple[str, str]] = set()
    for violation in sorted(violations, key=_create_sort_key):
        # Several rules may report the same problem; the verdict has it once, for the strictest rule.
        if (key := (violation.problem.field, violation.problem.message)) not in seen:
            seen.add(key)
            by_enforcement[violation.rule.enforcement].append(violation.problem)
    problems = tuple(by_enforcement[Enforcement.DENY])
    return Verdict(
        problems=problems,
        warnings=tuple(by_enforcement[Enforcement.WARN]),
        audits=tuple(by_enforcement[Enforcement.AUDIT]),
        unknown=unknown,
        patch=() if problems else patch,
    )


def _create_sort_key(violation: RuleViolation) -> tuple[list[tuple[int, str]], int, Problem]:
    """Return a sort key: paths in reading order (containers[2] before containers[10]), then the strictest first."""
    parts = _NUMBER_PATTERN.split(violation.problem.field)
    path = [(int(part), "") if index % 2 else (-1, part) for index, part in enumerate(parts)]
    return path, _STRICTEST_FIRST.index(violation.rule.enforcement), violation.problem


def create_fill_operations(
    resource_fields: list[ResourceField], stored_fields: list[ResourceField], selection: RuleSelection
) -> Iterator[PatchOperation]:
    """Yield the operations that fill in the missing entries of these resource fields.

    An entry stays missing if the stored object has the same source quantity and lacks the entry as well.
    """
    stored_pairs = {
        stored_field.identity: stored_field.requests_and_limits
        for stored_field in stored_fields
        if stored_field.requests_and_limits
    }
    for resource_field in resource_fields:
        if resource_field.requests_and_limits is None:
            continue
        old_requests, old_limits = stored_pairs.get(resource_field.identity) or ({}, {})
        requests, limits = resource_field.requests_and_limits
        yield from _create_copy_operations(
            resource_field, ("limits", limits), requests, (old_requests, old_limits), selection
        )
        yield from _create_copy_operations(
            resource_field, ("requests", requests), limits, (old_limits, old_requests), selection
        )


def _create_copy_operations(
    resource_field: ResourceField,
    destination: tuple[str, ResourceList],
    source: ResourceList,
    stored_lists: tuple[ResourceList, ResourceList],
    selection: RuleSelection,
) -> Iterator[PatchOperation]:
    field, present = destination
    old_source, old_present = stored_lists
    missing = {
        name: raw
        for name, raw in source.items()
        if name not in present
        and name not in resource_field.default_requests
        and selection.get_checks(name).group.has_fill
        and not (name in old_source and bytes(old_source[name]) == bytes(raw) and name not in old_present)
    }
    if not missing:
        return
    pointer = _create_json_pointer(f"{resource_field.path}{field}")
    if not present:
        yield {"op": "add", "path": pointer, "value": missing}
        return
    for name, raw in missing.items():
        yield {"op": "add", "path": f"{pointer}/{_escape_json_pointer(name)}", "value": raw}


def _create_json_pointer(path: str) -> str:
    return "".join(f"/{_escape_json_pointer(key or field)}" for key, field in _STEP_PATTERN.findall(path))


def _escape_json_pointer(name: str) -> str:
    """Return a resource name as one step of a JSON pointer (RFC 6901, section 4)."""
    return name.replace("~", "~0").replace("/", "~1")
