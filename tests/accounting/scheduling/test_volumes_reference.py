"""The answer for pods with volumes agrees with the reference scheduler."""

from typing import Any

from hypothesis import given, settings

from tests.accounting.scheduling import storage_generators as draws
from tests.accounting.scheduling.product_scheduler import ProductAnswer, decide
from tests.accounting.scheduling.reference.scheduler import schedule
from tests.effort import examples

Json = dict[str, Any]


@settings(max_examples=examples(150))
@given(draws.nodes(), draws.existing_pods(), draws.storage_objects(), draws.incoming_pods())
def test_a_pod_with_volumes_gets_the_answer_of_the_reference(
    nodes: list[Json], pods: list[Json], others: list[Json], pod: Json
) -> None:
    reference = schedule(nodes, pods, others, pod)
    assert decide(nodes, pods, others, pod) == ProductAnswer(reference.nodes, reference.nominated, reference.message)
