"""Integers that the scheduler counts with, from the quantities of pods and nodes.

This alone is shared with the product: what a quantity is, and what a pod requests.
"""

import json
from typing import Any

import msgspec

from tests.accounting.scheduling.reference.objects import Json, status_of
from webhook.accounting.amounts import round_up_to_unit
from webhook.accounting.names import is_scheduler_scalar
from webhook.accounting.pod_requests import compute_pod_requests
from webhook.accounting.quantity import Quantity
from webhook.objects.core import Pod, PodSpec

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def quantity(token: Any) -> Quantity:
    """A quantity as it stands in JSON; what is absent is zero."""
    return Quantity.from_json(json.dumps(token).encode())


def requested(pod: Json, *, on_node: bool) -> dict[str, int]:
    """What a pod counts for: Resource.Add of resourcehelper.PodRequests (framework/types.go CalculateResource).

    Only a pod on a node counts with its status too (computePodResourceRequest in
    framework/plugins/noderesources/fit.go does without).
    """
    typed = msgspec.json.decode(json.dumps(pod), type=Pod)
    amounts = compute_pod_requests(typed.spec or PodSpec(), typed.status if on_node else None).amounts
    return {name: each for name, each in amounts.items() if name in _COMPUTE or is_scheduler_scalar(name)}


def allocatable(node: Json) -> dict[str, int]:
    """NewResource(node.Status.Allocatable): what is absent is what capacity is (SetDefaults_NodeStatus)."""
    status = status_of(node)
    listed = status.get("capacity") if status.get("allocatable") is None else status["allocatable"]
    return {name: round_up_to_unit(name, quantity(each).round_up_to_milli()) for name, each in (listed or {}).items()}
