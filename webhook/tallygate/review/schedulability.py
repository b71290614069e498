"""Schedulability check of incoming pods: whether nodes advertise their resources, and can run them ever, or now.

It uses the columns of `tallygate predict`. Only facts count against a pod. There is no verdict if the cluster is
unknown or its data is too old, or if a feature of the pod is not modelled.

The import of the columns, and of numpy, takes a third of the start time of a check of manifests. A process without a
cluster does not need them, so that the gate gets this check as a `NodeRuleEvaluator`.

Parts of messages on nodes: why no node can ever run a pod, the devices that it lacks, the pods that it preempts.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import msgspec

from tallygate.accounting.allocation.planned_requests import TOO_MUCH_WORK
from tallygate.accounting.amounts import format_amount
from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.node_fit import format_unhealthy
from tallygate.accounting.problem import Problem, Reason
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.accounting.scheduling.complexity import count_scanned_groups, estimate_complexity
from tallygate.accounting.scheduling.diagnosis import Diagnosis, format_fit_error
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod, with_default_priority
from tallygate.accounting.scheduling.node_choice import find_bind_errors
from tallygate.accounting.scheduling.node_diagnosis import list_unhealthy_devices
from tallygate.accounting.scheduling.plugins.resource_claims import needs_devices
from tallygate.accounting.scheduling.prediction import (
    Feasibility,
    Prediction,
    can_never_run,
    count_daemon_pods,
    find_largest_amounts,
    predict_daemon_set,
    predict_quickly,
    with_daemon_tolerations,
)
from tallygate.accounting.scheduling.victims import PreemptionCandidate
from tallygate.accounting.selectors import SelectorError
from tallygate.admission.evaluate import create_verdict
from tallygate.admission.implied_requests import ImpliedRequests
from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.object_checks import RuleViolation
from tallygate.admission.pod_view import PodView, read_template
from tallygate.admission.request import ALLOWED, AdmissionRequest, Verdict
from tallygate.admission.rule_codes import NEVER_SCHEDULABLE, NOT_ADVERTISED, NOT_SCHEDULABLE_NOW, PREEMPTS_OTHERS
from tallygate.admission.rule_index import RuleSelection
from tallygate.objects.scheduling import SchedulingPod
from tallygate.policy.matching import matches_resource, names_every_class
from tallygate.policy.model import CLAIM_KINDS, Enforcement, ResourceRule, Schedulable
from tallygate.review.advertised_devices import DeviceLister, check_claim, check_pod_claims, check_served_names
from tallygate.review.advertised_names import PODS, AdvertisedNames
from tallygate.review.cluster_snapshot import ClusterSnapshot, SnapshotProvider
from tallygate.review.device_reasons import describe_missing_devices, may_reach_incomplete_pool
from tallygate.review.incoming_pods import IncomingPods, TooComplexError, find_incoming_pods
from tallygate.review.pending_amounts import PendingAmounts
from tallygate.review.possible_nodes import PossibleNodes

_POD_DECODER = msgspec.json.Decoder(SchedulingPod)
_MAX_COPIES = 200
_MAX_TOTAL_COMPLEXITY = 20_000  # terms on nodes, in all copies together that have to be placed one by one
_MAX_COMPLEXITY = 1000  # terms on nodes
_MAX_CLAIMS = 32  # of a pod
_MAX_POD_SETS = 32  # of an object
_MAX_DEVICE_WORK = 60_000  # of one review: at most 0.2 s
_MAX_SCANNED_GROUPS = 30_000  # groups of equal pods; the scans take a tenth of a second in a cluster of 100,000 pods


class _Sources(NamedTuple):
    """The nodes, the devices and the work that these may cost for the pods of a template, and the selected policies."""

    snapshots: SnapshotProvider
    devices: DeviceLister | None
    device_work: int
    selection: RuleSelection


def check_schedulability(
    decoded_request: DecodedRequest,
    selection: RuleSelection,
    snapshots: SnapshotProvider,
    devices: DeviceLister | None = None,
) -> Verdict:
    """Return the verdict of the selected rules that compare pods with nodes, on the pods that a request creates.

    With `devices`, claims for devices are compared with those that are published.

    Raises:
        ReviewError: if an object is not of the kind that it states.
    """
    request = decoded_request.request
    if request.kind in CLAIM_KINDS:
        return ALLOWED if devices is None else check_claim(decoded_request, selection, devices)
    try:
        all_pods = find_incoming_pods(decoded_request)
    except TooComplexError:
        return Verdict(unknown=tuple(map(_describe_too_complex, selection.node_rules)))
    if len(all_pods) > _MAX_POD_SETS:
        return Verdict(unknown=tuple(map(_describe_too_complex, selection.node_rules)))
    sources = _Sources(snapshots, devices, _MAX_DEVICE_WORK // max(len(all_pods), 1), selection)
    verdict = ALLOWED
    for incoming_pods in all_pods:
        found = _check_incoming_pods(request, incoming_pods, selection, sources)
        if found is not ALLOWED:
            verdict = verdict.merge(found)
    return verdict


def count_pods_on_nodes(
    view: PodView, content: object, implied: ImpliedRequests, snapshots: SnapshotProvider
) -> int | None:
    """Return the number of pods of a DaemonSet, given its template and its JSON; None while the nodes are not known.

    A node that comes later gets a pod too, and caps decide about that one when it is created. Where the RuntimeClass of
    the pods is not known, nor are the nodes that it selects.
    """
    try:
        pod = implied.complete(_POD_DECODER.decode(read_template(view, content)))
        if implied.defaults.find_unknown_class(pod) or estimate_complexity(pod, _MAX_COMPLEXITY) is None:
            return None
        with snapshots.open_snapshot(pods=False) as snapshot:
            return None if snapshot is None else count_daemon_pods(pod, snapshot.cluster)
    except (msgspec.DecodeError, QuantityError):
        return None  # the API server rejects such a pod


def _check_incoming_pods(
    request: AdmissionRequest, incoming_pods: IncomingPods, selection: RuleSelection, sources: _Sources
) -> Verdict:
    """Return the verdict on the pods of one template."""
    labels = (incoming_pods.pod.metadata.labels if incoming_pods.pod.metadata else None) or {}
    rules = selection.for_user(request.user, labels).node_rules
    if incoming_pods.view.is_partial:  # another object may have the tolerations and nodes of the pods
        rules = tuple(map(_drop_schedulable, rules))
    complexity = estimate_complexity(incoming_pods.pod, _MAX_COMPLEXITY) if rules else 0
    if complexity is None or (rules and _count_claims(incoming_pods) > _MAX_CLAIMS):
        return Verdict(unknown=tuple(map(_describe_too_complex, rules)))
    spec, devices = incoming_pods.pod.spec, sources.devices
    claims_verdict = (
        check_pod_claims(incoming_pods, request.namespace, rules, devices)
        if devices is not None and spec is not None and spec.resource_claims
        else ALLOWED
    )
    if claims_verdict is not ALLOWED:
        rules = _remove_schedulable(rules, claims_verdict)
    try:
        verdict = _evaluate_rules(rules, incoming_pods, sources, complexity)
    except (QuantityError, SelectorError):
        return ALLOWED  # the API server rejects such a pod
    return verdict if claims_verdict is ALLOWED else claims_verdict.merge(verdict)


def _remove_schedulable(rules: Sequence[ResourceRule], verdict: Verdict) -> tuple[ResourceRule, ...]:
    """Return the rules, without the check of nodes in those that have a problem: the first one is sufficient."""
    names = {problem.rule for problem in (*verdict.problems, *verdict.warnings, *verdict.audits)}
    return tuple(_drop_schedulable(rule) if rule.name in names else rule for rule in rules)


def _drop_schedulable(rule: ResourceRule) -> ResourceRule:
    checks = msgspec.structs.replace(rule.checks, schedulable=None)
    return msgspec.structs.replace(rule, checks=checks)


def _evaluate_rules(
    rules: Sequence[ResourceRule], incoming_pods: IncomingPods, sources: _Sources, complexity: int
) -> Verdict:
    """Return the verdict of these rules on the incoming pods; the cluster is unchanged afterwards.

    Raises:
        QuantityError: if a requested quantity is invalid.
        SelectorError: if a selector of the pods is invalid.
    """
    incoming = IncomingPod.from_pod(with_default_priority(incoming_pods.pod))
    spec = incoming_pods.pod.spec
    selected = _select_rules(rules, incoming.requests, has_claims=spec is not None and bool(spec.resource_claims))
    unread_class = incoming_pods.unknown_class
    with_class = [rule for rule in selected if unread_class and rule.checks.schedulable]
    not_evaluated = tuple(_describe_unknown_class(rule, unread_class) for rule in with_class)
    if unread_class:
        selected = [_drop_schedulable(rule) for rule in selected]
    if not selected:
        return ALLOWED
    snapshots, devices = sources.snapshots, sources.devices
    checks_free_room = not incoming_pods.is_deferred and any(map(_checks_free_room, selected))
    with snapshots.open_snapshot(pods=checks_free_room) as snapshot:
        if snapshot is None:
            return ALLOWED
        cluster = snapshot.cluster
        check = _PodCheck(incoming_pods, incoming, snapshot, sources.selection, complexity)
        if not (snapshot.has_devices and snapshot.has_pools) and check.names.unserved:
            return ALLOWED
        now = checks_free_room and snapshot.has_pods
        is_too_complex = now and count_scanned_groups(incoming, cluster) > _MAX_SCANNED_GROUPS
        unknown = tuple(map(_describe_too_complex, filter(_checks_free_room, selected))) if is_too_complex else ()
        lacks_devices = cluster.devices is None and needs_devices(incoming, cluster)
        if cluster.devices is None:
            violations = list(check.find_violations(selected, now=now and not is_too_complex))
        else:
            with cluster.devices.work.limit_attempts(sources.device_work) as work:
                violations = list(check.find_violations(selected, now=now and not is_too_complex))
                if work.is_exhausted:
                    violations = [violation for violation in violations if violation.problem.code == NOT_ADVERTISED]
                    unknown = tuple(_describe_too_much_work(rule) for rule in selected if rule.checks.schedulable)
        unknown = (*not_evaluated, *unknown, *check.names.list_unevaluated(selected))
    if lacks_devices and any(rule.checks.schedulable for rule in selected):
        snapshots.request_devices()
    verdict = (
        replace(create_verdict(violations, unknown), cluster_age_seconds=snapshot.age_seconds)
        if violations or unknown
        else ALLOWED
    )
    if devices is None or not check.names.served or not check.names.are_known:
        return verdict
    # After the snapshot, which one thread has at a time.
    return check_served_names(check.names.served, incoming_pods, selected, devices).merge(verdict)


def _select_rules(
    rules: Sequence[ResourceRule], requested: Collection[str], *, has_claims: bool
) -> Sequence[ResourceRule]:
    """Return the rules on a requested resource; every pod requests one `pods`.

    A pod with claims requests devices: those rules include it that name the devices of every class.
    """
    return [
        rule
        for rule in rules
        if any(matches_resource(rule.resources, name) for name in (PODS, *requested))
        or (has_claims and names_every_class(rule.resources))
    ]


def _checks_free_room(rule: ResourceRule) -> bool:
    return rule.checks.schedulable is Schedulable.NOT_NOW


def _describe_too_complex(rule: ResourceRule) -> str:
    return f"rule {rule.name} was not evaluated: the pod's constraints on nodes and other pods are too complex"


def _describe_unknown_class(rule: ResourceRule, name: str) -> str:
    return f"rule {rule.name} was not evaluated: RuntimeClass {name} is not known here"


def _describe_too_much_work(rule: ResourceRule) -> str:
    return f"rule {rule.name} was not evaluated: {TOO_MUCH_WORK}"


def _count_claims(incoming_pods: IncomingPods) -> int:
    return len((incoming_pods.pod.spec.resource_claims if incoming_pods.pod.spec else None) or ())


class _PodCheck:
    """The evaluation of incoming pods on one cluster; results that several rules need are computed once.

    `complexity` is the cost of placing one pod. `names` are the requested names that no node advertises.
    """

    def __init__(
        self,
        incoming_pods: IncomingPods,
        incoming: IncomingPod,
        snapshot: ClusterSnapshot,
        selection: RuleSelection,
        complexity: int,
    ) -> None:
        self._incoming_pods = incoming_pods
        self._pod = incoming
        self._cluster = cluster = snapshot.cluster
        self._complexity = complexity
        nodes = PossibleNodes(cluster, selection.node_shapes, are_pools_known=snapshot.has_pools)
        self._possible_nodes, resources = nodes, selection.node_resources
        self._pending = PendingAmounts(cluster, nodes.shapes if resources else (), resources)
        self.names = AdvertisedNames(incoming, cluster, self._possible_nodes, self._pending)

    def find_violations(self, rules: Sequence[ResourceRule], *, now: bool) -> Iterator[RuleViolation]:
        """Yield the violations of the rules; with `now`, also those of the current free amounts.

        A rule yields no scheduling violation for a pod that requests an unadvertised name: the first violation is
        sufficient.

        Yield nothing while the cluster is not known well enough.
        """
        if not self.names.are_known:
            return
        for rule in rules:
            unadvertised = self.names.list_unadvertised(rule) if rule.checks.advertised else ()
            for name in unadvertised:
                yield self._create_violation(rule, NOT_ADVERTISED, self.names.describe_unserved(name), name)
            if rule.checks.schedulable and not unadvertised:
                yield from self._check_rule(rule, now=now and rule.checks.schedulable is Schedulable.NOT_NOW)

    def _check_rule(self, rule: ResourceRule, *, now: bool) -> Iterator[RuleViolation]:
        if (now and self._is_feasible) or self._may_get_devices:
            return
        if self._never_reason:
            yield self._create_violation(rule, NEVER_SCHEDULABLE, self._never_reason)
        elif now and self._not_now_reason:
            yield self._create_violation(rule, NOT_SCHEDULABLE_NOW, self._not_now_reason)
        elif now and self._preemption_text:
            yield self._create_violation(_replace_deny(rule), PREEMPTS_OTHERS, self._preemption_text)

    def _create_violation(self, rule: ResourceRule, code: str, message: str, name: str = "") -> RuleViolation:
        path = self._incoming_pods.locate_resources().get(name, "") if name else ""
        reason = Reason.NOT_FOUND if name else Reason.FORBIDDEN
        problem = Problem(path or self._incoming_pods.view.locate("spec"), code, reason, message, rule=rule.name)
        return RuleViolation(problem, rule, (code, rule.name, name))

    @cached_property
    def _may_get_devices(self) -> bool:
        """True if drivers are publishing devices that may suit the pods."""
        return may_reach_incomplete_pool(self._pod, self._cluster)

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        """The diagnosis of the first copy on all nodes."""
        return run_filters(self._pod, self._cluster)

    @property
    def _is_feasible(self) -> bool:
        """True if there is one pod, and at least one node is feasible for it; the binding fails on none of them."""
        feasible = self._diagnosis.feasible
        is_feasible = self._incoming_pods.copies == 1 and bool(len(feasible))
        return is_feasible and not find_bind_errors(self._pod, self._cluster, feasible)

    @cached_property
    def _never_reason(self) -> str:
        """The reason why no node can ever run the pods; empty if one can."""
        if self._incoming_pods.copies is None:
            prediction = self._daemon_set_prediction
            is_never = prediction.feasibility is Feasibility.NEVER and not prediction.placed_count
            return (
                f"no eligible node can ever run this pod: {_strip_period(prediction.message)}"
                if is_never
                and not prediction.unmodelled
                and not self._possible_nodes.may_run(self._daemon_pod)
                and self._pending.remove_from(self._daemon_pod) is self._daemon_pod
                else ""
            )
        return find_never_reason(self._pod, self._cluster, self._possible_nodes, self._pending, lambda: self._diagnosis)

    @cached_property
    def _not_now_reason(self) -> str:
        """The reason why not all pods fit now, even with preemption; empty if they do."""
        prediction = self._shortage
        return (
            self._add_devices(f"{self._describe_shortage(prediction)}: {_strip_period(prediction.message)}")
            + ("" if self._incoming_pods.copies is None else self._possible_nodes.describe_fit(self._pod))
            if prediction and prediction.candidate is None and not _waits_for_claim(prediction)
            else ""
        )

    def _add_devices(self, message: str) -> str:
        if self._incoming_pods.copies is None:
            unhealthy = format_unhealthy(list_unhealthy_devices(self._pod, self._cluster))
            return f"{message}; {unhealthy}" if unhealthy else message
        return add_devices(message, self._pod, self._cluster, self._diagnosis, ever=False)

    @cached_property
    def _preemption_text(self) -> str:
        """The pods that the scheduler would preempt; empty if it preempts none."""
        prediction = self._shortage
        if prediction is None or prediction.candidate is None:
            return ""
        victims = describe_victims(prediction.candidate, self._cluster, self._pod.namespace)
        return f"{self._describe_shortage(prediction)}; the scheduler can preempt pods of lower priority: {victims}"

    def _describe_shortage(self, prediction: Prediction) -> str:
        if not self._incoming_pods.noun:
            return "no node is feasible for this pod now"
        placed_count = prediction.placed_count
        if self._incoming_pods.copies is None:
            return f"only {placed_count} of {prediction.count} eligible nodes can run its pod now"
        verb = "fits" if placed_count == 1 else "fit"
        total = f"of {prediction.count} {self._incoming_pods.noun} {verb} now"
        return f"only {placed_count} {total}" if placed_count else f"none {total}"

    @cached_property
    def _shortage(self) -> Prediction | None:
        """The prediction if some of the pods do not fit now; None if all fit, and if that is unknown."""
        copies = self._incoming_pods.copies
        if copies is None:
            prediction = self._daemon_set_prediction
        elif copies > min(_MAX_COPIES, _MAX_TOTAL_COMPLEXITY // max(self._complexity, 1)):
            return None
        else:
            prediction = predict_quickly(self._pod, self._cluster, copies, self._diagnosis)
        has_shortage = prediction.feasibility in {Feasibility.NOT_NOW, Feasibility.NEVER}
        return prediction if has_shortage and not prediction.unmodelled else None

    @cached_property
    def _daemon_pod(self) -> IncomingPod:
        return IncomingPod.from_pod(with_default_priority(with_daemon_tolerations(self._incoming_pods.pod)))

    @cached_property
    def _daemon_set_prediction(self) -> Prediction:
        return predict_daemon_set(self._daemon_pod, self._cluster, run_filters(self._daemon_pod, self._cluster))


def _replace_deny(rule: ResourceRule) -> ResourceRule:
    """Return the rule with the enforcement warn in place of deny: preemption of other pods is no reason to deny one."""
    if rule.enforcement is not Enforcement.DENY:
        return rule
    return msgspec.structs.replace(rule, enforcement=Enforcement.WARN)


def _waits_for_claim(prediction: Prediction) -> bool:
    """Return whether a claim that is not ready keeps the pod out of the queue: it may be stored after the pod."""
    return prediction.next_result is not None and bool(prediction.next_result.hold_reason)


def _strip_period(sentence: str) -> str:
    return sentence.rstrip(".")


_MAX_PODS = 3


def find_never_reason(
    pod: IncomingPod,
    cluster: Cluster,
    possible_nodes: PossibleNodes,
    pending: PendingAmounts,
    diagnose: Callable[[], Diagnosis],
) -> str:
    """Return the reason why no node can ever run a pod; empty if one can, or may with amounts that nodes will get.

    `diagnose` returns the diagnosis of the pod on all nodes.

    Raises:
        QuantityError: if the size of a claim or volume is invalid.
    """
    settled = pending.remove_from(pod)
    if not can_never_run(settled, cluster) or possible_nodes.may_run(settled):
        return ""
    settled_diagnosis = diagnose if settled is pod else partial(run_filters, settled, cluster)
    return f"no node can ever run this pod: {_describe_obstacle(settled, cluster, possible_nodes, settled_diagnosis)}"


def _describe_obstacle(
    pod: IncomingPod, cluster: Cluster, possible_nodes: PossibleNodes, diagnose: Callable[[], Diagnosis]
) -> str:
    maximums = {
        name: largest
        for name, largest in find_largest_amounts(pod, cluster).items()
        if largest or cluster.device_classes.find_class(name) is None
    }
    if not maximums:
        diagnosis = diagnose()
        return add_devices(format_fit_error(diagnosis).rstrip("."), pod, cluster, diagnosis, ever=True)
    requested = " and ".join(
        f"{format_amount(name, pod.requests[name])} {name}, {possible_nodes.describe_largest(name, largest)}"
        for name, largest in maximums.items()
    )
    return f"it requests {requested}"


def add_devices(message: str, pod: IncomingPod, cluster: Cluster, diagnosis: Diagnosis, *, ever: bool) -> str:
    """Return a message with the devices that a pod lacks, and with those that it requests and are unhealthy.

    With `ever`, devices in use count as if they were free.
    """
    missing = describe_missing_devices(pod, cluster, diagnosis, ever=ever)
    unhealthy = format_unhealthy(list_unhealthy_devices(pod, cluster))
    return "; ".join(filter(None, (message, missing, unhealthy)))


def describe_victims(candidate: PreemptionCandidate, cluster: Cluster, namespace: str) -> str:
    """Return the pods that are preempted as text, with names only for those in one namespace."""
    node_name = cluster.nodes.get_name(candidate.node_index)
    own_names = sorted(victim.name for victim in candidate.victims if victim.namespace == namespace)
    listed = own_names[:_MAX_PODS]
    unlisted = len(candidate.victims) - len(listed)
    if not listed:
        return f"{unlisted} of other namespaces on node {node_name}, for example"
    more = f" and {unlisted} more" if unlisted else ""
    return f"{', '.join(listed)}{more} on node {node_name}, for example"
