"""What is decided about pods with volumes is what the plain transcription decides."""

from typing import Any

from hypothesis import given, settings

from tests.accounting.scheduling import storage_generators as draws
from tests.accounting.scheduling.deciding import Decided, decided
from tests.accounting.scheduling.reference.scheduler import schedule
from tests.effort import examples

Json = dict[str, Any]


@settings(max_examples=examples(150))
@given(draws.nodes(), draws.settled(), draws.others(), draws.newcomers())
def test_a_pod_with_volumes_fits_where_the_plain_rules_say(
    nodes: list[Json], pods: list[Json], others: list[Json], pod: Json
) -> None:
    plain = schedule(nodes, pods, others, pod)
    assert decided(nodes, pods, others, pod) == Decided(plain.nodes, plain.nominated, plain.message)
