"""This simulation's power: each wrong part is found, and by what it does wrong alone."""

from pathlib import Path

import pytest

from tests.gate.simulation.running import play
from tests.gate.simulation.variants import VARIANTS

_CAPS = Path(__file__).parents[3] / "docs" / "caps.md"
_MOST = 1000
"""Schedules to look through when the one that is known to show it does so no more."""


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_part_is_found(name: str) -> None:
    variant = VARIANTS[name]
    found = None
    for seed in (variant.seed, *range(_MOST)):
        with variant.in_place():
            _, broken = play(variant.mix, seed)
        if broken is not None:
            found = seed
            break
    assert found is not None
    assert play(variant.mix, found)[1] is None, "the product itself breaks under this schedule too"


def test_the_document_tells_every_variant_and_no_other() -> None:
    told = [line.split(" | ")[:3] for line in _CAPS.read_text().splitlines() if line.startswith("| _`")]
    assert told == [[f"| _`{name}`_", str(variant.rule), variant.says] for name, variant in VARIANTS.items()]
