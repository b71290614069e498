"""Chance, from a seed."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

_Face = TypeVar("_Face")


class Dice:
    """Random draws that a seed repeats; `about` are the features that the case is about."""

    def __init__(self, seed: str, about: frozenset[str] = frozenset()) -> None:
        self._random = Random(seed)  # noqa: S311  no secret is drawn
        self.about = about

    def chance(self, of: float) -> bool:
        """Whether something of this chance happens."""
        return self._random.random() < of

    def often(self, feature: str, background: float = 0.05, focus: float = 0.75) -> bool:
        """Whether a feature shows: mostly where the case is about it, seldom elsewhere."""
        return self.chance(focus if feature in self.about else background)

    def pick(self, faces: Sequence[_Face]) -> _Face:
        """One of them."""
        return self._random.choice(faces)

    def weighted(self, faces: Mapping[_Face, float]) -> _Face:
        """One of them, by weight."""
        return self._random.choices(list(faces), list(faces.values()))[0]

    def some(self, faces: Sequence[_Face], least: int, most: int) -> list[_Face]:
        """So many different ones."""
        return self._random.sample(faces, min(len(faces), self._random.randint(least, max(least, most))))

    def count(self, least: int, most: int) -> int:
        """A number in between, both included."""
        return self._random.randint(least, most)
