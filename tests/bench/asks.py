"""The processor time and the memory of answers of `tallygate serve-ask`, in process, over the state of a large cluster.

The cluster has 100,000 pods in 5,000 namespaces, on 500 nodes with 8 devices each. Three caps count them: one of each
namespace, one shared by all, and one of each team. Between two answers 50 pods change.
"""

import gc
import json
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.device_hours import Grouping
from tallygate.answers.live_hours import HoursQuestion, LiveHours
from tallygate.cluster import kinds
from tallygate.cluster.cluster_state import ClusterState
from tallygate.kube.resource_codec import Changed, Replaced
from tallygate.objects.scheduling import SchedulingPod
from tallygate.objects.timed_pods import TimedPod
from tallygate.server.asking.answerer import Answerer, OpenedState
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_templates import PodTemplates
from tallygate.state.informers.scheduler_cache import SchedulerCache
from tests.answers.asked_clusters import read_manifests, read_policies

NODES: Final = 500
DEVICES: Final = 8
NAMESPACES: Final = 5_000
PODS: Final = 100_000
GPU: Final = "nvidia.com/gpu"
_PODS_OF_WORKLOAD: Final = 5
_REPEATS: Final = 20
POLICIES: Final = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: own}
spec: {namespaces: {include: ["*"]}, hard: {nvidia.com/gpu: 8, pods: 200, cpu: 400}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: everyone}
spec: {namespaces: {include: ["*"]}, shared: true, hard: {nvidia.com/gpu: 4000, cpu: 100000, memory: 100Ti}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: teams}
spec: {namespaces: {include: ["*"]}, groupBy: {label: team}, hard: {nvidia.com/gpu: 400}}
"""
MANIFEST: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ns-42}
spec:
  parallelism: 4
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1, cpu: 1, memory: 1Gi}}}]
"""
_WORKLOADS: Final = Grouping(by_workload=True)
_TERM: Final = "{topologyKey: zone, labelSelector: {matchLabels: {app: other}}}"
_APART: Final = f"""\
      affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{_TERM}]}}}}
"""


class LargeCluster:
    """The state as watches fill it, and changes of its pods. Each pod has a template of its workload."""

    def __init__(self, *, with_templates: bool = True) -> None:
        self.state = state = ClusterState(time.monotonic)
        state.pod_templates = PodTemplates() if with_templates else None
        self.cache = SchedulerCache(
            state.nodes, state.namespaces, state.device_classes, state.node_pools, state.node_claims
        )
        self._revision = 10
        self.hours = LiveHours(lambda: int(time.time()), state.device_classes.get_resources_by_class)
        self._replace("namespaces", [create_namespace(number) for number in range(NAMESPACES)])
        self._replace("nodes", [create_node(number) for number in range(NODES)])
        for each in ("resourcequotas", "limitranges", "priorityclasses", "runtimeclasses", "deviceclasses"):
            self._replace(each, [])
        for each in ("resourceclaims", "resourceclaimtemplates", "resourceslices"):
            self._replace(each, [])
        codec = self.cache.create_pod_codec(state.pods, state.pod_templates, has_times=True)
        self._create_record: Callable[[SchedulingPod], PodRecord] = codec.create_record
        self._apply(Replaced([self._decode(create_pod(number)) for number in range(PODS)], self._revision))

    def change(self, number: int) -> None:
        """Replace a pod by one with another amount, as the watch reports it."""
        self._revision += 1
        pod = create_pod(number)
        pod["metadata"]["resourceVersion"] = str(self._revision)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "250m" if self._revision % 2 else "500m"
        self._apply(Changed(self._decode(pod), self._revision))

    @contextmanager
    def open_state(self, _: float) -> Iterator[OpenedState]:
        """Yield the state, as `AskedCluster.open_state` does."""
        with self.cache.acquire(10.0) as cluster:
            assert cluster is not None
            self.state.columns = cluster
            cluster.now = now = datetime.now(UTC)
            yield OpenedState(self.state, now, self.hours)

    def _decode(self, pod: dict[str, Any]) -> PodRecord:
        return self._create_record(msgspec.json.decode(json.dumps(pod), type=TimedPod))

    def _apply(self, event: Any) -> None:
        self.state.pods.apply(event)
        self.cache.apply(event)
        if self.state.pod_templates is not None:
            self.state.pod_templates.apply(event)
            self.hours.apply_pods(event)

    def _replace(self, resource: str, items: list[dict[str, Any]]) -> None:
        codec, store = self.state.get_codec(resource), self.state.get_store(resource)
        decoded = (msgspec.json.decode(json.dumps(each), type=kinds.KINDS_BY_RESOURCE[resource].type) for each in items)
        store.apply(Replaced([codec.create_record(each) for each in decoded], self._revision))


