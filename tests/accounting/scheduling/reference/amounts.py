"""Integers that the scheduler counts with, from the quantities of pods and nodes.

Only the parser of quantities and the requests of pods are shared with the product.
"""

import json
from typing import Any

import msgspec

from tallygate.accounting.amounts import round_up_to_unit
from tallygate.accounting.names import is_scheduler_scalar
from tallygate.accounting.pod_requests import compute_pod_requests
from tallygate.accounting.quantity import Quantity
from tallygate.objects.core import Pod, PodSpec
from tests.accounting.scheduling.reference.objects import Json, get_status

_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def parse_quantity(token: Any) -> Quantity:
    """Parse a quantity from JSON; an absent one is zero."""
    return Quantity.from_json(json.dumps(token).encode())


def compute_requests(pod: Json, *, on_node: bool) -> dict[str, int]:
    """Return a pod's requests: Resource.Add of resourcehelper.PodRequests (framework/types.go CalculateResource).

    Only a pod on a node counts with its status too (computePodResourceRequest in
    framework/plugins/noderesources/fit.go does without).
    """
    typed = msgspec.json.decode(json.dumps(pod), type=Pod)
    amounts = compute_pod_requests(typed.spec or PodSpec(), typed.status if on_node else None).amounts
    return {name: each for name, each in amounts.items() if name in _COMPUTE or is_scheduler_scalar(name)}


def compute_allocatable(node: Json) -> dict[str, int]:
    """Return NewResource(node.Status.Allocatable); an absent list defaults to capacity (SetDefaults_NodeStatus)."""
    status = get_status(node)
    listed = status.get("capacity") if status.get("allocatable") is None else status["allocatable"]
    return {
        name: round_up_to_unit(name, parse_quantity(each).round_up_to_milli()) for name, each in (listed or {}).items()
    }
