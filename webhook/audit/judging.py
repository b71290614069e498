"""Judging what is stored: every object as the gate would judge its creation, and each mistake said once."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from webhook.accounting.amounts import Amounts
from webhook.accounting.problem import Problem
from webhook.accounting.quantity import QuantityError
from webhook.admission.capping import CapIndex, Counted
from webhook.admission.change import CREATE, Change, Phase
from webhook.admission.decide import decoded, judge
from webhook.admission.review import ReviewError
from webhook.admission.selection import Labels, RuleIndex
from webhook.admission.verdict import Verdict
from webhook.admission.workloads import TARGETS
from webhook.audit.finding import Finding, Subject
from webhook.audit.kept import Kept
from webhook.audit.kinds import POD, api_version
from webhook.audit.owners import STORED, Echo, Name, Owners, controller, echo
from webhook.gate.arithmetic import no_limit
from webhook.gate.foresight import WORKLOADS, foresee, workload
from webhook.gate.placing import Placing, Seen, judge_placing
from webhook.objects.meta import ObjectMeta
from webhook.policy.model import Enforcement, Foresight, PolicySet
from webhook.state.watch.columns import Place
from webhook.state.watch.shapes import Shape

MOST_REMARKS = 20
AT_ONCE = 50  # pods, of which each may have a shape of its own
_NOTHING = Amounts()

Said = tuple[Enforcement, Problem]


@dataclass(slots=True)
class Looked:
    """What was looked at: objects by kind, those left out by why, and what could not be judged."""

    judged: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    idle: int = 0
    spared: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    remarks: dict[str, None] = field(default_factory=dict)

    def remark(self, text: str) -> None:
        """Say something once, unless enough was said."""
        if len(self.remarks) < MOST_REMARKS:
            self.remarks[text] = None


class Nodes:
    """The nodes of a cluster without what is on them: whether pods can ever run, not whether they can now.

    What is stored has its place, or waits for one, which `tallygate predict` explains.
    """

    def __init__(self, placing: Placing) -> None:
        self._placing = placing

    @contextmanager
    def seen(self, *, pods: bool) -> Iterator[Seen | None]:  # noqa: ARG002  # a port's argument, by name
        """The nodes; None where they are not known."""
        with self._placing.seen(pods=False) as seen:
            yield None if seen is None else Seen(seen.cluster, seen.age, has_pods=False)


class Judging:
    """Judges objects one by one; owners must come before what they own, and pods last.

    `labels` gives those of a namespace, None where nobody knows them; `spared` are the namespaces that the gate is not
    asked about; `placing` knows the nodes.
    """

    def __init__(
        self,
        policies: PolicySet,
        labels: Callable[[str], Labels | None],
        spared: frozenset[str],
        placing: Placing | None = None,
    ) -> None:
        self.kept = Kept()
        self.looked = Looked()
        self.spared = spared
        self.caps = CapIndex(policies)
        self._rules = RuleIndex(policies)
        self._whys: Mapping[str, str] = {rule.name: rule.why for rule in policies.rules}
        self._labels = labels
        self._placing = Nodes(placing) if placing is not None and self._rules.places else None
        self._owners = Owners()

    def object(self, group: str, kind: str, item: msgspec.Raw) -> None:
        """Judge anything but a pod, as its JSON is stored."""
        try:
            stored = STORED.decode(item)
            meta = stored.meta
            if (meta.namespace or "") in self.spared:
                self.looked.spared[meta.namespace or ""] += 1
            elif stored.is_idle(kind):
                self.looked.idle += 1
            else:
                change = Change(kind, CREATE, item, group=group, namespace=meta.namespace or "", name=meta.name or "")
                self._tell(change, meta, list(self._said(change)))
        except (ReviewError, ValueError, RecursionError) as error:
            self._unreadable(f"a {kind} cannot be read: {error}")

    def pods(self, namespace: str, places: Sequence[Place], pace: Callable[[int], None]) -> None:
        """Judge the pods of a namespace, what they have in common once; `pace` is told how many more are done."""
        if namespace in self.spared:
            self.looked.spared[namespace] += len(places)
            return
        known: dict[Shape, _OfShape] = {}
        told: dict[tuple[str, Echo], Finding] = {}
        for number, place in enumerate(places, 1):
            if number % AT_ONCE == 0:
                pace(AT_ONCE)
            if place.has_ended:
                self.looked.ended += 1
                continue
            self.looked.judged["Pod"] += 1
            found = known.get(place.shape)
            if found is None:
                found = known[place.shape] = self._shape(namespace, place)
            self._tell_pod(place, found, told)

    def _said(self, change: Change) -> Iterator[Said]:
        """All that the gate would say to its creation and that does not depend on what else is there now."""
        labels = self._labels(change.namespace) if change.namespace else None
        # In this phase what a rule is about to fill in is not missing.
        verdict = judge(change, self._rules, labels, Phase.MUTATING)
        for remark in verdict.unknown:
            self.looked.remark(remark)
        yield from _of_verdict(verdict)
        if self._placing is not None and change.kind in WORKLOADS:
            yield from _of_verdict(judge_placing(change, self._rules, labels, self._placing))
        if self.caps and change.namespace:
            over = self.caps.over(change.namespace, labels)
            for name in over.unknown:
                self.looked.remark(
                    f"cap {name} was not asked about namespace {change.namespace}, whose labels are not known here"
                )
            for counted in over.caps:
                yield from _under(counted, change)

    def _tell(self, change: Change, meta: ObjectMeta, said: list[Said]) -> None:
        self.looked.judged[change.kind] += 1
        if not said:
            return
        owner = controller(meta)
        before = self._owners.echoes(change.namespace, owner)
        path = _path(change)
        echoes = {echo(problem, path): (enforcement, problem) for enforcement, problem in said}
        self._owners.said(Name(change.namespace, change.kind, change.name), frozenset(echoes) | before)
        subject = Subject(api_version(change.group), change.kind, change.namespace, change.name, meta.uid or "")
        for each, (enforcement, problem) in echoes.items():
            if each not in before:
                self.kept.add(self._finding(subject, enforcement, problem))

    def _shape(self, namespace: str, place: Place) -> "_OfShape":
        """What is said of all pods of a shape that was not said of their owner."""
        pod = place.shape.pod()
        owner = controller(pod.metadata or ObjectMeta())
        try:
            said = list(self._said(Change("Pod", CREATE, msgspec.json.encode(pod), namespace=namespace)))
        except (ReviewError, ValueError) as error:
            self._unreadable(f"pod {namespace}/{place.name} cannot be read: {error}")
            said = []
        before = self._owners.echoes(namespace, owner)
        return _OfShape(
            f"{owner.kind} {owner.name}" if owner else "",
            tuple((each, *one) for one in said if (each := echo(one[1], "")) not in before),
        )

    def _tell_pod(self, place: Place, found: "_OfShape", told: dict[tuple[str, Echo], Finding]) -> None:
        """Each pod that is nobody's by itself; of those of one owner the first, and how many more there are."""
        for each, enforcement, problem in found.said:
            same = told.get((found.owner, each)) if found.owner else None
            if same is not None:
                same.more += 1
                continue
            subject = Subject(api_version(""), "Pod", place.namespace, place.name, place.uid)
            finding = self._finding(subject, enforcement, problem)
            if found.owner:
                finding.owner = found.owner
                told[found.owner, each] = finding
            self.kept.add(finding)

    def _finding(self, subject: Subject, enforcement: Enforcement, problem: Problem) -> Finding:
        why = self._whys.get(problem.rule, "") if problem.by == "rule" else ""
        return Finding(subject, enforcement, problem, subject.namespace, why)

    def _unreadable(self, remark: str) -> None:
        self.looked.unreadable += 1
        self.looked.remark(remark)


