"""What the prediction says beside the real scheduler, on cases drawn anew: few here, thousands by e2e.scheduling."""

from collections.abc import Iterator

import pytest

from e2e.scheduling.api import RefusedError
from e2e.scheduling.asked import Asked
from e2e.scheduling.asking import Asker, asker
from e2e.scheduling.compared import Answering, differences
from e2e.scheduling.draw.case import drawn
from e2e.scheduling.plane import plane
from tests.accounting.scheduling.deciding import decided
from tests.accounting.scheduling.reference.scheduler import schedule

_SEED = 2026
_CASES = 60


@pytest.fixture(scope="module")
def asking(pytestconfig: pytest.Config) -> Iterator[Asker]:
    """The real scheduler, on a control plane of its own, where nothing else changes what there is."""
    if pytestconfig.getoption("--provider") != "local":
        pytest.skip("clusters are made and emptied here: that wants a control plane of its own")
    with plane() as made, asker(made) as asks:
        yield asks


@pytest.fixture(scope="module")
def asked(asking: Asker) -> list[Asked]:
    """The cases, as far as the API server takes their pods."""
    cases = []
    for number in range(_CASES):
        try:
            cases.append(asking.ask(drawn(_SEED, number)))
        except RefusedError:
            continue
    return cases


def test_most_pods_are_taken_and_about_half_are_placed(asked: list[Asked]) -> None:
    assert len(asked) > 0.8 * _CASES
    assert 0.2 < sum(each.result.scheduled for each in asked) / len(asked) < 0.8


@pytest.mark.parametrize("answering", [decided, schedule], ids=["prediction", "plain transcription"])
def test_nothing_else_is_said_than_by_the_scheduler(asked: list[Asked], answering: Answering) -> None:
    assert [line for each in asked for line in differences(each, answering)] == []


def test_a_seed_and_a_number_draw_the_same_again() -> None:
    assert drawn(_SEED, 7) == drawn(_SEED, 7)
    assert drawn(_SEED, 7) != drawn(_SEED, 8)


def test_nothing_of_a_case_is_left_for_the_next(asking: Asker) -> None:
    """A crowded case between two asks of another changes nothing of what is said."""
    before = asking.ask(drawn(_SEED, 0))
    asking.ask(drawn(_SEED, 1))
    after = asking.ask(drawn(_SEED, 0))
    assert before.result.message == after.result.message
    assert before.result.feasible == after.result.feasible
    assert [len(each.pods) + len(each.objects) for each in (before, after)] == [
        len(before.pods) + len(before.objects)
    ] * 2
