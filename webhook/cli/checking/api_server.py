"""What Kubernetes says of an object's resources, and what it lets through though it should not."""

from collections.abc import Sequence

from webhook.accounting.problem import Problem
from webhook.accounting.validation import (
    limit_range_lets_through,
    node_lets_through,
    pod_lets_through,
    quota_lets_through,
    validate_limit_range,
    validate_node,
    validate_pod,
    validate_quota,
)
from webhook.admission.workloads import Judged, PodView
from webhook.objects.cluster import LimitRange, Node, ResourceQuota


def refusals(judged: Judged, view: PodView | None) -> Sequence[Problem]:
    """What the API server's own validation would refuse, after its defaulting."""
    if view is not None:
        return validate_pod(view.pod, view.path, template=view.template)
    match judged:
        case Node():
            return validate_node(judged)
        case ResourceQuota():
            return validate_quota(judged)
        case LimitRange():
            return validate_limit_range(judged)
        case _:
            return ()


def lets_through(judged: Judged, view: PodView | None) -> Sequence[Problem]:
    """What it would store, and tallygate calls wrong."""
    if view is not None:
        return pod_lets_through(view.pod, view.path, template=view.template)
    match judged:
        case Node():
            return node_lets_through(judged)
        case ResourceQuota():
            return quota_lets_through(judged)
        case LimitRange():
            return limit_range_lets_through(judged)
        case _:
            return ()