class _OfShape(NamedTuple):
    """What is said of the pods of one shape, and who made them, empty for pods of nobody."""

    owner: str
    said: tuple[tuple[Echo, Enforcement, Problem], ...]


def _of_verdict(verdict: Verdict) -> Iterator[Said]:
    for problems, enforcement in (
        (verdict.problems, Enforcement.DENY),
        (verdict.warnings, Enforcement.WARN),
        (verdict.audits, Enforcement.AUDIT),
    ):
        for problem in problems:
            yield enforcement, problem


def _under(counted: Counted, change: Change) -> Iterator[Said]:
    """What one cap says that it will go on saying: a limit is missing, or so many pods can never have room."""
    found = TARGETS[change.group, change.kind]
    judged = decoded(found, change, change.object)
    view = found.view(judged)
    if view is None:
        return
    try:
        if (change.group, change.kind) == POD:
            for name, containers in counted.held(view.pod).unlimited.items():
                yield Enforcement.DENY, no_limit(counted.cap.name, name, containers)
            return
        asked = workload(change.kind, judged, view) if change.kind in WORKLOADS else None
        if asked is None or counted.cap.workloads is Foresight.IGNORE:
            return
        for each in foresee(asked, counted, counted.held, _NOTHING, _unknown):
            refused = each.final and counted.cap.workloads is Foresight.DENY
            yield Enforcement.DENY if refused else Enforcement.WARN, each.problem
    except QuantityError:
        return  # rules say so, and no API server stores it


def _unknown() -> None:
    """What is charged now: of what is stored already it is no matter."""


def _path(change: Change) -> str:
    found = TARGETS[change.group, change.kind]
    view = found.view(decoded(found, change, change.object))
    return view.path if view is not None else ""
