"""The replicas of the gate: their health and metrics, through the API server, or by the URL of a monitor port."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from webhook.cli.doctoring.api import ApiResponse, DoctorClient, send_request
from webhook.cli.doctoring.facts import MetricSample, Replica, ReplicaMetrics, Unavailable
from webhook.cli.doctoring.records import GatePod

_MONITOR_PORT, _MONITOR_PORT_NAME = 9090, "monitor"
_NOT_READY = 503
_MAX_MESSAGE_CHARACTERS = 200
_Send = Callable[[str], ApiResponse | Unavailable]


def probe_pods(api: DoctorClient, pods: Iterable[GatePod]) -> Iterator[Replica]:
    """Each pod's, through the API server's proxy; a pod that has ended is none."""
    for pod in pods:
        if pod.status.phase in {"Succeeded", "Failed"}:
            continue
        proxy = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.name}:{_find_monitor_port(pod)}/proxy"

        def send(path: str, proxy: str = proxy) -> ApiResponse | Unavailable:
            return api.get(f"{proxy}{path}")

        yield _probe_replica(pod.name, send)


def probe_monitors(monitors: tuple[str, ...]) -> Iterator[Replica]:
    """Those behind these URLs."""
    pool = urllib3.PoolManager()
    for url in monitors:

        def send(path: str, url: str = url) -> ApiResponse | Unavailable:
            return send_request(pool, "GET", f"{url.rstrip('/')}{path}", {"User-Agent": "tallygate-doctor"})

        yield _probe_replica(url, send)


def _find_monitor_port(pod: GatePod) -> int:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == _MONITOR_PORT_NAME), _MONITOR_PORT)


def _probe_replica(name: str, send: _Send) -> Replica:
    health_response = send("/readyz")
    readiness = _parse_readiness(health_response)
    if isinstance(readiness, Unavailable):  # who does not answer takes half a minute for it: he is not asked again
        return Replica(name, readiness, readiness)
    clock_offset = None if isinstance(health_response, Unavailable) else health_response.clock_offset
    return Replica(name, readiness, _parse_metrics(send("/metrics")), clock_offset)


def _is_health_response(response: ApiResponse) -> bool:
    return response.is_ok or response.status == _NOT_READY


def _parse_readiness(response: ApiResponse | Unavailable) -> dict[str, Any] | Unavailable:
    """What `/readyz` says, ready or not. An API server that cannot reach a pod answers 503 too, with a Status."""
    if isinstance(response, Unavailable):
        return response
    try:
        content = msgspec.json.decode(response.body)
    except (ValueError, RecursionError):
        content = None
    if _is_health_response(response) and isinstance(content, dict) and isinstance(content.get("checks"), dict):
        return content
    return response.create_unavailable()


def _parse_metrics(response: ApiResponse | Unavailable) -> ReplicaMetrics | Unavailable:
    if isinstance(response, Unavailable):
        return response
    if not response.is_ok:
        return response.create_unavailable()
    samples_by_name = defaultdict[str, list[MetricSample]](list)
    try:
        for family in text_string_to_metric_families(response.body.decode()):
            for sample in family.samples:
                samples_by_name[sample.name].append(MetricSample(sample.labels, sample.value))
    except (ValueError, KeyError, IndexError) as error:
        return Unavailable(f"what /metrics answers are no metrics: {error}"[:_MAX_MESSAGE_CHARACTERS])
    return ReplicaMetrics({name: tuple(samples) for name, samples in samples_by_name.items()})
