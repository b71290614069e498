"""The API server's validation of resources, the problems that it accepts, and the gate's patch.

The patch is applied first, since the API server validates the object with the filled requests.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tallygate.accounting.problem import Problem
from tallygate.accounting.validation.claims import validate_admin_access
from tallygate.accounting.validation.limit_ranges import (
    check_limit_range_strictly,
    find_device_defaults,
    validate_limit_range,
)
from tallygate.accounting.validation.node_and_quota import (
    check_node_strictly,
    check_quota_strictly,
    validate_node,
    validate_quota,
)
from tallygate.accounting.validation.pods import check_pod_strictly
from tallygate.admission.created_pods import locate_problems, validate_views
from tallygate.admission.kinds import DecodedObject
from tallygate.admission.pod_view import PodView
from tallygate.admission.request import PatchOperation
from tallygate.objects.core import LimitRange, Node, ResourceQuota
from tallygate.objects.devices import ResourceClaim, ResourceClaimTemplate

_Fields = dict[str, msgspec.Raw]


def apply_patch(body: bytes, patch: Sequence[PatchOperation]) -> bytes:
    """Return the object after the patch. The gate's patches only add (`tallygate.admission.evaluate`)."""
    for operation in patch:
        steps = [_unescape(step) for step in operation["path"].split("/")[1:]]
        body = _add_value(body, steps, operation["value"])
    return body


def _add_value(body: bytes | msgspec.Raw, steps: list[str], value: Any) -> bytes:
    """Return the body with the value added; decode one level at a time, so that other numbers stay as written."""
    if not steps:
        return msgspec.json.encode(value)
    step, *rest = steps
    if step.isdecimal():
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
        items[int(step)] = msgspec.Raw(_add_value(items[int(step)], rest, value))
        return msgspec.json.encode(items)
    fields = msgspec.json.decode(body, type=_Fields)
    fields[step] = msgspec.Raw(_add_value(fields.get(step, msgspec.Raw(b"{}")), rest, value))
    return msgspec.json.encode(fields)


def _unescape(step: str) -> str:
    """Replace the escapes of RFC 6901, section 4."""
    return step.replace("~1", "/").replace("~0", "~")


def validate_object(typed: DecodedObject, views: Sequence[PodView]) -> Sequence[Problem]:
    """Return the problems that the API server's own validation reports, after its defaulting."""
    if views:
        return validate_views(views)
    match typed:
        case Node():
            return validate_node(typed)
        case ResourceQuota():
            return validate_quota(typed)
        case LimitRange():
            return validate_limit_range(typed)
        case _:
            return ()


def validate_admin_access_of(
    typed: DecodedObject, namespace: str, labels: Mapping[str, str] | None
) -> Sequence[Problem]:
    """Return the problems of a new claim or template with admin access, if the labels of its namespace are known."""
    if labels is None or not isinstance(typed, ResourceClaim | ResourceClaimTemplate):
        return ()
    return validate_admin_access(typed, namespace, labels)


def find_accepted_problems(typed: DecodedObject, views: Sequence[PodView]) -> Sequence[Problem]:
    """Return the problems that the API server accepts and tallygate reports."""
    if views:
        return [
            problem
            for view in views
            for problem in locate_problems(view, check_pod_strictly(view.pod, "", template=view.is_template))
        ]
    match typed:
        case Node():
            return check_node_strictly(typed)
        case ResourceQuota():
            return check_quota_strictly(typed)
        case LimitRange():
            return [*check_limit_range_strictly(typed), *find_device_defaults(typed)]
        case _:
            return ()
