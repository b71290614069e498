"""Applying the gate's own patch, so that what it fills in is there when the API server looks."""

from collections.abc import Sequence
from typing import Any

import msgspec

from webhook.admission.verdict import PatchOperation

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
