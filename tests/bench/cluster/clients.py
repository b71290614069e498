"""The measured clients: `python -m tests.bench.cluster.clients ours|official KUBECONFIG`.

Each is a process that prints its figures as one line of JSON. The official client imports its models when an
annotation names one; the informers must not have them in memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kubernetes import client, config

from tallygate.kube.config import load_kubeconfig
from tallygate.kube.reflector import WatchTimeouts
from tallygate.server.controllers.informers import ClusterInformers
from tests.bench.cluster.synthetic import EVENTS, REVISION
from tests.state.informers.pods import GPU, cap

if TYPE_CHECKING:
    from collections.abc import Callable

_LISTED_PODS = 5_000  # pods that the official client lists; the figures are scaled


def get_cpu_seconds() -> float:
    """Return the processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def get_peak_mib() -> float:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_informers(kubeconfig: Path) -> dict[str, float]:
    """Run the informers: a list, a burst of changes, and counts of usage."""
    before, started = get_cpu_seconds(), time.monotonic()
    # This server answers no request for progress: it has lists and watches only.
    watch = ClusterInformers(load_kubeconfig(kubeconfig), WatchTimeouts(progress_interval=1e9))
    watch.start()
    stores = (watch.state.pods, watch.state.namespaces, watch.state.claims)
    _wait_until(lambda: all(store.revision is not None for store in stores))
    listed, seconds, peak = get_cpu_seconds() - before, time.monotonic() - started, get_peak_mib()
    _wait_until(lambda: watch.state.pods.revision == REVISION + EVENTS)
    changes = get_cpu_seconds() - before - listed
    gpus = cap(GPU, "pods")
    one = _measure_seconds(lambda: watch.state.pods.compute_usage(gpus, ["team-7-project-0007"]))
    everywhere = [row.name for row in watch.state.namespaces.list_records()]
    first = _measure_seconds(lambda: watch.state.pods.compute_usage(gpus, everywhere))
    again = _measure_seconds(lambda: watch.state.pods.compute_usage(gpus, everywhere))
    figures = {
        "cpu": listed, "seconds": seconds, "peak": peak, "peak_after": get_peak_mib(), "change": changes / EVENTS,
        "one": one, "all_first": first, "all": again, "pods": len(watch.state.pods),
        "shapes": watch.state.pods.group_count,
    }  # fmt: skip
    watch.stop()
    return figures


def run_official_client(kubeconfig: Path) -> dict[str, float]:
    """List pods with the official client into a dict."""
    config.load_kube_config(str(kubeconfig))
    api = client.CoreV1Api()
    pods: dict[str, object] = {}
    token = _add_page(api, pods, None)  # the first page also loads what the client needs
    before, peak_before, count_before = get_cpu_seconds(), get_peak_mib(), len(pods)
    while len(pods) < _LISTED_PODS:
        token = _add_page(api, pods, token)
    return {
        "cpu": get_cpu_seconds() - before,
        "grown": get_peak_mib() - peak_before,
        "base": peak_before,
        "pods": len(pods) - count_before,
    }


def _add_page(api: client.CoreV1Api, pods: dict[str, object], token: str | None) -> str | None:
    """Add one page to the dict; return the token of the next page."""
    listed = api.list_pod_for_all_namespaces(limit=500, _continue=token)
    pods |= {str(pod.metadata.uid): pod for pod in listed.items if pod.metadata}
    return listed.metadata._continue if listed.metadata else None  # noqa: SLF001  # the client's name for `continue`


def _wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def _measure_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this thread for some work."""
    started_at = time.thread_time()
    work()
    return time.thread_time() - started_at


if __name__ == "__main__":
    print(json.dumps({"ours": run_informers, "official": run_official_client}[sys.argv[1]](Path(sys.argv[2]))))
