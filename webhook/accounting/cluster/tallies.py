"""How many pods that a selector selects are at each place: counted once, then kept up with what changes."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.accounting.cluster.labelled import Labelled
from webhook.accounting.cluster.shapes import Shape
from webhook.accounting.selectors import Selector

_MOST_TALLIES = 64
_MOST_CHANGES = 1000  # going through more would cost what counting anew does


class Tally:
    """Pods at each place: all of them, and those that are being deleted. `seen` changes are in it."""

    __slots__ = ("leaving", "pods", "seen")

    def __init__(self, shapes: Iterable[Shape], size: int, seen: int) -> None:
        listed = list(shapes)
        self.pods = _summed([each.on for each in listed], size)
        self.leaving = _summed([each.leaving for each in listed], size)
        self.seen = seen

    def grow(self, size: int) -> None:
        """Make it `size` long, with nobody at the places behind those that are there."""
        nobody = np.zeros(size - len(self.pods), dtype=np.int64)
        self.pods, self.leaving = np.concatenate([self.pods, nobody]), np.concatenate([self.leaving, nobody])


class _Change(NamedTuple):
    """So many pods more, or fewer, of one shape at one place."""

    shape: Shape
    place: int
    pods: int
    leaving: int


class Tallies:
    """Those that were asked for lately."""

    def __init__(self, labelled: Labelled) -> None:
        self._labelled = labelled
        self._kept: dict[tuple[Selector, frozenset[str] | None], Tally] = {}
        self._changes: list[_Change] = []

    def change(self, shape: Shape, place: int, pods: int, leaving: int) -> None:
        """Let those that are kept know of it: the shape's pods have changed by so many there."""
        if not self._kept:
            return
        if len(self._changes) == _MOST_CHANGES:
            self._kept.clear()
            self._changes.clear()
            return
        self._changes.append(_Change(shape, place, pods, leaving))

    def of(self, selector: Selector, namespaces: frozenset[str] | None, size: int) -> Tally:
        """The pods that a selector selects in these namespaces, None for all, at `size` places. Not to be changed."""
        tally = self._kept.pop((selector, namespaces), None)
        if tally is None:
            tally = Tally(self._labelled.matching(selector, namespaces), size, len(self._changes))
            if len(self._kept) == _MOST_TALLIES:
                del self._kept[next(iter(self._kept))]
        self._kept[selector, namespaces] = tally  # the last asked for stands last
        if len(tally.pods) < size:
            tally.grow(size)
        for each in self._changes[tally.seen :]:
            if (namespaces is None or each.shape.namespace in namespaces) and selector.matches(each.shape.labels):
                tally.pods[each.place] += each.pods
                tally.leaving[each.place] += each.leaving
        tally.seen = len(self._changes)
        return tally


def _summed(counted: list[Mapping[int, int]], size: int) -> NDArray[np.int64]:
    """How many are counted at each place, by all mappings together."""
    places = np.fromiter(chain.from_iterable(counted), dtype=np.intp)
    numbers = np.fromiter(chain.from_iterable(each.values() for each in counted), dtype=np.float64)
    return np.bincount(places, weights=numbers, minlength=size).astype(np.int64)
