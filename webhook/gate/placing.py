"""Whether newcomers can be placed: whether nodes have what they name, and are there for them ever, or now.

What `tallygate predict` says, by the same columns. Only what is known is held against a pod: where the cluster is not
known, or is known of too long ago, and where something about the pod cannot be judged, there is no verdict.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Protocol

from webhook.accounting.amounts import shown
from webhook.accounting.cluster import Cluster
from webhook.accounting.fit.advertised import advertised, advertisers, is_advertised
from webhook.accounting.fit.answer import Answer, Kind, answer
from webhook.accounting.fit.enough import is_enough, may_push_others
from webhook.accounting.fit.everywhere import everywhere
from webhook.accounting.fit.never import Never, never, ranked
from webhook.accounting.fit.room import visiting
from webhook.accounting.node_fit import counted
from webhook.accounting.problem import Code, Problem, Reason
from webhook.accounting.quantity import QuantityError
from webhook.accounting.selectors import SelectorError
from webhook.admission.change import Change
from webhook.admission.codes import NEVER_SCHEDULABLE, NOT_ADVERTISED, NOT_SCHEDULABLE_NOW
from webhook.admission.decide import sorted_out
from webhook.admission.examine import Found
from webhook.admission.selection import Labels, RuleIndex
from webhook.admission.verdict import ALLOWED, Verdict
from webhook.gate.newcomers import Newcomers, newcomers
from webhook.policy.model import ResourceRule, Schedulable
from webhook.policy.resolve import matches_resource
from webhook.policy.suggest import resource_meant

_PODS = "pods"
_BY_DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"  # k8s.io/api/resource/v1/types.go, v1.36
_MOST_NODES = 3
_MOST_NAMES = 200
_MOST_COPIES = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster as it was `age` seconds ago; without pods nothing is said of how it is now."""

    cluster: Cluster
    age: float = 0.0
    has_pods: bool = True


class Placing(Protocol):
    """Knows a cluster's nodes, and the pods on them."""

    def seen(self, *, pods: bool) -> AbstractContextManager[Seen | None]:
        """The cluster, for the caller alone until he leaves; None where it is not known to be so now.

        `pods` when it matters what is on the nodes.
        """
        ...


class Still:
    """A cluster that only one thread looks at, and that is as it says.

    Without `has_pods` nothing is said of how it is now.
    """

    def __init__(self, cluster: Cluster, *, has_pods: bool = True) -> None:
        self._cluster = cluster
        self._has_pods = has_pods

    @contextmanager
    def seen(self, *, pods: bool) -> Iterator[Seen | None]:
        """The cluster."""
        yield Seen(self._cluster, has_pods=pods and self._has_pods)


def judge_placing(change: Change, index: RuleIndex, labels: Labels | None, placing: Placing) -> Verdict:
    """What the rules say that ask whether there are nodes for the pods which a change brings.

    `labels` are its namespace's, None where nobody knows them.

    Raises:
        ReviewError: an object is not of the kind it says it is.
    """
    coming = newcomers(change) if index.places else None
    if coming is None:
        return ALLOWED
    carried = (coming.pod.metadata.labels if coming.pod.metadata else None) or {}
    selection = index.select(change.kind, change.namespace, labels).narrowed(change.user, carried)
    rules = placing_rules(selection.rules, coming)
    if not rules:
        return ALLOWED
    with placing.seen(pods=asks_for_pods(rules, coming)) as seen:
        return placed(rules, coming, seen) if seen is not None else ALLOWED


def asks_for_pods(rules: Sequence[ResourceRule], newcomers: Newcomers) -> bool:
    """Whether it matters for any of these rules what is on nodes now."""
    return not newcomers.wait and any(rule.checks.schedulable is Schedulable.NOT_NOW for rule in rules)


def placing_rules(rules: Sequence[ResourceRule], newcomers: Newcomers) -> Sequence[ResourceRule]:
    """Those of the rules that want newcomers placed, and are about something that these ask for."""
    asking = [rule for rule in rules if rule.checks.advertised or rule.checks.schedulable]
    if not asking:
        return ()
    try:
        names = [name for name, asked in counted(newcomers.pod).items() if asked > 0]
    except QuantityError:
        return ()  # the API server refuses it
    return [rule for rule in asking if any(matches_resource(rule.resources, name) for name in (_PODS, *names))]


def placed(rules: Sequence[ResourceRule], newcomers: Newcomers, seen: Seen) -> Verdict:
    """What these rules say of newcomers in a cluster; the cluster is as before afterwards."""
    try:
        found = list(_Prospect(newcomers, seen).found(rules))
    except (QuantityError, SelectorError):
        return ALLOWED  # the API server refuses it
    return replace(sorted_out(found), age=seen.age) if found else ALLOWED


