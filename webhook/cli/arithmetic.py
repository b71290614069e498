"""The arithmetic of a pod: what it asks for, what it is limited to, what a quota would charge, and how that adds up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from webhook.accounting.amounts import is_milli
from webhook.accounting.pod_requests import (
    EffectiveRequest,
    RequestTerm,
    compute_pod_limits,
    compute_pod_requests,
    explain_request,
)
from webhook.accounting.quantity import Quantity
from webhook.accounting.resource_quota import compute_quota_charge
from webhook.cli.report.table import harmless, table
from webhook.objects.core import Pod, PodSpec


@dataclass(frozen=True, slots=True)
class Sums:
    """One pod's arithmetic. `title` is who it is, `place` where it is written, `field` where its spec stands."""

    title: str
    place: str
    field: str
    requests: EffectiveRequest
    limits: EffectiveRequest
    quota: Mapping[str, Quantity]

    def as_data(self) -> dict[str, Any]:
        """Everything for a program; amounts are milli-cpu for cpu and whole units otherwise."""
        return {
            "object": self.title,
            "place": self.place,
            "field": self.field,
            "requests": _resources(self.requests),
            "limits": _resources(self.limits),
            "quota": {key: str(quantity) for key, quantity in sorted(self.quota.items())},
        }


def sums(title: str, place: str, field: str, pod: Pod) -> Sums:
    """The arithmetic of a pod or template.

    Raises:
        QuantityError: one of its quantities is none.
    """
    spec = pod.spec or PodSpec()
    return Sums(
        title, place, field, compute_pod_requests(spec), compute_pod_limits(spec), compute_quota_charge(pod, None)
    )


def render(shown: Sums) -> RenderableType:
    """The same for a person."""
    return Group(
        Text.assemble((harmless(shown.title), "bold"), f"  {harmless(shown.place)}  {shown.field}"),
        _table("REQUEST", shown.requests),
        _table("LIMIT", shown.limits),
        table(("QUOTA KEY", "CHARGE"), [(key, str(quantity)) for key, quantity in sorted(shown.quota.items())]),
        Text(),
    )


def _table(head: str, effective: EffectiveRequest) -> RenderableType:
    names = sorted(effective.quantities)
    if not names:
        return Text(f"no {head.lower()}")
    return table((head, "QUANTITY", "AMOUNT", "HOW"), [_row(name, effective) for name in names])


def _row(name: str, effective: EffectiveRequest) -> tuple[str, str, str, str]:
    how = explain_request(effective, name).removeprefix(f"{name} = ")
    return name, str(effective.quantities[name]), _amount(name, effective), how


def _amount(name: str, effective: EffectiveRequest) -> str:
    return f"{effective.amounts[name]}{' milli-cpu' if is_milli(name) else ''}"


def _resources(effective: EffectiveRequest) -> dict[str, Any]:
    return {
        name: {
            "quantity": str(quantity),
            "amount": effective.amounts[name],
            "unit": "milli" if is_milli(name) else "whole",
            "how": explain_request(effective, name),
            "terms": [_term(term) for term in effective.list_terms(name)],
        }
        for name, quantity in sorted(effective.quantities.items())
    }


def _term(term: RequestTerm) -> dict[str, Any]:
    return {
        "who": term.container,
        "role": term.role.value,
        "quantity": str(term.quantity),
        "beneath": str(term.sidecars),
        "counts": term.is_counted,
    }
