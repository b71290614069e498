"""What the API server says of resources, and what it should have said.

The rule of this package: one module for each subject; every function yields all problems at once, in the order of the
API server's own code and of the object's own keys, so that the same object always gives the same list. `field`,
`reason`, `detail` and `value` are Kubernetes' own; `message` is ours. Problems of the `…_lets_through` functions are
ours alone and have no `detail`.
"""

from webhook.accounting.validation.lenient import (
    check_limit_range_strictly,
    check_node_strictly,
    check_pod_strictly,
    check_quota_strictly,
)
from webhook.accounting.validation.limit_ranges import validate_limit_range
from webhook.accounting.validation.nodes import validate_node
from webhook.accounting.validation.pods import validate_pod
from webhook.accounting.validation.printing import format_cause_message
from webhook.accounting.validation.quotas import validate_quota

__all__ = [
    "check_limit_range_strictly",
    "check_node_strictly",
    "check_pod_strictly",
    "check_quota_strictly",
    "format_cause_message",
    "validate_limit_range",
    "validate_node",
    "validate_pod",
    "validate_quota",
]
