"""The controller that publishes the amounts of NodeResources on nodes, and keeps them there.

Only the leader writes. A changed node is compared at once, and every node once a minute: there a name is retained only
until its pods end. The number of requests is limited for each second; an error of one node delays this node alone.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tallygate.errors import TallygateError
from tallygate.gate.node_publisher import NodePublisher, NodeResult
from tallygate.kube.client import OBJECT_LIMITS, ApiClient, ClientConfig
from tallygate.kube.informer import Informer
from tallygate.policy.model import PolicySet
from tallygate.policy.node_resources import NodeResource
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.telemetry.node_resource_metrics import NodeResourceMetrics
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.informers.node_records import OWNED_NODE_CODEC, OwnedNodeStore
from tallygate.state.kubernetes.node_status_store import KubernetesNodeStatusStore
from tallygate.state.kubernetes.node_usage import NodeUsage, list_pod_pages

FIELD_MANAGER: Final = "tallygate-node-resources"
"""The field manager of the published amounts."""

_MAX_CALLS: Final = 20  # in a run, and a run rests for a second
_REST_SECONDS: Final = 1.0
_INTERVAL_SECONDS: Final = 5.0
_FULL_PERIOD_SECONDS: Final = 60.0
_FIRST_DELAY_SECONDS: Final = 2.0  # after an error of a node; it doubles with each further one
_LONGEST_DELAY_SECONDS: Final = 300.0
_MAX_DOUBLINGS: Final = 10
_MAX_LISTED: Final = 20  # problems in the readiness entry


@dataclass(frozen=True, slots=True)
class PublicationSchedule:
    """The policies that are active, whether this replica leads, and the monotonic time."""

    policies: Callable[[], PolicySet]
    is_leader: Callable[[], bool]
    monotonic: Callable[[], float]


@dataclass(slots=True)
class _Delay:
    """The errors of a node in succession, and the monotonic time of its next attempt."""

    errors: int = 0
    until: float = 0.0


class NodeResourceController:
    """The background part with the watch of the nodes and the worker that writes them."""

    def __init__(
        self, client_config: ClientConfig, schedule: PublicationSchedule, log: Logger, metrics: NodeResourceMetrics
    ) -> None:
        self._client = ApiClient(client_config, OBJECT_LIMITS, FIELD_MANAGER)
        self._schedule = schedule
        self._log = log
        self._metrics = metrics
        self._publisher = NodePublisher(
            KubernetesNodeStatusStore(self._client, FIELD_MANAGER), self._read_used, FIELD_MANAGER, schedule.monotonic
        )
        self._definitions: tuple[NodeResource, ...] | None = None  # of the last pass over all nodes; None: not leader
        self._full_pass_at = -math.inf
        self._results: dict[str, NodeResult] = {}
        self._delays: dict[str, _Delay] = {}
        metrics.results = self._results
        task = WorkerTask(
            name="node-resources",
            run=self._run_due,
            failure_log=FailureLog(
                partial(log.warning, "node-resources-failed"), partial(log.info, "node-resources-recovered")
            ),
            describe=self._describe,
            interrupt=self._client.close,
        )
        self._worker = Worker(task, WorkerPace(interval=lambda: _INTERVAL_SECONDS, rest=_REST_SECONDS))
        self._store = OwnedNodeStore(self._worker.wake, self._publisher.forget)
        self._informer = Informer(OWNED_NODE_CODEC, client_config, self._store.apply, self._store.__len__)

    def start(self) -> None:
        """Start the watch and the worker."""
        self._informer.start()
        self._worker.start()

    def stop(self) -> None:
        self._worker.stop()
        self._informer.stop()

    def check(self) -> ReadinessStatus:
        """Return a status that is always ready, with the problems."""
        return self._worker.check()

    def _describe(self) -> Mapping[str, object]:
        results = list(self._results.items())
        problems = [
            f"node {node}: {name}: {text}" for node, result in results for name, text in result.problems.items()
        ]
        retained = [
            f"node {node}: {name}: {used} stay, since pods use them"
            for node, result in results
            for name, used in result.retained.items()
        ]
        found = {"problems": sorted(problems)[:_MAX_LISTED], "retained": sorted(retained)[:_MAX_LISTED]}
        return {"leader": self._definitions is not None, **{name: texts for name, texts in found.items() if texts}}

    def _run_due(self) -> bool:
        """Compare the nodes that are due, and write those that differ, with at most `_MAX_CALLS` requests.

        Raises:
            TallygateError: if a node could not be written; all others were tried.
        """
        if not self._schedule.is_leader():
            self._definitions = None
            self._results.clear()
            return False
        if self._informer.get_status().stale:
            return False
        self._mark_due()
        calls, failures, later = 0, list[str](), list[str]()
        while calls < _MAX_CALLS and not self._worker.is_stopping:
            name = self._store.take_changed()
            if name is None:
                break
            delay = self._delays.get(name)
            if delay is not None and delay.until > self._schedule.monotonic():
                later.append(name)
                continue
            try:
                calls += self._reconcile(name, self._definitions or ())
            except TallygateError as error:
                calls += 1
                self._delay(name)
                later.append(name)
                failures.append(f"node {name}: {error}")
        for name in later:
            self._store.mark_changed(name)
        if calls >= _MAX_CALLS:
            self._worker.wake()
        if failures:
            more = f"; and {len(failures) - 1} more nodes" if len(failures) > 1 else ""
            raise TallygateError(f"{failures[0]}{more}")
        return True

    def _mark_due(self) -> None:
        """Mark all nodes as changed after a change of the policies or of the leader, and once a minute."""
        definitions = self._schedule.policies().node_resources
        now = self._schedule.monotonic()
        if definitions != self._definitions or now - self._full_pass_at >= _FULL_PERIOD_SECONDS:
            self._definitions, self._full_pass_at = definitions, now
            self._store.mark_all_changed()

    def _reconcile(self, name: str, definitions: tuple[NodeResource, ...]) -> int:
        node = self._store.find(name)
        if node is None:
            self._results.pop(name, None)
            self._delays.pop(name, None)
            return 0
        result = self._publisher.reconcile(node, definitions)
        self._delays.pop(name, None)
        self._log_changes(name, result)
        if result.published or result.retained or result.problems:
            self._results[name] = result
        else:
            self._results.pop(name, None)
        if result.writes:
            self._metrics.count_write("conflict" if result.is_conflict else "written")
        return result.calls

    def _log_changes(self, node: str, result: NodeResult) -> None:
        """Log the names with a new problem, and those that stay since pods use them."""
        last = self._results.get(node, NodeResult())
        for name in result.problems.keys() - last.problems.keys():
            self._log.warning("node-resource-problem", node=node, resource=name, message=result.problems[name])
        for name in last.problems.keys() - result.problems.keys():
            self._log.info("node-resource-problem-ended", node=node, resource=name)
        for name, used in result.retained.items():
            if last.retained.get(name) != used:
                self._log.warning("node-resource-retained", node=node, resource=name, used=used)

    def _delay(self, name: str) -> None:
        self._metrics.count_write("failed")
        delay = self._delays.setdefault(name, _Delay())
        seconds = min(_FIRST_DELAY_SECONDS * 2.0 ** min(delay.errors, _MAX_DOUBLINGS), _LONGEST_DELAY_SECONDS)
        delay.errors, delay.until = delay.errors + 1, self._schedule.monotonic() + seconds

    def _read_used(self, node: str, names: Collection[str]) -> Mapping[str, int]:
        usage = NodeUsage()
        for page in list_pod_pages(self._client, [node]):
            usage.add_page(page, names)
        return {name: usage.get_used(node, name) for name in names}
