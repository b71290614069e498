"""Stored objects: what rules and caps say of one as long as nothing else in the cluster changes.

A rule that fills requests in does so when an object is created, so that a stored one is evaluated as it would be
filled. The user who created a stored pod is unknown, so no exemption from implied requests applies; a static pod gets
none. Amounts that are charged at present do not matter, and nothing is charged.
"""

import dataclasses
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from tallygate.accounting.amounts import NO_AMOUNTS
from tallygate.accounting.problem import Problem
from tallygate.accounting.quantity_parser import QuantityError
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.evaluate import evaluate_decoded_request
from tallygate.admission.implied_requests import NO_IMPLIED, create_missing_verdict, creates_pod
from tallygate.admission.kinds import DecodedRequest
from tallygate.admission.request import Phase, Verdict
from tallygate.admission.rule_index import Labels, RuleIndex
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.meta import ObjectMeta
from tallygate.policy.model import ForecastEnforcement
from tallygate.review.applied_workload import count_daemon_pods, create_workload
from tallygate.review.cap_messages import create_missing_limit_problem, create_unknown_product_problem
from tallygate.review.gpu_annotation_review import find_uncounted_annotations
from tallygate.review.outcome import Outcome, describe_unlabelled
from tallygate.review.owner_chain import find_controller
from tallygate.review.view import ClusterView
from tallygate.review.workload_forecast import describe_unknown_count, describe_unknown_defaults, forecast_cap
from tallygate.state.informers.claim_records import find_pod_uid

_NODE = "Node"  # it controls the copies of its static pods


def evaluate_stored(decoded_request: DecodedRequest, rules: RuleIndex, labels: Labels | None) -> Verdict:
    """Return the verdict of the rules on a stored object; implied requests that a pod lacks are warnings.

    Raises:
        ReviewError: if the object does not decode as its kind.
    """
    request, target, implied = decoded_request.request, decoded_request.target, decoded_request.implied
    if target is None or not creates_pod(request) or implied is NO_IMPLIED:
        return evaluate_decoded_request(decoded_request, rules, labels, Phase.MUTATING)
    # the rules see the pod as it is stored: nothing is added to it any longer
    verdict = evaluate_decoded_request(DecodedRequest(request, rules.targets), rules, labels, Phase.MUTATING)
    missing: tuple[Problem, ...] = ()
    pod = decoded_request.get_object(target)
    owner = find_controller(pod.metadata)
    if isinstance(pod, Pod) and (owner is None or owner.kind != _NODE):
        found = create_missing_verdict(implied.find_missing(pod), is_stored=True)
        missing = (*found.problems, *found.warnings, *found.audits)
    unknown = tuple(implied.describe_unknown(request.namespace))
    if not missing and not unknown:
        return verdict
    return dataclasses.replace(verdict, warnings=(*missing, *verdict.warnings), unknown=(*unknown, *verdict.unknown))


def review_stored_limits(
    outcome: Outcome, decoded_request: DecodedRequest, labels: Mapping[str, str] | None, view: ClusterView
) -> Outcome:
    """Return the outcome with the lasting problems under the caps over the namespace of a stored object.

    A limit or factor is missing, or the pods of a workload can never fit.
    """
    namespace, target = outcome.request.namespace, decoded_request.target
    if not outcome.policy_set.caps or not namespace:
        return outcome
    matching = outcome.policy_set.caps.find_matching(namespace, labels)
    unknown = [describe_unlabelled(name, namespace) for name in matching.unknown]
    denied, warnings = list[Problem](), list[Problem]()
    if target is not None and matching.caps:
        for cap in matching.caps:
            try:
                for is_denied, problem in _find_problems(cap, decoded_request, view, unknown):
                    (denied if is_denied else warnings).append(problem)
            except QuantityError:
                continue  # the rules report it, and no API server stores it
        for pods in decoded_request.list_pods(target):
            if pods.replicas is None or pods.replicas.count:
                warnings += find_uncounted_annotations(matching.caps, pods.pod, pods)
    for message in unknown:
        outcome = outcome.warn((), message)
    return replace(outcome.warn(warnings), rejections=tuple(denied))


def _find_problems(
    cap: ActiveCap, decoded_request: DecodedRequest, view: ClusterView, unknown: list[str]
) -> Iterator[tuple[bool, Problem]]:
    """Yield the problems of an object under a cap, each with whether it denies; add what is `unknown`.

    Without a hard limit on the name a cap denies nothing.

    Raises:
        QuantityError: if a pod has an invalid quantity.
    """
    request, target, implied = decoded_request.request, decoded_request.target, decoded_request.implied
    assert target is not None  # noqa: S101  # the caller has asked
    stored = decoded_request.get_object(target)
    if isinstance(stored, ResourceClaim) and not find_pod_uid(stored.metadata or ObjectMeta()):
        for name in cap.list_unknown_products(stored):
            yield name in cap.hard, create_unknown_product_problem(cap, name)
    pod_views = decoded_request.list_pods(target)
    if not pod_views:
        return
    if isinstance(stored, Pod):
        pod = pod_views[0].pod
        for name, containers in cap.compute_charge(pod).unlimited.items():
            yield name in cap.hard, create_missing_limit_problem(cap, name, containers, pod)
        return
    workload = create_workload(stored, pod_views, defaults=implied.defaults)
    if workload is None or cap.definition.workloads is ForecastEnforcement.IGNORE:
        return
    kind = (request.group, request.kind)
    workload = count_daemon_pods(workload, kind, request.object, implied, view.count_daemon_pods)
    remarks = [*describe_unknown_defaults(workload, [cap], ActiveCap.compute_charge)]
    remarks.append(describe_unknown_count(workload, [cap], ActiveCap.compute_charge))
    unknown += (f"{remark} in namespace {request.namespace}" for remark in remarks if remark)
    guarantees = view.create_guarantee_finder(request.namespace, read_no_ledger)
    for forecast in forecast_cap(workload, cap, cap.compute_charge, NO_AMOUNTS, read_no_ledger, guarantees):
        yield forecast.permanent and cap.definition.workloads is ForecastEnforcement.DENY, forecast.problem


def read_no_ledger(*_: object) -> None:
    """Return None in place of a ledger: no amounts are charged, or they do not matter."""
