"""Judging what is stored: every object as the gate would judge its creation, and each mistake said once."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from webhook.accounting.problem import Problem
from webhook.admission.capping import CapIndex
from webhook.admission.change import CREATE, Change
from webhook.admission.reading import decoded
from webhook.admission.review import ReviewError
from webhook.admission.selection import Labels
from webhook.admission.workloads import TARGETS
from webhook.audit.finding import Finding, Subject
from webhook.audit.kept import Kept
from webhook.audit.kinds import api_version
from webhook.audit.looked import Looked
from webhook.audit.owners import STORED, Echo, Name, Owners, controller, echo
from webhook.audit.saying import Said, Saying
from webhook.gate.scheduling_snapshot import SnapshotProvider
from webhook.objects.meta import ObjectMeta
from webhook.policy.model import Enforcement, PolicySet
from webhook.state.watch.columns import Place
from webhook.state.watch.shapes import Shape

AT_ONCE = 20  # pods, of which each may have a shape of its own


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
        placing: SnapshotProvider | None = None,
    ) -> None:
        self.kept = Kept()
        self.looked = Looked()
        self._spared = spared
        self._saying = Saying(policies, labels, placing, self.looked)
        self._whys: Mapping[str, str] = {rule.name: rule.why for rule in policies.rules}
        self._owners = Owners()

    @property
    def caps(self) -> CapIndex:
        """The caps of the policies."""
        return self._saying.caps

    def object(self, group: str, kind: str, item: msgspec.Raw) -> None:
        """Judge anything but a pod, as its JSON is stored."""
        try:
            stored = STORED.decode(item)
            meta = stored.meta
            if (meta.namespace or "") in self._spared:
                self.looked.spared[meta.namespace or ""] += 1
            elif stored.is_idle(kind):
                self.looked.idle += 1
            else:
                change = Change(kind, CREATE, item, group=group, namespace=meta.namespace or "", name=meta.name or "")
                self._tell(change, meta, list(self._saying.of(change)))
        except (ReviewError, ValueError, RecursionError) as error:
            self._unreadable(f"a {kind} cannot be read: {error}")

    def pods(self, namespace: str, places: Sequence[Place], pace: Callable[[int], None]) -> None:
        """Judge the pods of a namespace, what they have in common once; `pace` is told how many more are done."""
        if namespace in self._spared:
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

    def _tell(self, change: Change, meta: ObjectMeta, said: list[Said]) -> None:
        self.looked.judged[change.kind] += 1
        before = self._owners.echoes(change.namespace, controller(meta))
        path = _path(change) if said else ""
        echoes = {echo(problem, path): (enforcement, problem) for enforcement, problem in said}
        # What was said of its owner is said of what it owns, too: caps speak of a Deployment, not of its ReplicaSets.
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
            said = list(self._saying.of(Change("Pod", CREATE, msgspec.json.encode(pod), namespace=namespace)))
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
        why = self._whys.get(problem.rule, "") if problem.policy_kind == "rule" else ""
        return Finding(subject, enforcement, problem, subject.namespace, why)

    def _unreadable(self, remark: str) -> None:
        self.looked.unreadable += 1
        self.looked.remark(remark)


class _OfShape(NamedTuple):
    """What is said of the pods of one shape, and who made them, empty for pods of nobody."""

    owner: str
    said: tuple[tuple[Echo, Enforcement, Problem], ...]


def _path(change: Change) -> str:
    found = TARGETS[change.group, change.kind]
    view = found.view(decoded(found, change, change.object))
    return view.path if view is not None else ""
