"""A load of eight clients that create pods at once, over the API server's own HTTPS: kubectl starts too slowly."""

import base64
import itertools
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import httpx
import yaml

from e2e.pods import Pod
from e2e.ports import Cluster, NotHereError
from e2e.trust import Trust
from e2e.waiting import until

CLIENTS = 8
STORED = 201
"""What the API server answers to a create that it has stored."""

_PAUSE = 0.1  # seconds that a client rests between two pods of a load that lasts
_WITHIN = 240.0  # seconds, for a load to progress
_ANSWER = 120.0  # seconds; the API server itself gives a create up after 34


@dataclass(frozen=True, slots=True)
class Answer:
    """The API server's answer to the create of a pod: the HTTP status, and the message of a rejection."""

    pod: Pod
    status: int
    message: str


class Clients:
    """Clients with the administrator's certificate, each on a connection of its own, for as long as the block runs.

    Raises:
        NotHereError: if the kubeconfig has no client certificate.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        """Open clients that create in this namespace."""
        config = yaml.safe_load(cluster.kubeconfig.read_text())  # whole in itself, and of one context
        server = config["clusters"][0]["cluster"]
        limits = httpx.Limits(max_connections=CLIENTS)
        # Whatever proxies the environment names: the cluster is meant as kubectl reaches it.
        self._http = httpx.Client(
            verify=_trust(server, config["users"][0]["user"]), limits=limits, timeout=_ANSWER, trust_env=False
        )
        self._pods = f"{server['server']}/api/v1/namespaces/{namespace}/pods"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close their connections."""
        self._http.close()

    def create(self, pods: Sequence[Pod]) -> list[Answer]:
        """Create all these, eight at a time; the answers in the order of the pods."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(self.create_one, pods))

    @contextmanager
    def creating(self, make: Callable[[int], Pod], pause: float = _PAUSE) -> Iterator[list[Answer]]:
        """Create what `make` returns for 0, 1, 2, … by all clients until the block ends; yield the answers so far.

        Between two pods each rests for `pause` seconds: long where the block waits, short where it is to end soon.
        """
        answers: list[Answer] = []
        numbers = itertools.count()
        over = threading.Event()

        def create() -> None:
            while not over.wait(pause):
                answers.append(self.create_one(make(next(numbers))))

        with ThreadPoolExecutor(CLIENTS) as pool:
            running = [pool.submit(create) for _ in range(CLIENTS)]
            try:
                yield answers
            finally:
                over.set()
            for each in running:
                each.result()

    def create_one(self, pod: Pod) -> Answer:
        """Create a pod.

        Raises:
            httpx.TransportError: if the API server does not answer.
        """
        answer = self._http.post(self._pods, json=pod)
        return Answer(pod, answer.status_code, "" if answer.status_code == STORED else answer.json()["message"])


def until_more(answers: list[Answer], count: int) -> None:
    """Wait until a load has `count` more answers than now.

    Raises:
        ClusterError: if it takes too long.
    """
    wanted = len(answers) + count
    until(f"{count} more pods are answered", lambda: len(answers) >= wanted, _WITHIN)


def _trust(server: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    """Trust the server's authority, and show the user's certificate."""
    if "client-certificate-data" not in user:
        raise NotHereError(
            "the kubeconfig has no client certificate, so that no clients of the suite's own can be made"
        )
    context = Trust(_text(server["certificate-authority-data"]))
    with TemporaryDirectory() as folder:  # Python reads a client's certificate from files only
        certificate, key = Path(folder, "crt"), Path(folder, "key")
        certificate.write_text(_text(user["client-certificate-data"]))
        key.write_text(_text(user["client-key-data"]))
        context.load_cert_chain(certificate, key)
    return context


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()
