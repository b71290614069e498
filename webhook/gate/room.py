"""Whether a workload's pods have room under one bound, a cap's or a ResourceQuota's, and how that is said."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.charge import Charge
from webhook.accounting.problem import Code, Problem, Reason
from webhook.admission.replicas import Replicas
from webhook.objects.core import Pod


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
        return times(hold(self.template).amounts, self.pods.count)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One thing that will happen; `final` when it will for as long as workload and cap are what they are."""

    problem: Problem
    final: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """What bounds the pods: how it is called, what it allows, the codes of what it says, and the cap, if it is one."""

    called: str
    hard: Amounts
    over: Code
    waits: Code
    rollout: Code
    cap: str = ""


Charged = Callable[[], Amounts | None]
"""What counts against the bound now, all pods together; None where that is not known."""


def foretold(asked: Workload, bound: Bound, each: Amounts, before: Amounts, charged: Charged) -> Iterator[Foreseen]:
    """What will become of the pods: of which each costs so much, and so much is counted already."""
    wanted = times(each, asked.pods.count)
    more = wanted.find_shortfall(before)
    for name in sorted(each.keys() & bound.hard.keys()):
        sight = _Sight(asked, bound, name, each[name])
        if wanted.get(name, 0) > bound.hard[name]:
            if name in more:
                yield sight.never()
        elif (rollout := sight.rollout()) is not None:
            yield rollout
        elif (name in more or sight.surges) and (now := charged()) is not None:
            yield from sight.waits(now.get(name, 0), more.get(name, 0))


def times(each: Amounts, count: int) -> Amounts:
    """What so many cost together."""
    return Amounts({name: amount * count for name, amount in each.items() if amount * count})


@dataclass(frozen=True, slots=True)
class _Sight:
    """One name under one bound."""

    asked: Workload
    bound: Bound
    name: str
    each: int

    @property
    def surges(self) -> bool:
        """Whether a rollout begins that starts new pods first."""
        return self.asked.rolls and self.asked.pods.surge > 0

    def never(self) -> Foreseen:
        hard, pods = self.bound.hard[self.name], self.asked.pods
        fit = hard // self.each
        end = f"{fit} of them can run at a time" if fit else "none of them can ever run"
        return self._foreseen(self.bound.over, f"{self._ask(pods.count)}, {self._bound()}: {end}", final=True)

    def rollout(self) -> Foreseen | None:
        """A rollout has no room for its first new pod, or for all that it would start at once."""
        pods, hard = self.asked.pods, self.bound.hard[self.name]
        ask, bound = self._ask_rolling(), self._bound()
        if pods.held and (pods.count + 1) * self.each > hard and (self.asked.rolls or self.asked.stored is None):
            text = f"{ask}, {bound}: a rollout can never go on, since maxUnavailable lets it end no old pod first"
            return self._foreseen(self.bound.rollout, text, final=self.asked.rolls)
        if self.surges and (pods.count + pods.surge) * self.each > hard:
            return self._foreseen(self.bound.rollout, f"{ask}, {bound}: it goes on only as old pods end", final=False)
        return None

    def waits(self, charged: int, more: int) -> Iterator[Foreseen]:
        """Not all of what is new has room at the moment, or of what a rollout starts first."""
        free = max(self.bound.hard[self.name] - charged, 0)
        left = f"{self._bound()} and has {format_amount(self.name, free)} free"
        if more > free:
            waiting = -(-(more - free) // self.each)
            text = (
                f"{self._ask(self.asked.pods.count)}, {left}: {waiting} wait{'s' * (waiting == 1)} until other pods end"
            )
            yield self._foreseen(self.bound.waits, text, final=False)
        elif self.surges and more + self.asked.pods.surge * self.each > free:
            starts_none = self.asked.pods.held and more + self.each > free
            end = "no new pod starts until others end" if starts_none else "it goes on only as pods end"
            yield self._foreseen(self.bound.rollout, f"{self._ask_rolling()}, {left}: {end}", final=False)

    def _ask(self, count: int) -> str:
        word = self.asked.pods.word if count != 1 else self.asked.pods.word.removesuffix("s")
        return (
            f"{count} {word} {'ask' if count != 1 else 'asks'} {format_amount(self.name, count * self.each)} "
            f"{self.name}"
        )

    def _ask_rolling(self) -> str:
        pods = self.asked.pods
        return f"with a rollout's {pods.surge} more, {self._ask(pods.count + pods.surge)}"

    def _bound(self) -> str:
        return f"{self.bound.called} allows {format_amount(self.name, self.bound.hard[self.name])}"

    def _foreseen(self, code: Code, text: str, *, final: bool) -> Foreseen:
        return Foreseen(Problem("", code.number, Reason.FORBIDDEN, text, rule=self.bound.cap, policy_kind="cap"), final)
