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
from webhook.cli.report.table import create_table, escape_control
from webhook.objects.core import Pod, PodSpec


@dataclass(frozen=True, slots=True)
class PodCalculation:
    """One pod's arithmetic. `title` is who it is, `place` where it is written, `field` where its spec stands."""

    title: str
    location: str
    field: str
    requests: EffectiveRequest
    limits: EffectiveRequest
    quota: Mapping[str, Quantity]

    def to_dict(self) -> dict[str, Any]:
        """Everything for a program; amounts are milli-cpu for cpu and whole units otherwise."""
        return {
            "object": self.title,
            "place": self.location,
            "field": self.field,
            "requests": _resources_to_dict(self.requests),
            "limits": _resources_to_dict(self.limits),
            "quota": {key: str(quantity) for key, quantity in sorted(self.quota.items())},
        }


def calculate_pod(title: str, location: str, field: str, pod: Pod) -> PodCalculation:
    """The arithmetic of a pod or template.

    Raises:
        QuantityError: one of its quantities is none.
    """
    spec = pod.spec or PodSpec()
    return PodCalculation(
        title, location, field, compute_pod_requests(spec), compute_pod_limits(spec), compute_quota_charge(pod, None)
    )


def render_calculation(calculation: PodCalculation) -> RenderableType:
    """The same for a person."""
    return Group(
        Text.assemble(
            (escape_control(calculation.title), "bold"),
            f"  {escape_control(calculation.location)}  {calculation.field}",
        ),
        _render_table("REQUEST", calculation.requests),
        _render_table("LIMIT", calculation.limits),
        create_table(
            ("QUOTA KEY", "CHARGE"), [(key, str(quantity)) for key, quantity in sorted(calculation.quota.items())]
        ),
        Text(),
    )


def _render_table(title: str, effective: EffectiveRequest) -> RenderableType:
    resources = sorted(effective.quantities)
    if not resources:
        return Text(f"no {title.lower()}")
    return create_table((title, "QUANTITY", "AMOUNT", "HOW"), [_create_row(name, effective) for name in resources])


def _create_row(name: str, effective: EffectiveRequest) -> tuple[str, str, str, str]:
    calculation = explain_request(effective, name).removeprefix(f"{name} = ")
    return name, str(effective.quantities[name]), _format_amount(name, effective), calculation


def _format_amount(name: str, effective: EffectiveRequest) -> str:
    return f"{effective.amounts[name]}{' milli-cpu' if is_milli(name) else ''}"


def _resources_to_dict(effective: EffectiveRequest) -> dict[str, Any]:
    return {
        name: {
            "quantity": str(quantity),
            "amount": effective.amounts[name],
            "unit": "milli" if is_milli(name) else "whole",
            "how": explain_request(effective, name),
            "terms": [_term_to_dict(term) for term in effective.list_terms(name)],
        }
        for name, quantity in sorted(effective.quantities.items())
    }


def _term_to_dict(term: RequestTerm) -> dict[str, Any]:
    return {
        "who": term.container,
        "role": term.role.value,
        "quantity": str(term.quantity),
        "beneath": str(term.sidecars),
        "counts": term.is_counted,
    }