class _Prospect:
    """Newcomers before one cluster; what several rules ask is found once."""

    def __init__(self, newcomers: Newcomers, seen: Seen) -> None:
        self._new = newcomers
        self._cluster = seen.cluster
        self._knows_now = seen.has_pods and not newcomers.wait
        self._asked = {name: asked for name, asked in counted(newcomers.pod).items() if asked > 0}

    def found(self, rules: Sequence[ResourceRule]) -> Iterator[Found]:
        """What the rules find; that nothing can run which names what no node has goes without saying.

        Nothing is found where there are no nodes (none has come yet), nor for devices that are named by their class.
        """
        if not len(self._cluster.nodes) or any(name.startswith(_BY_DEVICE_CLASS) for name in self._asked):
            return
        for rule in rules:
            unknown = self._unknown(rule) if rule.checks.advertised else ()
            for name in unknown:
                yield self._found(rule, NOT_ADVERTISED, self._advice(name), name)
            if rule.checks.schedulable and not unknown:
                yield from self._unschedulable(rule)

    def _unknown(self, rule: ResourceRule) -> Sequence[str]:
        return [name for name in self._unadvertised if matches_resource(rule.resources, name)]

    def _unschedulable(self, rule: ResourceRule) -> Iterator[Found]:
        if self._never:
            yield self._found(rule, NEVER_SCHEDULABLE, self._never)
        elif rule.checks.schedulable is Schedulable.NOT_NOW and self._not_now:
            yield self._found(rule, NOT_SCHEDULABLE_NOW, self._not_now)

    def _found(self, rule: ResourceRule, code: Code, message: str, name: str = "") -> Found:
        where = self._new.where.get(name, "") or f"{self._new.path}spec"
        reason = Reason.NOT_FOUND if name else Reason.FORBIDDEN
        return Found(Problem(where, code.number, reason, message, rule=rule.name), rule, (code.number, rule.name, name))

    @cached_property
    def _unadvertised(self) -> Sequence[str]:
        return [name for name in self._asked if not is_advertised(self._cluster, name)]

    def _advice(self, name: str) -> str:
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
    def _never(self) -> str:
        """Why no node can ever run them, or nothing."""
        if self._new.copies is None:
            said = self._answer
            hopeless = said is not None and said.kind is Kind.NEVER and not said.placed and not said.unknown
            return f"no node that is to have this pod can ever run it: {_why(said)}" if said and hopeless else ""
        found = never(self._new.pod, self._cluster)
        return f"no node can ever run this pod: {self._reason(found)}" if found else ""

    def _reason(self, found: Never) -> str:
        if not found.largest:
            return found.sentence.rstrip(".")
        asks = " and ".join(
            f"{shown(name, self._asked[name])} {name}, {_most(name, largest)}"
            for name, largest in found.largest.items()
        )
        return f"it asks for {asks}"

    @cached_property
    def _not_now(self) -> str:
        """Why not all of them have room now, or nothing; nothing too where others may be asked to leave for them."""
        said = self._answer if self._knows_now and not self._has_room else None
        if said is None or said.kind is Kind.NOW or said.unknown:
            return ""
        if not self._new.words:
            return f"no node has room for this pod now: {_why(said)}"
        what = f"{said.copies} {self._new.words if self._new.copies is not None else 'nodes that are to have it'}"
        fit = "fits" if said.placed == 1 else "fit"
        if self._new.copies is None:
            return f"only {said.placed} of {what} have room for its pod now: {_why(said)}"
        return f"{f'only {said.placed}' if said.placed else 'none'} of {what} {fit} now: {_why(said)}"

    @cached_property
    def _has_room(self) -> bool:
        """Whether all copies surely have room, or room may be made for them."""
        pod, copies = ranked(self._new.pod), self._new.copies
        enough = copies is not None and is_enough(pod, self._cluster, copies)
        return enough or may_push_others(pod, self._cluster)

    @cached_property
    def _answer(self) -> Answer | None:
        """The answer to all copies; None for more of them than anybody has time for."""
        pod, copies = ranked(self._new.pod), self._new.copies
        with visiting(self._cluster) as visit:
            if copies is None:
                return everywhere(pod, self._cluster, visit)
            return answer(pod, self._cluster, visit, copies) if copies <= _MOST_COPIES else None


def _most(name: str, largest: int) -> str:
    return f"the largest node has {shown(name, largest)}" if largest else "no node has any"


def _why(said: Answer) -> str:
    return said.verdict.sentence.rstrip(".") if said.verdict else ""
