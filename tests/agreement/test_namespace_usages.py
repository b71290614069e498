"""Whatever the policies and the cluster: the server of asks says of each namespace what the command says."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings

from tests.agreement.drawn import CASES, DrawnCase
from tests.agreement.namespace_usages import compare_usages
from tests.effort import examples


# at least 200 in `make test-slow`
@settings(max_examples=examples(700), deadline=None)
@given(CASES)
def test_usage_of_a_server_of_asks_is_that_of_the_command_and_hides_what_is_others(case: DrawnCase) -> None:
    with TemporaryDirectory() as folder:
        compare_usages(case, Path(folder))
