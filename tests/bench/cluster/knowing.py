"""The processes that are measured: `python -m tests.bench.cluster.knowing ours|official KUBECONFIG`.

Each prints one line of JSON with what it took.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kubernetes import client, config

from tests.bench.cluster import made_up
from tests.state.informers.pods import GPU, cap
from webhook.kube.config import load_kubeconfig
from webhook.kube.reflector import WatchTimeouts
from webhook.state.informers.cluster_informers import ClusterInformers

_LISTED = 5_000  # pods that the official client is asked for; the rest is scaled


def cpu() -> float:
    """Processor seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak() -> float:
    """The most memory it ever held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(kubeconfig: Path) -> dict[str, float]:
    """Follow the cluster: list, then a burst of changes, then count."""
    before, started = cpu(), time.monotonic()
    # Nobody asks where this cluster is: it only plays lists and watches.
    watch = ClusterInformers(load_kubeconfig(kubeconfig), WatchTimeouts(progress_interval=1e9))
    watch.start()
    _until(lambda: watch.pods.revision is not None and watch.namespaces.revision is not None)
    listed, seconds, most = cpu() - before, time.monotonic() - started, peak()
    _until(lambda: watch.pods.revision == made_up.REVISION + made_up.EVENTS)
    changes = cpu() - before - listed
    gpus = cap(GPU, "pods")
    one = _seconds(lambda: watch.pods.compute_usage(gpus, ["team-7-project-0007"]))
    everywhere = [row.name for row in watch.namespaces.list_records()]
    first = _seconds(lambda: watch.pods.compute_usage(gpus, everywhere))
    again = _seconds(lambda: watch.pods.compute_usage(gpus, everywhere))
    figures = {
        "cpu": listed, "seconds": seconds, "peak": most, "peak_after": peak(), "change": changes / made_up.EVENTS,
        "one": one, "all_first": first, "all": again, "pods": len(watch.pods), "shapes": watch.pods.group_count,
    }  # fmt: skip
    watch.stop()
    return figures


def official(kubeconfig: Path) -> dict[str, float]:
    """List pods with the official client into a dict."""
    config.load_kube_config(str(kubeconfig))
    api = client.CoreV1Api()
    pods: dict[str, object] = {}
    token = _more(api, pods, None)  # the first page also loads what the client needs
    before, held, had = cpu(), peak(), len(pods)
    while len(pods) < _LISTED:
        token = _more(api, pods, token)
    return {"cpu": cpu() - before, "grown": peak() - held, "base": held, "pods": len(pods) - had}


def _more(api: client.CoreV1Api, pods: dict[str, object], token: str | None) -> str | None:
    """One more page into the dict."""
    listed = api.list_pod_for_all_namespaces(limit=500, _continue=token)
    pods |= {str(pod.metadata.uid): pod for pod in listed.items if pod.metadata}
    return listed.metadata._continue if listed.metadata else None  # noqa: SLF001  # the client's name for `continue`


def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(0.01)


def _seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


if __name__ == "__main__":
    print(json.dumps({"ours": ours, "official": official}[sys.argv[1]](Path(sys.argv[2]))))
