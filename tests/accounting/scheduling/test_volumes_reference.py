"""The answer for pods with volumes agrees with the reference scheduler."""

from typing import Any

from hypothesis import given, settings
from hypothesis.strategies import sampled_from

from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tests.accounting.scheduling import storage_generators as draws
from tests.accounting.scheduling.product_scheduler import decide, mask_placement
from tests.accounting.scheduling.reference.scheduler import schedule
from tests.effort import examples

Json = dict[str, Any]


@settings(max_examples=examples(150))
@given(
    draws.nodes(),
    draws.existing_pods(),
    draws.storage_objects(),
    draws.incoming_pods(),
    sampled_from(MODELLED_VERSIONS),
)
def test_a_pod_with_volumes_gets_the_answer_of_the_reference(
    nodes: list[Json], pods: list[Json], others: list[Json], pod: Json, version: KubernetesVersion
) -> None:
    reference, product = schedule(nodes, pods, others, pod, version.minor), decide(nodes, pods, others, pod, version)
    assert (product.nodes, product.nominated) == (reference.nodes, reference.nominated)
    assert mask_placement(product.message) == mask_placement(reference.message)
