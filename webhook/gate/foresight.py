"""What the caps will say to the pods of a workload, said when the workload is applied.

Kubernetes says it to the controller only, in an event on a ReplicaSet (kubernetes#96634). What is said here is a
forecast: nothing is promised, and every pod is still judged when it comes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from webhook.accounting.amounts import Amounts, shown
from webhook.accounting.caps import Charge
from webhook.accounting.problem import Code, Problem, Reason
from webhook.admission.capping import Counted
from webhook.admission.change import Change
from webhook.admission.codes import WORKLOAD_OVER_CAP, WORKLOAD_ROLLOUT, WORKLOAD_WAITS
from webhook.admission.decide import decoded
from webhook.admission.replicas import Replicas, replicas
from webhook.admission.workloads import KINDS, Judged, PodView, Target
from webhook.gate.arithmetic import no_limit
from webhook.objects.pods import Pod
from webhook.state.ledger import Ledger

WORKLOADS = KINDS - {"Pod", "PodTemplate", "Node", "ResourceQuota", "LimitRange"}
"""The kinds that make pods."""


class _Written(msgspec.Struct):
    """A template as it is written, to tell whether it is another."""

    template: msgspec.Raw = msgspec.Raw()


class _WithTemplate(msgspec.Struct):
    spec: _Written = msgspec.field(default_factory=_Written)


@dataclass(frozen=True, slots=True)
class Workload:
    """The pods of a workload, one of them, and where its template stands.

    `stored` is the template that it replaces, None when the workload is new; `rolls` when that is another.
    """

    pods: Replicas
    template: Pod
    path: str
    stored: Pod | None = None
    rolls: bool = False

    def costs(self, hold: Callable[[Pod], Charge]) -> Amounts:
        """What its pods cost together, when `hold` says what one does."""
        return _times(hold(self.template).amounts, self.pods.count)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One thing that will happen; `final` when it will for as long as workload and cap are what they are."""

    problem: Problem
    final: bool


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
    wanted = _times(charge.amounts, asked.pods.count)
    more = wanted.short_of(before)
    for name in sorted(charge.amounts.keys() & counted.hard.keys()):
        sight = _Sight(asked, counted, name, charge.amounts[name])
        if wanted.get(name, 0) > counted.hard[name]:
            if name in more:
                yield sight.never()
        elif (rollout := sight.rollout()) is not None:
            yield rollout
        elif name in more and (kept := ledger()) is not None:
            yield from sight.waits(kept.charged().get(name, 0), more[name])


@dataclass(frozen=True, slots=True)
class _Sight:
    """One name under one cap."""

    asked: Workload
    counted: Counted
    name: str
    each: int

    def never(self) -> Foreseen:
        hard, pods = self.counted.hard[self.name], self.asked.pods
        fit = hard // self.each
        end = f"{fit} of them can run at a time" if fit else "none of them can ever run"
        return self._foreseen(WORKLOAD_OVER_CAP, f"{self._ask(pods.count)}, {self._cap()}: {end}", final=True)

    def rollout(self) -> Foreseen | None:
        """A rollout has no room for its first new pod, or for all that it would start at once."""
        pods, hard = self.asked.pods, self.counted.hard[self.name]
        ask, cap = f"with a rollout's {pods.surge} more, {self._ask(pods.count + pods.surge)}", self._cap()
        if pods.held and (pods.count + 1) * self.each > hard and (self.asked.rolls or self.asked.stored is None):
            text = f"{ask}, {cap}: a rollout can never go on, since maxUnavailable lets it end no old pod first"
            return self._foreseen(WORKLOAD_ROLLOUT, text, final=self.asked.rolls)
        if pods.surge and self.asked.rolls and (pods.count + pods.surge) * self.each > hard:
            return self._foreseen(WORKLOAD_ROLLOUT, f"{ask}, {cap}: it goes on only as old pods end", final=False)
        return None

    def waits(self, charged: int, more: int) -> Iterator[Foreseen]:
        """Not all of what is new has room at the moment."""
        free = max(self.counted.hard[self.name] - charged, 0)
        if more <= free:
            return
        waiting = -(-(more - free) // self.each)
        ask, left = self._ask(self.asked.pods.count), shown(self.name, free)
        text = f"{ask}, {self._cap()} and has {left} free: {waiting} wait{'s' * (waiting == 1)} until other pods end"
        yield self._foreseen(WORKLOAD_WAITS, text, final=False)

    def _ask(self, count: int) -> str:
        word = self.asked.pods.word if count != 1 else self.asked.pods.word.removesuffix("s")
        return f"{count} {word} {'ask' if count != 1 else 'asks'} {shown(self.name, count * self.each)} {self.name}"

    def _cap(self) -> str:
        where = "shared by its namespaces" if self.counted.cap.shared else "of this namespace"
        return f"cap {self.counted.cap.name} {where} allows {shown(self.name, self.counted.hard[self.name])}"

    def _foreseen(self, code: Code, text: str, *, final: bool) -> Foreseen:
        cap = self.counted.cap.name
        return Foreseen(Problem("", code.number, Reason.FORBIDDEN, text, rule=cap, by="cap"), final)


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


def _times(each: Amounts, count: int) -> Amounts:
    return Amounts({name: amount * count for name, amount in each.items() if amount * count})
