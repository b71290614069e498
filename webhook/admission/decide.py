"""Deciding: a change and the rules in force give a verdict.

On UPDATE only what changed is judged: what the stored object already broke in the same way does not stand in the way
of labelling, finishing or deleting it.
"""

import re

from webhook.accounting.name_rules import NameContext
from webhook.accounting.problem import Problem
from webhook.admission.change import CREATE, Change, Phase
from webhook.admission.examine import Found, Same, examine
from webhook.admission.fill import fill
from webhook.admission.reading import Reading, decoded
from webhook.admission.selection import Labels, RuleIndex, Selection
from webhook.admission.sites import Site, counted_name, sites
from webhook.admission.verdict import ALLOWED, PatchOperation, Verdict
from webhook.admission.workloads import Judged, PodView, Target
from webhook.policy.model import Enforcement

_STRICTEST_FIRST = (Enforcement.DENY, Enforcement.WARN, Enforcement.AUDIT)
_NUMBER = re.compile(r"(\d{1,18})", re.ASCII)  # a name may consist of more digits than Python would read as one int
_NO_LABELS: Labels = {}


def judge(change: Change, rules: RuleIndex, labels: Labels | None, phase: Phase) -> Verdict:
    """What the rules say of a change; `labels` are the namespace's, None where nobody knows them.

    Raises:
        ReviewError: the object is not of the kind it says it is.
    """
    return judge_read(Reading(change), rules, labels, phase)


def judge_read(reading: Reading, rules: RuleIndex, labels: Labels | None, phase: Phase) -> Verdict:
    """The same, for who reads the object too.

    Raises:
        ReviewError: the object is not of the kind it says it is.
    """
    change, found = reading.change, reading.target
    if found is None:
        return ALLOWED
    selection = rules.select(change.kind, change.namespace, labels)
    if not selection.rules and not selection.unknown:
        return ALLOWED
    return _Judgement(reading, found, selection).verdict(phase)


class _Judgement:
    """One change before one selection of rules."""

    def __init__(self, reading: Reading, found: Target, selection: Selection) -> None:
        self.reading = reading
        self.change = reading.change
        self.target = found
        self.selection = selection

    def verdict(self, phase: Phase) -> Verdict:
        judged = self.reading.judged(self.target)
        view = self.target.view(judged)
        selection = self._narrowed(judged, view)
        fills = phase is Phase.MUTATING and selection.fills
        if view is None or fills or selection.unknown or (alike := self.reading.likeness(view.pod)) is None:
            return self._examined(judged, view, selection, phase)
        if selection.faultless.get(alike):
            return ALLOWED
        verdict = self._examined(judged, view, selection, phase)
        if verdict is ALLOWED and self.change.old is None:
            selection.faultless.put(alike, value=True)
        return verdict

    def _examined(self, judged: Judged, view: PodView | None, selection: Selection, phase: Phase) -> Verdict:
        places = sites(judged, view)
        patch = self._patch(places, selection) if phase is Phase.MUTATING else ()
        filling = bool(patch)
        found = examine(places, view, selection, filling=filling)
        if found and self.change.old is not None:
            found = examine(places, view, selection, filling=filling, known=self._known())
        unknown = self._unknown(places) if selection.unknown else ()
        if not found:
            return Verdict(unknown=unknown, patch=patch) if unknown or patch else ALLOWED
        return sorted_out(found, unknown, patch)

    def _narrowed(self, judged: Judged, view: PodView | None) -> Selection:
        # What holds a template goes by the template's labels, as the pods made from it will.
        carrier = view.pod.metadata if view is not None else judged.metadata
        return self.selection.narrowed(self.change.user, (carrier.labels if carrier else None) or _NO_LABELS)

    def _known(self) -> frozenset[Same]:
        """What was so before: all of it, or the rest would be taken for new."""
        before = decoded(self.target, self.change, self.change.old)
        view = self.target.view(before)
        old = examine(sites(before, view), view, self._narrowed(before, view), filling=False, most=None)
        return frozenset(each.same for each in old)

    def _patch(self, places: list[Site], selection: Selection) -> tuple[PatchOperation, ...]:
        if not selection.fills:
            return ()
        if self.change.operation == CREATE:
            return tuple(fill(places, [], selection))
        if self.change.kind == "Pod" or self.change.old is None:
            return ()  # a stored pod's resources cannot be changed by a patch
        before = decoded(self.target, self.change, self.change.old)
        return tuple(fill(places, sites(before, self.target.view(before)), selection))

    def _unknown(self, places: list[Site]) -> tuple[str, ...]:
        """Say of each rule that would have something to check that it was not judged."""
        unjudged = Selection(self.selection.unknown, ())
        names = {
            counted_name(written) if site.place is NameContext.QUOTA else written
            for site in places
            for _, entries in site.lists
            for written in entries
        }
        concerned = {rule.name for name in names for rule in unjudged.plan(name).rules}
        return tuple(
            f"rule {name} was not judged: it selects namespaces by label, and the labels of namespace "
            f"{self.change.namespace} are not known here"
            for name in sorted(concerned)
        )


def sorted_out(found: list[Found], unknown: tuple[str, ...] = (), patch: tuple[PatchOperation, ...] = ()) -> Verdict:
    """What was found, by how strictly its rules are enforced."""
    by_enforcement: dict[Enforcement, list[Problem]] = {each: [] for each in Enforcement}
    said: set[tuple[str, str]] = set()
    for each in sorted(found, key=_by_path):
        # Several rules may mind the same thing; it is said once, for the strictest.
        if (what := (each.problem.field, each.problem.message)) not in said:
            said.add(what)
            by_enforcement[each.rule.enforcement].append(each.problem)
    problems = tuple(by_enforcement[Enforcement.DENY])
    return Verdict(
        problems=problems,
        warnings=tuple(by_enforcement[Enforcement.WARN]),
        audits=tuple(by_enforcement[Enforcement.AUDIT]),
        unknown=unknown,
        patch=() if problems else patch,
    )


def _by_path(found: Found) -> tuple[list[tuple[int, str]], int, Problem]:
    """Paths in reading order (containers[2] stands before containers[10]), then the strictest first."""
    parts = _NUMBER.split(found.problem.field)
    path = [(int(part), "") if index % 2 else (-1, part) for index, part in enumerate(parts)]
    return path, _STRICTEST_FIRST.index(found.rule.enforcement), found.problem
