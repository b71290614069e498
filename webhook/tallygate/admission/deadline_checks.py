"""The checks of `activeDeadlineSeconds`: the time that pods may run which request the resources of a rule.

The kubelet ends a pod after the `activeDeadlineSeconds` of its spec. The Job controller ends all pods of a Job after
those of the Job, which count from its start, so that none of them runs for longer; after those of a pod it may start
another one (pastActiveDeadline in pkg/controller/job/job_controller.go, pkg/kubelet/active_deadline.go, v1.37). So the
smaller one of both bounds a pod of a Job.

Pods of a Job are checked as the template of their Job, where the rule applies to Jobs: the pod does not tell the
deadline of its Job. Their owner is believed if the Job controller creates them, or where the user is unknown.

Kubernetes accepts the field in no template of a Deployment, ReplicaSet, ReplicationController, StatefulSet or DaemonSet
(pkg/apis/apps/validation and pkg/apis/core/validation, v1.37), whose pods run until they are deleted.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.accounting.problem import Reason
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.compiled_checks import CheckFailure
from tallygate.admission.object_checks import RuleViolation, create_violation
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import AdmissionRequest, UserInfo
from tallygate.admission.rule_codes import DEADLINE_MISSING, DEADLINE_TOO_LONG
from tallygate.admission.rule_index import RuleSelection
from tallygate.objects.core import Pod, PodSpec
from tallygate.objects.meta import OwnerReference
from tallygate.policy.deadlines import DeadlineChecks
from tallygate.policy.matching import names_every_class
from tallygate.policy.model import ResourceRule
from tallygate.policy.periods import format_period

JOB_CONTROLLERS = frozenset({"system:serviceaccount:kube-system:job-controller", "system:kube-controller-manager"})
"""The users of the controller that creates the pods of Jobs, with and without credentials of its own."""

_JOB = ("batch", "Job")
_ENDLESS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "ReplicationController"),
    }
)
_FIELD = "spec.activeDeadlineSeconds"
_CLAIMED = "devices by claims"
_MAX_NAME_LENGTH = 100


class _Deadline(NamedTuple):
    """The bound on the time of a pod, None without any, and the path of the field that has it, or that lacks it."""

    path: str
    seconds: int | None


def is_bounded_by_job(pod_view: PodView) -> bool:
    """Return whether a template is that of a Job, or the controller of a pod is one, by its owner references."""
    return pod_view.job is not None or _is_pod_of_job(pod_view)


def check_deadlines(pod_view: PodView, selection: RuleSelection, request: AdmissionRequest) -> Iterator[RuleViolation]:
    """Yield the violations of the rules that limit the time of a pod, or of the pods of a template."""
    spec = pod_view.pod.spec
    if spec is None:
        return
    is_of_job = _is_pod_of_job(pod_view) and _may_be_created_by_job(request.user)
    deadline = _find_deadline(pod_view, spec)
    for rule, resource in _find_limited(spec, selection).values():
        checks = rule.checks.active_deadline_seconds
        if checks is None or (is_of_job and _checks_jobs(rule)):
            continue
        failure = _find_failure(checks, deadline, resource, pod_view, request)
        if failure is not None:
            yield create_violation(deadline.path, rule, failure, (pod_view.identity, failure.value))


def list_deadline_rules(pod_view: PodView, selection: RuleSelection) -> Iterable[str]:
    """Return the names of the selected rules that limit the time of a pod, whether it violates them or not."""
    return _find_limited(pod_view.pod.spec, selection) if pod_view.pod.spec is not None else ()


def _find_deadline(pod_view: PodView, spec: PodSpec) -> _Deadline:
    own, job = _Deadline(pod_view.locate(_FIELD), spec.active_deadline_seconds), pod_view.job
    if job is None or (own.seconds is not None and (job.seconds is None or own.seconds < job.seconds)):
        return own
    return _Deadline(job.path, job.seconds)


def _find_limited(spec: PodSpec, selection: RuleSelection) -> dict[str, tuple[ResourceRule, str]]:
    """Return the rules that limit the time of a pod, by their names, each with the first resource that it names."""
    found: dict[str, tuple[ResourceRule, str]] = {}
    try:
        requested = compute_pod_requests(spec).quantities
    except QuantityError:
        return found  # an entry is unreadable, and its rule reports it
    for name in sorted(requested):
        if requested[name].sign > 0:
            for rule in selection.get_checks(name).group.deadline_rules:
                found.setdefault(rule.name, (rule, name))
    for rule in selection.deadline_rules if spec.resource_claims else ():
        if names_every_class(rule.resources):
            found.setdefault(rule.name, (rule, _CLAIMED))
    return found


def _find_failure(
    checks: DeadlineChecks, deadline: _Deadline, resource: str, pod_view: PodView, request: AdmissionRequest
) -> CheckFailure | None:
    resource = resource if len(resource) <= _MAX_NAME_LENGTH else f"{resource[:_MAX_NAME_LENGTH]}…"
    most = "" if checks.max is None else f" {int(checks.max)} ({format_period(checks.max)}) or less"
    if deadline.seconds is None:
        if not checks.required or pod_view.is_partial:
            return None
        message = _describe_missing(resource, most, pod_view, request)
        return CheckFailure(DEADLINE_MISSING, Reason.REQUIRED, "", message)
    if checks.max is None or deadline.seconds <= checks.max:
        return None
    message = f"{deadline.seconds} is longer than a pod with {resource} may run: set{most}"
    return CheckFailure(DEADLINE_TOO_LONG, Reason.INVALID, str(deadline.seconds), message)


def _describe_missing(resource: str, most: str, pod_view: PodView, request: AdmissionRequest) -> str:
    endless = _find_endless_kind(pod_view, request)
    if endless:
        bound = f"an activeDeadlineSeconds of{most}" if most else "an activeDeadlineSeconds"
        return (
            f"the pods of a {endless} run until they are deleted, and Kubernetes accepts no activeDeadlineSeconds in "
            f"them: run what requests {resource} as a Job or a pod with {bound}"
        )
    advice = f"set activeDeadlineSeconds to{most}" if most else "set activeDeadlineSeconds"
    if pod_view.job is not None:
        return f"the pods of the Job request {resource} and may run for ever: {advice}, of the Job or of its pods"
    return f"the pod requests {resource} and may run for ever: {advice}"


def _find_endless_kind(pod_view: PodView, request: AdmissionRequest) -> str:
    """Return the kind of Kubernetes that has or controls the pods, if its pods never end; else an empty text."""
    kind = (request.group, request.kind) if pod_view.is_template else _find_owner_kind(pod_view.pod)
    return kind[1] if kind in _ENDLESS else ""


def _is_pod_of_job(pod_view: PodView) -> bool:
    return not pod_view.is_template and _find_owner_kind(pod_view.pod) == _JOB


def _may_be_created_by_job(user: UserInfo) -> bool:
    return not user.name or user.name in JOB_CONTROLLERS


def _checks_jobs(rule: ResourceRule) -> bool:
    return rule.match.kinds is None or _JOB[1] in rule.match.kinds


def _find_owner_kind(pod: Pod) -> tuple[str, str]:
    """Return the group and kind of the controller of a pod, empty without one."""
    references = (pod.metadata.owner_references if pod.metadata else None) or ()
    owner = next((reference for reference in references if reference.controller), OwnerReference())
    return (owner.api_version or "").rpartition("/")[0], owner.kind or ""
