"""Whom a pod would drive out, and what is said otherwise, is what the plain transcription says."""

from typing import Any

from hypothesis import given, settings

from tests.accounting.scheduling import preemption_generators as draws
from tests.accounting.scheduling.clusters import pod_of
from tests.accounting.scheduling.deciding import Decided, attempt, decided, whole
from tests.accounting.scheduling.reference.scheduler import schedule
from tests.effort import examples
from webhook.accounting.cluster.cluster import Cluster

Json = dict[str, Any]


@settings(max_examples=examples(150))
@given(draws.nodes(), draws.settled(), draws.budgets(), draws.newcomers())
def test_room_is_made_where_the_plain_rules_say(
    nodes: list[Json], pods: list[Json], budgets: list[Json], pod: Json
) -> None:
    plain = schedule(nodes, pods, budgets, pod)
    assert decided(nodes, pods, budgets, pod) == Decided(plain.nodes, plain.nominated, plain.message)


@settings(max_examples=examples(100))
@given(draws.nodes(), draws.settled(), draws.budgets(), draws.newcomers())
def test_a_cluster_is_afterwards_as_it_was(nodes: list[Json], pods: list[Json], budgets: list[Json], pod: Json) -> None:
    cluster = whole(nodes, pods, budgets)
    before = _seen(cluster)
    attempt(pod_of(pod), cluster)
    assert _seen(cluster) == before


def _seen(cluster: Cluster) -> Json:
    """All that can be asked of a cluster, the order of pods on a node with it."""
    places = cluster.nodes.get_indices().tolist()
    shapes = {pod.group for pod in cluster.list_pods()}
    return {
        "pods": {place: list(cluster.get_node_pods(place)) for place in places},
        "promised": {place: set(waiting) for place, waiting in cluster.get_nominated_pods().items()},
        "used": {place: (dict(cluster.nodes.get_used(place)), cluster.nodes.pods[place]) for place in places},
        "shapes": {id(shape): (dict(shape.pod_counts), dict(shape.terminating_counts)) for shape in shapes},
        "ports": [
            {place: dict(taken) for place, taken in cluster.get_port_users(port).items()} for port in _ports(cluster)
        ],
        "mounting": dict(cluster.get_volume_counts()),
        "supposed": dict(cluster.fork_changes),
    }


def _ports(cluster: Cluster) -> list[Any]:
    return sorted({port for pod in cluster.list_pods() for port in pod.group.ports})
