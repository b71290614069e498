"""Random draws from a seed."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeVar

_Face = TypeVar("_Face")


class Dice:
    """Random draws that are repeatable by seed; `about` are the features of the case."""

    def __init__(self, seed: str, about: frozenset[str] = frozenset()) -> None:
        self._random = Random(seed)  # noqa: S311  no secret is drawn
        self.about = about

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self._random.random() < probability

    def often(self, feature: str, background: float = 0.05, focus: float = 0.75) -> bool:
        """Return True mostly if the case has a feature, seldom otherwise."""
        return self.chance(focus if feature in self.about else background)

    def pick(self, faces: Sequence[_Face]) -> _Face:
        """Return one face."""
        return self._random.choice(faces)

    def pick_weighted(self, faces: Mapping[_Face, float]) -> _Face:
        """Return one face, by weight."""
        return self._random.choices(list(faces), list(faces.values()))[0]

    def sample(self, faces: Sequence[_Face], minimum: int, maximum: int) -> list[_Face]:
        """Return at least `minimum` and at most `maximum` different faces."""
        return self._random.sample(faces, min(len(faces), self._random.randint(minimum, max(minimum, maximum))))

    def count(self, minimum: int, maximum: int) -> int:
        """Return a number between `minimum` and `maximum`, both included."""
        return self._random.randint(minimum, maximum)
