"""The prediction of the pods of PodGroups beside the real scheduler: few here, hundreds by e2e.scheduling.groups."""

from itertools import islice

import pytest

from e2e.local.build import kubernetes_version
from e2e.scheduling.groups.comparison import find_differences, is_unknown
from e2e.scheduling.groups.drawn_groups import run_drawn_groups

_SEED = 2026
_CASES = 25


def test_the_prediction_says_nothing_else_about_the_pods_of_a_group(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--provider") != "local":
        pytest.skip("clusters are made and emptied here: that wants a control plane of its own")
    if not kubernetes_version().startswith("v1.37."):
        pytest.skip("the groups of other versions are not modelled")
    cases = [case for _, case in islice(run_drawn_groups(_SEED), _CASES)]
    placed = [any(result.node for result in case.results.values()) for case in cases]
    assert 0.2 < sum(placed) / _CASES < 0.8
    assert [line for case in cases for line in find_differences(case)] == []
    assert sum(map(is_unknown, cases)) < 0.1 * _CASES
