"""What Kubernetes says of an object's resources, and what it lets through though it should not."""

from collections.abc import Sequence

from webhook.accounting.problem import Problem
from webhook.accounting.validation.limit_ranges import check_limit_range_strictly, validate_limit_range
from webhook.accounting.validation.node_and_quota import (
    check_node_strictly,
    check_quota_strictly,
    validate_node,
    validate_quota,
)
from webhook.accounting.validation.pods import check_pod_strictly, validate_pod
from webhook.admission.kinds import DecodedObject, PodView
from webhook.objects.core import LimitRange, Node, ResourceQuota


def validate_object(typed: DecodedObject, view: PodView | None) -> Sequence[Problem]:
    """What the API server's own validation would refuse, after its defaulting."""
    if view is not None:
        return validate_pod(view.pod, view.path, template=view.is_template)
    match typed:
        case Node():
            return validate_node(typed)
        case ResourceQuota():
            return validate_quota(typed)
        case LimitRange():
            return validate_limit_range(typed)
        case _:
            return ()


def find_accepted_problems(typed: DecodedObject, view: PodView | None) -> Sequence[Problem]:
    """What it would store, and tallygate calls wrong."""
    if view is not None:
        return check_pod_strictly(view.pod, view.path, template=view.is_template)
    match typed:
        case Node():
            return check_node_strictly(typed)
        case ResourceQuota():
            return check_quota_strictly(typed)
        case LimitRange():
            return check_limit_range_strictly(typed)
        case _:
            return ()
