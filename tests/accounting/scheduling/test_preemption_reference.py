"""Preemption agrees with the reference scheduler, and leaves the cluster unchanged."""

from typing import Any

from hypothesis import given, settings
from hypothesis.strategies import sampled_from

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tests.accounting.scheduling import preemption_generators as draws
from tests.accounting.scheduling.clusters import decode_pod
from tests.accounting.scheduling.product_scheduler import attempt, create_full_cluster, decide, mask_placement
from tests.accounting.scheduling.reference.scheduler import schedule
from tests.effort import examples

Json = dict[str, Any]


@settings(max_examples=examples(150))
@given(draws.nodes(), draws.existing_pods(), draws.budgets(), draws.incoming_pods(), sampled_from(MODELLED_VERSIONS))
def test_preemption_agrees_with_the_reference(
    nodes: list[Json], pods: list[Json], budgets: list[Json], pod: Json, version: KubernetesVersion
) -> None:
    reference, product = (
        schedule(nodes, pods, budgets, pod, version.minor),
        decide(nodes, pods, budgets, pod, version),
    )
    assert (product.nodes, product.nominated) == (reference.nodes, reference.nominated)
    assert mask_placement(product.message) == mask_placement(reference.message)


@settings(max_examples=examples(100))
@given(draws.nodes(), draws.existing_pods(), draws.budgets(), draws.incoming_pods())
def test_preemption_leaves_the_cluster_unchanged(
    nodes: list[Json], pods: list[Json], budgets: list[Json], pod: Json
) -> None:
    cluster = create_full_cluster(nodes, pods, budgets)
    before = _describe(cluster)
    attempt(decode_pod(pod), cluster)
    assert _describe(cluster) == before


def _describe(cluster: Cluster) -> Json:
    """Return all readable state of a cluster, with the order of the pods on each node."""
    indices = cluster.nodes.get_indices().tolist()
    groups = {pod.group for pod in cluster.list_pods()}
    return {
        "pods": {index: list(cluster.get_node_pods(index)) for index in indices},
        "nominated": {index: set(nominated) for index, nominated in cluster.get_nominated_pods().items()},
        "used": {index: (dict(cluster.nodes.get_used(index)), cluster.nodes.pods[index]) for index in indices},
        "groups": {id(group): (dict(group.pod_counts), dict(group.terminating_counts)) for group in groups},
        "ports": [
            {index: dict(taken) for index, taken in cluster.get_port_users(port).items()} for port in _ports(cluster)
        ],
        "volumes": dict(cluster.get_volume_counts()),
        "changes": dict(cluster.fork_changes),
    }


def _ports(cluster: Cluster) -> list[Any]:
    return sorted({port for pod in cluster.list_pods() for port in pod.group.ports})
