"""What the caps will say to the pods of a workload, said when the workload is applied.

Kubernetes says it to the controller only, in an event on a ReplicaSet (kubernetes#96634). What is said here is a
forecast: nothing is promised, and every pod is still judged when it comes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge
from webhook.admission.capping import Counted
from webhook.admission.change import Change
from webhook.admission.codes import WORKLOAD_OVER_CAP, WORKLOAD_ROLLOUT, WORKLOAD_WAITS
from webhook.admission.reading import decoded
from webhook.admission.replicas import replicas
from webhook.admission.workloads import KINDS, Judged, PodView, Target
from webhook.gate.arithmetic import no_limit
from webhook.gate.room import Bound, Foreseen, Workload, foretold
from webhook.objects.core import Pod
from webhook.state.ledger import Ledger

WORKLOADS = KINDS - {"Pod", "PodTemplate", "Node", "ResourceQuota", "LimitRange"}
"""The kinds that make pods."""


class _Written(msgspec.Struct):
    """A template as it is written, to tell whether it is another."""

    template: msgspec.Raw = msgspec.Raw()


class _WithTemplate(msgspec.Struct):
    spec: _Written = msgspec.field(default_factory=_Written)


def workload(kind: str, judged: Judged, view: PodView | None) -> Workload | None:
    """The workload that an object is; None for what makes no pods, or makes them for another workload."""
    pods = replicas(kind, judged)
    if pods is None or view is None or _is_controlled(judged):
        return None
    return Workload(pods, view.pod, view.path)


def changed(change: Change, found: Target) -> tuple[Workload | None, Workload | None]:
    """The workload that a change makes and the one that it replaces.

    Raises:
        ReviewError: the object is not of the kind it says it is.
    """
    judged = decoded(found, change, change.object)
    new = workload(change.kind, judged, found.view(judged))
    if new is None or change.old is None:
        return new, None
    judged = decoded(found, change, change.old)
    before, view = workload(change.kind, judged, found.view(judged)), found.view(judged)
    rolls = _template(change.object) != _template(change.old)
    return replace(new, stored=view.pod if view else Pod(), rolls=rolls), before


def foresee(
    asked: Workload,
    counted: Counted,
    hold: Callable[[Pod], Charge],
    before: Amounts,
    ledger: Callable[[], Ledger | None],
) -> Iterator[Foreseen]:
    """What will become of the workload's pods under one cap.

    `hold` says what one pod costs, `before` is what the ledger counts of them already; `ledger` gives the ledger, or
    None where it is out of reach.
    """
    charge = hold(asked.template)
    if asked.pods.count:
        lacked = hold(asked.stored).unlimited if asked.stored else {}
        for name, containers in charge.unlimited.items():
            if new := tuple(each for each in containers if each not in lacked.get(name, ())):
                yield Foreseen(no_limit(counted.cap.name, name, new, asked.path), final=True)

    def charged() -> Amounts | None:
        kept = ledger()
        return None if kept is None else kept.charged()

    where = "shared by its namespaces" if counted.cap.shared else "of this namespace"
    codes = WORKLOAD_OVER_CAP, WORKLOAD_WAITS, WORKLOAD_ROLLOUT
    bound = Bound(f"cap {counted.cap.name} {where}", counted.hard, *codes, cap=counted.cap.name)
    yield from foretold(asked, bound, charge.amounts, before, charged)


def _is_controlled(judged: Judged) -> bool:
    """Whether a controller made it for a workload that was judged itself: nobody would read what is said."""
    owners = (judged.metadata.owner_references if judged.metadata else None) or ()
    return any(owner.controller for owner in owners)


def _template(raw: object) -> bytes:
    """The template's JSON; the API server writes equal objects alike."""
    try:
        return bytes(msgspec.json.decode(raw, type=_WithTemplate).spec.template)  # type: ignore[call-overload]  # bytes or Raw alike
    except msgspec.DecodeError:
        return b""
