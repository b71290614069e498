"""The simulation's power: each wrong variant is caught, and by what it does wrong alone."""

from pathlib import Path

import pytest

from tests.state.simulation.running import seeded
from tests.state.simulation.variants import VARIANTS

_CAPS = Path(__file__).parents[3] / "docs" / "caps.md"
_MOST = 3000
"""Schedules to look through when the one that is known to show it does so no more."""


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_is_caught(name: str) -> None:
    variant = VARIANTS[name]
    seeds = (variant.seed, *range(_MOST))
    caught = next((seed for seed in seeds if seeded(variant.scenario, seed, variant.rules)), None)
    assert caught is not None
    assert seeded(variant.scenario, caught) is None, "the product's own rules break under this schedule too"


def test_the_document_tells_every_variant_and_no_other() -> None:
    told = [line.split(" | ")[:3] for line in _CAPS.read_text().splitlines() if line.startswith("| `")]
    assert told == [[f"| `{name}`", str(variant.rule), variant.says] for name, variant in VARIANTS.items()]
