"""`python -m e2e.registration_lag`: the time from a write of a webhook configuration until each API server acts by it.

Two API servers have one etcd. A write through the first one makes the condition of a webhook true for pods of a new
name. The webhook cannot be reached, so a dry run of such a pod fails once a server acts by the write. The lag of a
server is the time from the answer to the write until it was sent the last pod that passed (rule 14 of
docs/design/caps.md).
"""

import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from statistics import median
from typing import Any

import click

from e2e.api import JSON, api
from e2e.bench.client import Access, load_access
from e2e.errors import ClusterError
from e2e.local.cluster import ApiServer, LocalCluster
from e2e.tcp_proxy import TcpProxy

_PATH = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_NAME = "lag.example.com"
_JSON_TYPE = {"Content-Type": "application/json"}
_PASSES = 201
_STALE_SECONDS = 90.0  # after which a server that still passes pods does so for good
_PAUSE_SECONDS = 3.0
_QUIET_SECONDS = 3.0


class Prober:
    """One connection to an API server for dry runs of pods."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._connection = self._connect()

    def passes(self, name: str) -> bool:
        """Return whether a pod is accepted, and so the webhook not called."""
        self.send(name)
        return self.receive()

    def send(self, name: str) -> None:
        """Send a pod, and read no answer."""
        container = {"name": "main", "image": "none"}
        pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        self._connection.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", json.dumps(pod), _JSON_TYPE)

    def receive(self) -> bool:
        """Return whether the sent pod is accepted.

        Raises:
            ClusterError: if it is rejected for another reason than the webhook.
        """
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status != _PASSES and _NAME not in text:
            raise ClusterError(f"the API server answers {answer.status}: {text}")
        return answer.status == _PASSES

    def until_asked(self, name: str, since: float) -> float:
        """Return the seconds since a time until the last pod of this name that passes was sent; 0 if none does."""
        last = since
        while True:
            sent = time.monotonic()
            if not self.passes(name):
                return last - since
            last = max(last, sent)
            if sent - since > _STALE_SECONDS:
                return float("inf")

    def reconnect(self) -> None:
        """Begin a new connection."""
        self._connection.close()
        self._connection = self._connect()

    def _connect(self) -> HTTPSConnection:
        connection = HTTPSConnection(self._access.host, self._access.port, timeout=120.0, context=self._access.trust)
        connection.connect()
        return connection


class Registration:
    """A webhook that is asked about pods of one name, which each write changes."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = api(kubeconfig)
        self._number = 0
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        webhook: dict[str, Any] = {
            "name": _NAME,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule],
            "matchConditions": [{"name": "name", "expression": "false"}],
        }
        self._api.create(_PATH, {"metadata": {"name": _NAME}, "webhooks": [webhook]})

    def write(self) -> tuple[str, float]:
        """Ask about pods of a new name; return it, and the time of the answer."""
        self._number += 1
        name = f"probe-{self._number}"
        self.change(f"object.metadata.name == '{name}'")
        return name, time.monotonic()

    def change(self, expression: str) -> None:
        """Write another condition."""
        path = "/webhooks/0/matchConditions/0/expression"
        self._api.patch(f"{_PATH}/{_NAME}", [{"op": "replace", "path": path, "value": expression}], JSON)

    def delete(self) -> None:
        """Delete the registration."""
        self._api.delete(f"{_PATH}/{_NAME}")


