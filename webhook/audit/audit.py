"""One audit: objects go through it, then pods as they are seen, then caps."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from webhook.audit.capping import Capping
from webhook.audit.judging import AT_ONCE, Judging
from webhook.audit.kept import Kept
from webhook.audit.kinds import NODE, ORDER, path
from webhook.audit.looked import Looked
from webhook.audit.pages import Pages
from webhook.gate.scheduling_snapshot import SnapshotProvider
from webhook.gate.usage_lister import UsageLister
from webhook.policy.model import PolicySet
from webhook.state.watch.columns import Place
from webhook.state.watch.namespaces import NamespaceView
from webhook.state.watch.view import PodView

Object = tuple[str, str, msgspec.Raw]
"""API group, kind and JSON."""


Pace = Callable[[int], None]
"""Is told that so many more objects are done, and says by when it returns how fast it goes on; may raise, to end it."""


@dataclass(frozen=True, slots=True)
class World:
    """A cluster as it is seen: its pods and namespaces, which have been listed, and its nodes where those are known.

    `placing` says nothing of what is on nodes: what is stored has its place, or waits for one, which `tallygate
    predict` explains.
    """

    pods: PodView
    namespaces: NamespaceView
    sight: UsageLister
    placing: SnapshotProvider | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """What is audited: these namespaces, or the whole cluster with its nodes and shared caps (None).

    `spared` are the namespaces that the gate is not asked about.
    """

    spared: frozenset[str]
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an audit has found, and in how many namespaces it looked."""

    kept: Kept
    looked: Looked
    namespaces: int


class Audit:
    """An audit by one policy set of one world."""

    def __init__(self, policies: PolicySet, world: World, scope: Scope, pace: Pace) -> None:
        self._world = world
        self._scope = scope
        self._pace = pace
        self._judging = Judging(policies, world.namespaces.labels, scope.spared, world.placing)

    def run(self, objects: Iterable[Object]) -> Outcome:
        """Judge these objects, which come in the order of `kinds.ORDER`, then pods and caps.

        Raises:
            AuditError: they cannot be listed.
            NotListedError: the pods are not known yet.
        """
        for group, kind, item in objects:
            self._judging.object(group, kind, item)
            self._pace(1)
        names = sorted(self._names())
        for name in names:
            places = sorted(self._world.pods.within(name), key=_by_name)  # so that the first of many stays the first
            self._judging.pods(name, places, self._pace)
            self._pace(len(places) % AT_ONCE)
        self._cap(frozenset(names))
        return Outcome(self._judging.kept, self._judging.looked, len(names))

    def _names(self) -> Iterable[str]:
        """The namespaces that are audited, those that are passed over among them."""
        there = (row.name for row in self._world.namespaces.rows())
        return there if self._scope.only is None else self._scope.only

    def _cap(self, names: frozenset[str]) -> None:
        capping = Capping(self._judging.caps, self._world.sight, self._world.pods)
        shared = self._scope.only is None
        for finding in capping.over(names - self._scope.spared, shared=shared):
            self._judging.kept.add(finding)
            self._pace(0)
        left = [counted.cap.name for counted in self._judging.caps.all() if counted.cap.shared]
        if not shared and left:
            self._judging.looked.remark(
                f"shared caps are added up over all their namespaces, and were not asked: {', '.join(left)}"
            )


def _by_name(place: Place) -> str:
    return place.name


def listed(pages: Pages, scope: Scope) -> Iterator[Object]:
    """Everything but pods that a cluster stores of what the gate judges, in order.

    Raises:
        AuditError: something cannot be listed.
    """
    for key in ORDER:
        group, kind = key
        for each in _paths(key, scope):
            for items in pages.of(each):
                for item in items:
                    yield group, kind, item


def _paths(key: tuple[str, str], scope: Scope) -> list[str]:
    if scope.only is None:
        return [path(key)]
    return [] if key == NODE else [path(key, name) for name in sorted(scope.only)]


def ordered(objects: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[Object]:
    """Objects that were taken from a file, with their kinds, brought into order; those of other kinds are left out."""
    by_kind: dict[str, list[msgspec.Raw]] = {}
    for kind, item in objects:
        by_kind.setdefault(kind, []).append(item)
    for group, kind in ORDER:
        for item in by_kind.get(kind, ()):
            yield group, kind, item
