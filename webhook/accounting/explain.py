"""The arithmetic of a pod's effective request as one line that a person can check.

`nvidia.com/gpu = max(containers 1 + 2, init step "warm" 4) + overhead 0 = 4`
"""

from collections.abc import Sequence

from webhook.accounting.asks import ContainerRole
from webhook.accounting.quantity import Quantity
from webhook.accounting.requests import EffectiveRequest, RequestTerm

_ZERO_QUANTITY = Quantity.from_int(0)


def explain_request(request: EffectiveRequest, name: str) -> str:
    """One resource's sum: who adds what, what is outdone, what replaces it, and the result."""
    terms = request.list_terms(name)
    by_role = {role: [each for each in terms if each.role is role] for role in ContainerRole}
    parts = [
        _format_running_terms(by_role[ContainerRole.CONTAINER], by_role[ContainerRole.SIDECAR]),
        *map(_format_init_step, by_role[ContainerRole.INIT]),
    ]
    parts = [part for part in parts if part]
    line = f"max({', '.join(parts)})" if len(parts) > 1 else "".join(parts) or "containers 0"
    for term in by_role[ContainerRole.POD]:
        line = f"pod level {term.quantity} (in place of {line})"
    for term in by_role[ContainerRole.OVERHEAD]:
        line += (
            f" + overhead {term.quantity}" if term.is_counted else f" (overhead {term.quantity} not added: no limit)"
        )
    return f"{name} = {line} = {request.quantities.get(name, _ZERO_QUANTITY)}"


def _format_running_terms(containers: Sequence[RequestTerm], sidecars: Sequence[RequestTerm]) -> str:
    """What runs together: `containers 1 + 2 + sidecars 1`."""
    role_terms = (("container", containers), ("sidecar", sidecars))
    return " + ".join(f"{noun}{'s' * (len(terms) > 1)} {_format_sum(terms)}" for noun, terms in role_terms if terms)


def _format_sum(terms: Sequence[RequestTerm]) -> str:
    return " + ".join(each.quantity.text for each in terms)


def _format_init_step(step: RequestTerm) -> str:
    """One init step: `init step "warm" 4`, and what runs beneath it."""
    sidecars = f" + sidecars {step.sidecars} beneath" if step.sidecars else ""
    return f'init step "{step.container}" {step.quantity}{sidecars}'