class Lab:
    """The two API servers with a prober for each."""

    def __init__(self, cluster: LocalCluster, second: ApiServer, etcd: TcpProxy) -> None:
        folder = second.kubeconfig.parent
        self.accesses = [load_access(path, folder) for path in (cluster.kubeconfig, second.kubeconfig)]
        self.probers = [Prober(access) for access in self.accesses]
        self.registration = Registration(cluster.kubeconfig)
        self._second = second
        self._etcd = etcd

    def measure(self, count: int, *, twice: bool = False) -> list[float]:
        """Return the lags of both servers after each of `count` writes; a write may follow another one at once."""
        lags: list[float] = []
        with ThreadPoolExecutor(2) as pool:
            for _ in range(count):
                if twice:
                    self.registration.change("object.metadata.name == 'none'")
                name, since = self.registration.write()
                lags += pool.map(lambda prober, name=name, since=since: prober.until_asked(name, since), self.probers)
        return lags

    @contextmanager
    def load(self, clients: int) -> Iterator[None]:
        """Let this number of clients of each server send pods for as long as the block runs."""
        ends = threading.Event()

        def send(access: Access) -> None:
            prober = Prober(access)
            while not ends.is_set():
                prober.passes("load")

        threads = [threading.Thread(target=send, args=(access,)) for access in self.accesses * clients]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ends.set()
            for thread in threads:
                thread.join()

    def restart(self) -> float:
        """Kill the second server, write, and start it: return its lag since the first pod that it decides."""
        self._second.component.kill()
        name, since = self.registration.write()
        self._second.component.start()
        while True:
            try:
                self.probers[1].reconnect()
                self.probers[1].passes("first")
            except (OSError, HTTPException, ClusterError):  # it is not ready
                continue
            return self.probers[1].until_asked(name, since)

    def pause(self) -> float:
        """Stop the second server, write, and continue it: return its lag since the continuation.

        Pods wait for it on open connections: the lag is the time of their last answer, if one passes.
        """
        waiting = [Prober(self.accesses[1]) for _ in range(16)]
        self._second.component.signal(signal.SIGSTOP)
        name, _ = self.registration.write()
        for prober in waiting:
            prober.send(name)
        time.sleep(_PAUSE_SECONDS)
        self._second.component.signal(signal.SIGCONT)
        since = time.monotonic()
        passed = sum(prober.receive() for prober in waiting)
        answered = time.monotonic() - since
        lag = self.probers[1].until_asked(name, since)
        return max(lag, answered) if passed else lag

    def silence(self) -> float:
        """Let the connections of the second server to etcd that only watch be silent, write, and return its lag.

        Those that creations of pods use stay.
        """
        with self.load(2):
            time.sleep(2 * _QUIET_SECONDS)
        with self._etcd.stall(_QUIET_SECONDS):
            name, since = self.registration.write()
            return self.probers[1].until_asked(name, since)


@contextmanager
def open_lab(cluster: LocalCluster) -> Iterator[Lab]:
    """Run a second API server, and yield both with a webhook of their own."""
    with ExitStack() as ends:
        proxies: list[TcpProxy] = []

        def pass_on(port: int) -> int:
            proxies.append(ends.enter_context(TcpProxy(port)))
            return proxies[0].port

        second = ends.enter_context(cluster.run_second_server(pass_on))
        lab = Lab(cluster, second, proxies[0])
        ends.callback(lab.registration.delete)
        yield lab


def _format(title: str, lags: list[float]) -> str:
    ordered = sorted(lags)
    at = [median(ordered), ordered[int(len(ordered) * 0.99)], ordered[-1]]
    return f"{title}: median, p99 and largest of {len(lags)}: {', '.join(f'{lag * 1000:,.1f} ms' for lag in at)}"


@click.command()
@click.option("--writes", default=300, show_default=True, help="Writes without a fault.")
@click.option(
    "--faults", default=10, show_default=True, help="Restarts and pauses; a third as many silent connections."
)
def main(writes: int, faults: int) -> None:
    """Measure the lags of two API servers on the local control plane; minutes."""
    with LocalCluster() as cluster, open_lab(cluster) as lab:
        click.echo(_format("idle", lab.measure(writes)))
        for clients in (8, 32):
            with lab.load(clients):
                click.echo(_format(f"{clients} clients of each", lab.measure(writes)))
                click.echo(_format(f"{clients} clients of each, two writes", lab.measure(writes, twice=True)))
        click.echo(_format("restarted, since its first answer", [lab.restart() for _ in range(faults)]))
        click.echo(_format("stopped for 3 s, since it continues", [lab.pause() for _ in range(faults)]))
        silent = [lab.silence() for _ in range(max(1, faults // 3))]
        click.echo(_format("connections to etcd are silent", silent))


if __name__ == "__main__":
    main()
