"""Warnings about a workload whose pods the API server rejects, for example for the LimitRanges of the namespace.

The API server stores the workload, and reports the rejection of its pods to their controller only.
"""

from collections.abc import Sequence

from tallygate.accounting.problem import Problem
from tallygate.admission.created_pods import find_rejections
from tallygate.admission.implied_requests import ImpliedRequests
from tallygate.admission.kinds import DecodedObject, DecodedRequest, ReviewTarget, decode_object
from tallygate.admission.pod_view import PodView
from tallygate.review.claim_forecast import is_controlled


def find_rejected_pods(decoded_request: DecodedRequest) -> Sequence[Problem]:
    """Return the problems of the pods that a request lets a controller create; of a change only those that are new.

    Return none for a workload that another one controls: that one is reviewed itself.

    Raises:
        ReviewError: if an object is not of the kind that it states.
    """
    request, target, implied = decoded_request.request, decoded_request.target, decoded_request.implied
    defaults = implied.defaults
    if target is None or not target.creates_pods or request.subresource:
        return ()
    decoded_object = decoded_request.get_object(target)
    if is_controlled(decoded_object.metadata):
        return ()
    is_complete = not (any(defaults.containers) or defaults.bounds or defaults.runtime_classes)
    if is_complete and not any(map(_has_pod_level, target.list_pods(decoded_object))):
        return ()
    found = _list_problems(decoded_object, target, implied)
    if not found or request.old_object is None:
        return found
    existing = frozenset(_list_problems(decode_object(target, request, request.old_object), target, implied))
    return [problem for problem in found if problem not in existing]


def _has_pod_level(view: PodView) -> bool:
    """Return whether the pods have amounts for the whole pod, which the API server completes and compares."""
    return view.pod.spec is not None and view.pod.spec.resources is not None


def _list_problems(decoded_object: DecodedObject, target: ReviewTarget, implied: ImpliedRequests) -> list[Problem]:
    """Return the problems of the templates of which pods are made now."""
    views = [pod for pod in target.list_pods(decoded_object) if pod.replicas is not None and pod.replicas.count]
    return list(find_rejections(views, implied.complete_views(views), implied.defaults))
