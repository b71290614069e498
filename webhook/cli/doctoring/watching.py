"""The replicas of the gate: their health and metrics, through the API server, or by the URL of a monitor port."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from webhook.cli.doctoring.api import Answer, Api, asked
from webhook.cli.doctoring.facts import Metrics, Replica, Sample, Unseen
from webhook.cli.doctoring.records import GatePod

_PORT, _PORT_NAME = 9090, "monitor"
_NOT_READY = 503
_LONGEST = 200
_Ask = Callable[[str], Answer | Unseen]


def in_cluster(api: Api, pods: Iterable[GatePod]) -> Iterator[Replica]:
    """Each pod's, through the API server's proxy; a pod that has ended is none."""
    for pod in pods:
        if pod.status.phase in {"Succeeded", "Failed"}:
            continue
        proxy = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.name}:{_port(pod)}/proxy"

        def ask(path: str, proxy: str = proxy) -> Answer | Unseen:
            return api.get(f"{proxy}{path}")

        yield _replica(pod.name, ask)


def elsewhere(monitors: tuple[str, ...]) -> Iterator[Replica]:
    """Those behind these URLs."""
    pool = urllib3.PoolManager()
    for url in monitors:

        def ask(path: str, url: str = url) -> Answer | Unseen:
            return asked(pool, "GET", f"{url.rstrip('/')}{path}", {"User-Agent": "tallygate-doctor"})

        yield _replica(url, ask)


def _port(pod: GatePod) -> int:
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == _PORT_NAME), _PORT)


def _replica(name: str, ask: _Ask) -> Replica:
    health = ask("/readyz")
    readiness = _readiness(health)
    if isinstance(readiness, Unseen):  # who does not answer takes half a minute for it: he is not asked again
        return Replica(name, readiness, readiness)
    ahead = None if isinstance(health, Unseen) else health.ahead
    return Replica(name, readiness, _metrics(ask("/metrics")), ahead)


def _is_health(answer: Answer) -> bool:
    return answer.is_ok or answer.status == _NOT_READY


def _readiness(answer: Answer | Unseen) -> dict[str, Any] | Unseen:
    """What `/readyz` says, ready or not. An API server that cannot reach a pod answers 503 too, with a Status."""
    if isinstance(answer, Unseen):
        return answer
    try:
        said = msgspec.json.decode(answer.body)
    except (ValueError, RecursionError):
        said = None
    if _is_health(answer) and isinstance(said, dict) and isinstance(said.get("checks"), dict):
        return said
    return answer.refusal()


def _metrics(answer: Answer | Unseen) -> Metrics | Unseen:
    if isinstance(answer, Unseen):
        return answer
    if not answer.is_ok:
        return answer.refusal()
    found = defaultdict[str, list[Sample]](list)
    try:
        for family in text_string_to_metric_families(answer.body.decode()):
            for sample in family.samples:
                found[sample.name].append(Sample(sample.labels, sample.value))
    except (ValueError, KeyError, IndexError) as error:
        return Unseen(f"what /metrics answers are no metrics: {error}"[:_LONGEST])
    return Metrics({name: tuple(samples) for name, samples in found.items()})
