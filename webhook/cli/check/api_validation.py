"""The API server's validation of resources, the problems that it accepts, and the gate's patch.

The patch is applied first, since the API server validates the object with the filled requests.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from tallygate.webhook.accounting.kubernetes_codes import CLAIM_UNKNOWN, LIMIT_MISSING
from tallygate.webhook.accounting.lenient_codes import OPAQUE_LIMIT_MISSING
from tallygate.webhook.accounting.problem import Problem
from tallygate.webhook.accounting.validation.claims import validate_admin_access
from tallygate.webhook.accounting.validation.limit_ranges import (
    check_limit_range_strictly,
    find_device_defaults,
    validate_limit_range,
)
from tallygate.webhook.accounting.validation.node_and_quota import (
    check_node_strictly,
    check_quota_strictly,
    validate_node,
    validate_quota,
)
from tallygate.webhook.accounting.validation.pods import check_pod_strictly, validate_pod
from tallygate.webhook.admission.kinds import DecodedObject
from tallygate.webhook.admission.pod_view import PodView
from tallygate.webhook.admission.request import PatchOperation
from tallygate.webhook.objects.core import LimitRange, Node, ResourceQuota
from tallygate.webhook.objects.devices import ResourceClaim, ResourceClaimTemplate

_Fields = dict[str, msgspec.Raw]
_OF_OTHER_PARTS = frozenset({CLAIM_UNKNOWN.number, LIMIT_MISSING.number, OPAQUE_LIMIT_MISSING.number})
"""The codes of problems of which another part of a template may have the remedy."""


def apply_patch(body: bytes, patch: Sequence[PatchOperation]) -> bytes:
    """Return the object after the patch. The gate's patches only add (`webhook.admission.evaluate`)."""
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
    """Return the problems that the API server's own validation reports, after its defaulting.

    An API server does not validate the templates in objects of other projects: a controller creates pods of them, and
    then they are rejected. So their problems are those of the pods.
    """
    if views:
        return [
            problem
            for view in views
            for problem in _locate_problems(view, validate_pod(view.pod, "", template=view.is_template))
        ]
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


def _locate_problems(view: PodView, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a pod with their fields in the object.

    A template that is a part lacks what another object may have: claims, and limits of its requests.
    """
    for problem in problems:
        if view.is_partial and problem.code in _OF_OTHER_PARTS:
            continue
        yield replace(problem, field=view.locate(problem.field))


def find_accepted_problems(typed: DecodedObject, views: Sequence[PodView]) -> Sequence[Problem]:
    """Return the problems that the API server accepts and tallygate reports."""
    if views:
        return [
            problem
            for view in views
            for problem in _locate_problems(view, check_pod_strictly(view.pod, "", template=view.is_template))
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
