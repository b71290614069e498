"""Remarks: what lint says of one field of one policy, and how that becomes a finding."""

from typing import NamedTuple

from webhook.policy.finding import Finding, Severity
from webhook.policy.model import NamespaceCap, ResourceRule


class Remark(NamedTuple):
    """`field` is a path such as `spec.checks.perPod`, empty when the whole policy is meant."""

    field: str
    code: str
    severity: Severity
    text: str


def error(field: str, code: str, text: str) -> Remark:
    """What keeps the set from being used."""
    return Remark(field, code, Severity.ERROR, text)


def warning(field: str, code: str, text: str) -> Remark:
    """What is legal and probably a slip."""
    return Remark(field, code, Severity.WARNING, text)


def finding(policy: ResourceRule | NamespaceCap, remark: Remark) -> Finding:
    """The remark at the place of its field, with the policy's name."""
    kind = "rule" if isinstance(policy, ResourceRule) else "cap"
    field = f"{remark.field}: " if remark.field else ""
    message = f'{kind} "{policy.name}": {field}{remark.text}'
    return Finding.at(policy.place(remark.field), remark.code, remark.severity, message)
