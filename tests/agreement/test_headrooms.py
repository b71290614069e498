"""Whatever the policies, the cluster and the pod: the server of asks counts the copies that `headroom` counts."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import event, given, settings

from tests.agreement.drawn import DrawnCase
from tests.agreement.headrooms import HEADROOM_CASES, compare_headroom
from tests.effort import examples


# at least 100 in `make test-slow`
@settings(max_examples=examples(400), deadline=None)
@given(HEADROOM_CASES)
def test_copies_by_a_server_of_asks_are_those_of_the_command_and_hide_what_is_others(case: DrawnCase) -> None:
    with TemporaryDirectory() as folder:
        copies = compare_headroom(case, Path(folder))
    event("copies fit" if copies else "no copy fits")
