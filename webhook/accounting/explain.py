"""The arithmetic of a pod's effective request as one line that a person can check.

`nvidia.com/gpu = max(containers 1 + 2, init step "warm" 4) + overhead 0 = 4`
"""

from collections.abc import Sequence

from webhook.accounting.asks import Role
from webhook.accounting.quantity import Quantity
from webhook.accounting.requests import Effective, Term

_ZERO = Quantity.of(0)


def explain(effective: Effective, name: str) -> str:
    """One resource's sum: who adds what, what is outdone, what replaces it, and the result."""
    terms = effective.terms(name)
    by_role = {role: [each for each in terms if each.role is role] for role in Role}
    parts = [_running(by_role[Role.CONTAINER], by_role[Role.SIDECAR]), *map(_step, by_role[Role.INIT])]
    parts = [part for part in parts if part]
    line = f"max({', '.join(parts)})" if len(parts) > 1 else "".join(parts) or "containers 0"
    for each in by_role[Role.POD]:
        line = f"pod level {each.quantity} (in place of {line})"
    for each in by_role[Role.OVERHEAD]:
        line += f" + overhead {each.quantity}" if each.counts else f" (overhead {each.quantity} not added: no limit)"
    return f"{name} = {line} = {effective.quantities.get(name, _ZERO)}"


def _running(containers: Sequence[Term], sidecars: Sequence[Term]) -> str:
    """What runs together: `containers 1 + 2 + sidecars 1`."""
    named = (("container", containers), ("sidecar", sidecars))
    return " + ".join(f"{noun}{'s' * (len(terms) > 1)} {_sum(terms)}" for noun, terms in named if terms)


def _sum(terms: Sequence[Term]) -> str:
    return " + ".join(each.quantity.text for each in terms)


def _step(step: Term) -> str:
    """One init step: `init step "warm" 4`, and what runs beneath it."""
    beneath = f" + sidecars {step.beneath} beneath" if step.beneath else ""
    return f'init step "{step.who}" {step.quantity}{beneath}'
