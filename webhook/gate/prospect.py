"""Newcomers before one cluster: what there is to find about where they can run, said for people."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from webhook.accounting.amounts import format_amount
from webhook.accounting.cluster.cluster import DEVICE_CLASS_PREFIX, Cluster
from webhook.accounting.fit.advertised import advertised, advertisers, is_advertised
from webhook.accounting.fit.answer import Answer, Kind, open_questions
from webhook.accounting.fit.everywhere import everywhere
from webhook.accounting.fit.filtering import Filtered, filtered
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.never import Never, never, ranked
from webhook.accounting.fit.shortage import Leaving, Shortage, shortage
from webhook.accounting.problem import Code, Problem, Reason
from webhook.admission.codes import NEVER_SCHEDULABLE, NOT_ADVERTISED, NOT_SCHEDULABLE_NOW, OTHERS_LEAVE
from webhook.admission.examine import Found
from webhook.gate.newcomers import Newcomers
from webhook.policy.model import Enforcement, ResourceRule, Schedulable
from webhook.policy.resolve import matches_resource
from webhook.policy.suggest import resource_meant

_PODS = "pods"
_MOST_NODES = 3
_MOST_PODS = 3
_MOST_NAMES = 200
_MOST_COPIES = 200
_MOST_TOGETHER = 20_000  # of words about nodes, in all copies together that have to be placed one by one


class Prospect:
    """A cluster as newcomers meet it; what several rules ask is found once. `words` is what it takes to place one.

    `strange` are the names they ask for that no node has, and no device class stands for as far as is known.
    """

    def __init__(self, newcomers: Newcomers, incoming: Incoming, cluster: Cluster, words: int) -> None:
        self._new = newcomers
        self._pod = incoming
        self._cluster = cluster
        self._words = words
        devices = cluster.device_classes
        self.strange = [
            name for name in incoming.requests if not is_advertised(cluster, name) and devices.find_class(name) is None
        ]

    def found(self, rules: Sequence[ResourceRule], *, now: bool) -> Iterator[Found]:
        """What the rules find, of how it is `now` too; that nothing runs which names what is not there needs no word.

        Nothing is found where there are no nodes, since none has come yet, nor of devices that are named by their class
        where there are no classes, which not every snapshot has.
        """
        by_class = any(name.startswith(DEVICE_CLASS_PREFIX) for name in self.strange)
        if not len(self._cluster.nodes) or (by_class and not len(self._cluster.device_classes)):
            return
        for rule in rules:
            unknown = self._unknown(rule) if rule.checks.advertised else ()
            for name in unknown:
                yield self._found(rule, NOT_ADVERTISED, self._advice(name), name)
            if rule.checks.schedulable and not unknown:
                yield from self._unschedulable(rule, now=now and rule.checks.schedulable is Schedulable.NOT_NOW)

    def _unknown(self, rule: ResourceRule) -> Sequence[str]:
        return [name for name in self.strange if matches_resource(rule.resources, name)]

    def _unschedulable(self, rule: ResourceRule, *, now: bool) -> Iterator[Found]:
        if now and self._fits:
            return
        if self._never:
            yield self._found(rule, NEVER_SCHEDULABLE, self._never)
        elif now and self._not_now:
            yield self._found(rule, NOT_SCHEDULABLE_NOW, self._not_now)
        elif now and self._others_leave:
            yield self._found(_not_denying(rule), OTHERS_LEAVE, self._others_leave)

    def _found(self, rule: ResourceRule, code: Code, message: str, name: str = "") -> Found:
        where = self._new.where().get(name, "") if name else ""
        reason = Reason.NOT_FOUND if name else Reason.FORBIDDEN
        problem = Problem(where or f"{self._new.path}spec", code.number, reason, message, rule=rule.name)
        return Found(problem, rule, (code.number, rule.name, name))

    def _advice(self, name: str) -> str:
        if name.startswith(DEVICE_CLASS_PREFIX):
            return f"there is no DeviceClass {name.removeprefix(DEVICE_CLASS_PREFIX)}, so that no node can run this"
        known = list(islice((each for each in advertised(self._cluster) if each != _PODS), _MOST_NAMES))
        meant = resource_meant(name, known)
        if meant is None:
            return f"no node advertises {name}, so that no node can run this"
        nodes = advertisers(self._cluster, meant, _MOST_NODES + 1)
        more = " and others" if len(nodes) > _MOST_NODES else ""
        verb = "advertise" if len(nodes) > 1 else "advertises"
        named = f"node{'s' * (len(nodes) > 1)} {', '.join(nodes[:_MOST_NODES])}{more}"
        return f"no node advertises {name}: did you mean {meant}? {named} {verb} it"

    @cached_property
    def _said(self) -> Filtered:
        """What nodes say to the first copy."""
        return filtered(self._pod, self._cluster)

    @property
    def _fits(self) -> bool:
        """Whether it is one pod, and some node takes it."""
        return self._new.copies == 1 and bool(len(self._said.fitting))

    @cached_property
    def _never(self) -> str:
        """Why no node can ever run them, or nothing."""
        if self._new.copies is None:
            said = self._everywhere
            hopeless = said.kind is Kind.NEVER and not said.placed and not said.unknown
            return f"no node that is to have this pod can ever run it: {_why(_sentence(said))}" if hopeless else ""
        found = never(self._pod, self._cluster)
        return f"no node can ever run this pod: {self._reason(found)}" if found else ""

    def _reason(self, found: Never) -> str:
        if not found.largest:
            return _why(found.sentence)
        asks = " and ".join(
            f"{format_amount(name, self._pod.requests[name])} {name}, {_most(name, largest)}"
            for name, largest in found.largest.items()
        )
        return f"it asks for {asks}"

    @cached_property
    def _not_now(self) -> str:
        """Why not all of them have room now, nor will have it made for them; or nothing."""
        short = self._short
        return f"{self._so_few(short)}: {_why(short.sentence)}" if short and short.leaving is None else ""

    @cached_property
    def _others_leave(self) -> str:
        """Who would be asked to leave for them, or nothing."""
        short = self._short
        if short is None or short.leaving is None:
            return ""
        leaving = self._who(short.leaving)
        return (
            f"{self._so_few(short)}; the scheduler can make room, by asking pods of lower priority to leave: {leaving}"
        )

    def _so_few(self, short: Shortage) -> str:
        if not self._new.words:
            return "no node has room for this pod now"
        fit = "fits" if short.placed == 1 else "fit"
        if self._new.copies is None:
            meant = self._everywhere.copies
            return f"only {short.placed} of {meant} nodes that are to have it have room for its pod now"
        of_all = f"of {self._new.copies} {self._new.words} {fit} now"
        return f"only {short.placed} {of_all}" if short.placed else f"none {of_all}"

    def _who(self, leaving: Leaving) -> str:
        """Whom it may be, by name as far as they are of the newcomers' own namespace."""
        own = sorted(each.name for each in leaving.pods if each.namespace == self._pod.namespace)
        named = own[:_MOST_PODS]
        others = len(leaving.pods) - len(named)
        if not named:
            return f"{others} of other namespaces on node {leaving.node}, for example"
        more = f" and {others} more" if others else ""
        return f"{', '.join(named)}{more} on node {leaving.node}, for example"

    @cached_property
    def _short(self) -> Shortage | None:
        """What of them has no room now; None where all have, and where that is not known."""
        if any(open_questions(self._pod, self._cluster)):
            return None
        copies = self._new.copies
        if copies is None:
            return _of_all_nodes(self._everywhere)
        if copies > min(_MOST_COPIES, _MOST_TOGETHER // max(self._words, 1)):
            return None
        return shortage(ranked(self._new.pod), self._pod, self._cluster, copies, self._said)

    @cached_property
    def _everywhere(self) -> Answer:
        return everywhere(ranked(self._new.pod), self._cluster)


def _of_all_nodes(said: Answer) -> Shortage | None:
    """What a pod for every node comes to: the first node that does not take it speaks for all."""
    if said.kind is Kind.NOW or said.unknown:
        return None
    chosen = said.verdict.preemption.chosen if said.verdict and said.verdict.preemption else None
    if said.verdict is None or chosen is None:
        return Shortage(said.placed, _sentence(said))
    return Shortage(said.placed, leaving=Leaving(said.verdict.nominated[0], chosen.victims))


def _not_denying(rule: ResourceRule) -> ResourceRule:
    """The rule, as it speaks of what is no reason to refuse anybody."""
    return replace(rule, enforcement=Enforcement.WARN) if rule.enforcement is Enforcement.DENY else rule


def _most(name: str, largest: int) -> str:
    return f"the largest node has {format_amount(name, largest)}" if largest else "no node has any"


def _sentence(said: Answer) -> str:
    return said.verdict.sentence if said.verdict else ""


def _why(sentence: str) -> str:
    return sentence.rstrip(".")
