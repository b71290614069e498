"""Applying the gate's own patch, so that what it fills in is there when the API server looks.

What Kubernetes says of an object's resources, and what it lets through though it should not.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

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
from webhook.admission.verdict import PatchOperation
from webhook.objects.core import LimitRange, Node, ResourceQuota

_Fields = dict[str, msgspec.Raw]


def apply_patch(body: bytes, patch: Sequence[PatchOperation]) -> bytes:
    """The object after the patch. The gate's patches only ever add (`webhook.admission.evaluate`)."""
    for operation in patch:
        steps = [_unescape(step) for step in operation["path"].split("/")[1:]]
        body = _add_value(body, steps, operation["value"])
    return body


def _add_value(body: bytes | msgspec.Raw, steps: list[str], value: Any) -> bytes:
    """One level of the object decoded, so that every number elsewhere stays as it was written."""
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
    """RFC 6901, section 4."""
    return step.replace("~1", "/").replace("~0", "~")


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
