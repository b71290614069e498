"""Metrics of the publication of amounts on nodes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from tallygate.gate.node_publisher import NodeResult

WRITE_RESULTS: Final = ("written", "conflict", "failed")


class NodeResourceMetrics(Collector):
    """The metrics of the controller; `results` are the last results by node. Only the leader reports them."""

    def __init__(self, registry: CollectorRegistry, is_leader: Callable[[], bool]) -> None:
        self.results: Mapping[str, NodeResult] = {}
        self._is_leader = is_leader
        self._writes = Counter(
            "tallygate_node_resource_writes", "Writes of amounts of nodes, by result.", ("result",), registry=registry
        )
        for result in WRITE_RESULTS:
            self._writes.labels(result)
        registry.register(self)

    def count_write(self, result: str) -> None:
        """Count a write that was `written`, met a `conflict` with another client, or `failed`."""
        self._writes.labels(result).inc()

    def collect(self) -> Iterator[Metric]:
        """Yield the number of amounts by state."""
        amounts = GaugeMetricFamily(
            "tallygate_node_resource_amounts",
            "Amounts of NodeResources on nodes: published, retained while pods use them, or left with a problem.",
            labels=["state"],
        )
        if self._is_leader():
            results = list(self.results.values())
            amounts.add_metric(["published"], sum(result.published for result in results))
            amounts.add_metric(["retained"], sum(len(result.retained) for result in results))
            amounts.add_metric(["problem"], sum(len(result.problems) for result in results))
        yield amounts