def create_namespace(number: int) -> dict[str, Any]:
    """Return a namespace of one of 50 teams."""
    return {"metadata": _create_meta(f"ns-{number}", labels={"team": f"t-{number % 50}"})}


def create_node(number: int) -> dict[str, Any]:
    """Return a node."""
    allocatable = {"cpu": "256", "memory": "2Ti", "pods": "250", GPU: str(DEVICES)}
    return {"metadata": _create_meta(f"node-{number}"), "status": {"allocatable": allocatable}}


def create_pod(number: int) -> dict[str, Any]:
    """Return a pod; every tenth has a device, and every hundredth has no node."""
    namespace, workload = f"ns-{number % NAMESPACES}", number // NAMESPACES // _PODS_OF_WORKLOAD
    amounts = {"cpu": "500m", "memory": "1Gi"} | ({GPU: "1"} if number % 25 == 0 else {})
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"app-{workload}-abc",
        "uid": f"u-{namespace}-{workload}",
        "controller": True,
    }
    labels = {"app": f"app-{workload}", "pod-template-hash": "abc"}
    meta = _create_meta(f"app-{workload}-abc-{number}", namespace=namespace, labels=labels, ownerReferences=[owner])
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    spec = {"priority": 0, "containers": [container], "volumes": [{"name": f"kube-api-access-{number}"}]}
    where = {} if number % 100 == 1 else {"nodeName": f"node-{number % NODES}"}
    return {"metadata": meta, "spec": spec | where, "status": {"phase": "Running" if where else "Pending"}}


def _create_meta(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "5", **fields}


def read_memory() -> int:
    """Return the resident memory of this process in MiB."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # a file of the kernel
        return int(file.read().split()[1]) * resource.getpagesize() >> 20


def main() -> None:
    """Measure and print the figures."""
    before = read_memory()
    cluster = LargeCluster(with_templates=False)
    gc.collect()
    plain = read_memory() - before
    del cluster
    gc.collect()
    before = read_memory()
    cluster = LargeCluster()
    gc.collect()
    gc.freeze()
    whole = read_memory() - before
    policies = read_policies(POLICIES)
    answerer = Answerer(cluster.open_state, lambda: policies, time.monotonic)
    manifests = read_manifests(MANIFEST)
    apart = read_manifests(MANIFEST.replace("      restartPolicy", f"{_APART}      restartPolicy"))
    own, everything = VisibleNames(frozenset({"ns-42"}), nodes=False), VisibleNames()
    print("| answer | first CPU ms | p50 | max | bytes |\n| --- | ---: | ---: | ---: | ---: |")
    for name, answer in (
        ("usage of one's own namespace", lambda: answerer.answer_usage("ns-42", own)),
        ("usage, with all rights", lambda: answerer.answer_usage("ns-42", everything)),
        ("ask about a Job", lambda: answerer.answer(manifests, "ns-42", own)),
        ("hours of one's own namespace", lambda: answerer.answer_hours(HoursQuestion("ns-50", "workload", _WORKLOADS))),
        ("hours of all namespaces", lambda: answerer.answer_hours(HoursQuestion(None, "workload", _WORKLOADS))),
        ("copies of its pod", lambda: answerer.answer_headroom(manifests, "ns-42", own)),
        ("copies that are placed one by one", lambda: answerer.answer_headroom(apart, "ns-42", own)),
    ):
        print(f"| {name} | {_measure(cluster, answer)} |")
    print("\n| memory | MiB |\n| --- | ---: |")
    print(f"| the state without templates of pods | {plain} |\n| the state | {whole} |")
    print(f"| the state and kept sums | {read_memory() - before} |")


def _measure(cluster: LargeCluster, answer: Callable[[], bytes]) -> str:
    times = []
    for repeat in range(_REPEATS):
        for number in range(50):  # a cluster is never at rest
            cluster.change(repeat * 1000 + number * 7)
        begun = time.process_time()
        size = len(answer())
        times.append((time.process_time() - begun) * 1e3)
    first, *others = times
    return f"{first:.0f} | {statistics.median(others):.0f} | {max(others):.0f} | {size:,}"
