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
from webhook.cli.checking.known import Known
from webhook.objects.cluster import LimitRange, Node, ResourceQuota


def refusals(known: Known) -> Sequence[Problem]:
    """What the API server's own validation would refuse, after its defaulting."""
    if known.view is not None:
        return validate_pod(known.view.pod, known.view.path, template=known.view.template)
    match known.judged:
        case Node():
            return validate_node(known.judged)
        case ResourceQuota():
            return validate_quota(known.judged)
        case LimitRange():
            return validate_limit_range(known.judged)
        case _:
            return ()


def lets_through(known: Known) -> Sequence[Problem]:
    """What it would store, and tallygate calls wrong."""
    if known.view is not None:
        return pod_lets_through(known.view.pod, known.view.path, template=known.view.template)
    match known.judged:
        case Node():
            return node_lets_through(known.judged)
        case ResourceQuota():
            return quota_lets_through(known.judged)
        case LimitRange():
            return limit_range_lets_through(known.judged)
        case _:
            return ()
