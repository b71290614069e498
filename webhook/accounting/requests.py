"""The effective request of a pod: what it needs at its most demanding moment, and why.

Source: PodRequests and PodLimits in component-helpers resource/helpers.go, v1.36. This computation is part of the
Kubernetes API; scheduler, kubelet and quota all use it.
"""

from typing import NamedTuple

from webhook.accounting.amounts import Amounts, amount
from webhook.accounting.asks import PodAsk, Quantities, Role, add, aggregate, is_pod_level, read_pod
from webhook.accounting.quantity import Quantity
from webhook.accounting.resize import View, as_seen
from webhook.objects.pods import PodSpec, PodStatus

_ZERO = Quantity.of(0)


class Term(NamedTuple):
    """One figure in the sum.

    `who` is the container's name, empty for the pod level and overhead; `beneath` what sidecars use under an init
    step; `counts` whether the figure is part of the result, or is outdone by a larger one or replaced.
    """

    who: str
    role: Role
    quantity: Quantity
    beneath: Quantity
    counts: bool


class Effective:
    """What a pod needs, by resource.

    `quantities` are exact and print as Kubernetes prints them.
    """

    __slots__ = ("_ask", "_is_limits", "quantities")

    def __init__(self, ask: PodAsk, *, limits: bool) -> None:
        self._ask = ask
        self._is_limits = limits
        self.quantities: Quantities = _with_overhead(ask, _base(ask, limits=limits), limits=limits)

    @property
    def amounts(self) -> Amounts:
        """The scheduler's integers (milli-cpu, else whole units), rounded up once after summing."""
        return Amounts({name: amount(name, quantity) for name, quantity in self.quantities.items()})

    def terms(self, name: str) -> tuple[Term, ...]:
        """Every figure that a resource's sum is made of: containers, sidecars, init steps, pod level, overhead."""
        ask, limits = self._ask, self._is_limits
        replaced = is_pod_level(name) and name in (ask.limits if limits else ask.requests)
        running = _running(ask, name, limits=limits)
        steps = _steps(ask, name, limits=limits)
        total = sum((each.quantity for each in running), _ZERO)
        peak = max((each.quantity + each.beneath for each in steps), default=_ZERO)
        is_step = peak > total
        return (
            *[each._replace(counts=not replaced and not is_step) for each in running],
            *[
                each._replace(counts=not replaced and is_step and each.quantity + each.beneath == peak)
                for each in steps
            ],
            *self._pod_level_term(name, replaced=replaced),
            *self._overhead_term(name),
        )

    def _pod_level_term(self, name: str, *, replaced: bool) -> tuple[Term, ...]:
        listed = self._ask.limits if self._is_limits else self._ask.requests
        return (Term("", Role.POD, listed[name], _ZERO, counts=True),) if replaced else ()

    def _overhead_term(self, name: str) -> tuple[Term, ...]:
        if not self._ask.overhead:
            return ()
        overhead = self._ask.overhead.get(name, _ZERO)
        counts = not self._is_limits or bool(_base(self._ask, limits=True).get(name))
        return (Term("", Role.OVERHEAD, overhead, _ZERO, counts=counts),)


def pod_requests(spec: PodSpec, status: PodStatus | None = None) -> Effective:
    """What a pod of this spec requests, missing requests taken from limits first.

    With a status it is the scheduler's view of a pod on a node: a container that is being resized counts with the
    largest of what it asks for, was promised and has.

    Raises:
        QuantityError: one of its quantities is none.
    """
    return requests_of(as_seen(read_pod(spec), status, View.SCHEDULER))


def pod_limits(spec: PodSpec, status: PodStatus | None = None) -> Effective:
    """What a pod of this spec is limited to; a container without a limit adds nothing.

    Raises:
        QuantityError: one of its quantities is none.
    """
    return limits_of(as_seen(read_pod(spec), status, View.SCHEDULER))


def requests_of(pod: PodAsk) -> Effective:
    """The effective request of what was read already."""
    return Effective(pod, limits=False)


def limits_of(pod: PodAsk) -> Effective:
    """The effective limits of what was read already. Overhead is added to limits that are not zero only."""
    return Effective(pod, limits=True)


def _base(pod: PodAsk, *, limits: bool) -> dict[str, Quantity]:
    """Containers and init steps, with cpu, memory and hugepages replaced by what the pod level says."""
    total = aggregate(pod.containers, pod.init, limits=limits)
    for name, quantity in (pod.limits if limits else pod.requests).items():
        if is_pod_level(name):
            total[name] = quantity
    return total


def _with_overhead(pod: PodAsk, total: dict[str, Quantity], *, limits: bool) -> Quantities:
    if pod.overhead:
        add(total, {name: more for name, more in pod.overhead.items() if total.get(name)} if limits else pod.overhead)
    return total


def _running(pod: PodAsk, name: str, *, limits: bool) -> list[Term]:
    """Containers and sidecars, which run together."""
    together = (*pod.containers, *(each for each in pod.init if each.role is Role.SIDECAR))
    listed = [(each, each.limits if limits else each.requests) for each in together]
    return [Term(each.name, each.role, asked[name], _ZERO, counts=True) for each, asked in listed if name in asked]


def _steps(pod: PodAsk, name: str, *, limits: bool) -> list[Term]:
    """Init steps, each above the sidecars that were declared before it."""
    steps: list[Term] = []
    beneath = _ZERO
    for each in pod.init:
        asked = (each.limits if limits else each.requests).get(name)
        if each.role is Role.SIDECAR:
            beneath += asked or _ZERO
        elif asked is not None:
            steps.append(Term(each.name, each.role, asked, beneath, counts=True))
    return steps
