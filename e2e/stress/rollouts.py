"""Rollouts of a Deployment that fills its cap: with a surge they end, and never exceed it; without one they stop."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

from e2e.stress.clients import Attempt, Request, RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment, policies
from e2e.stress.faults import KILLED
from e2e.stress.filling import complete_outcome, track_namespace
from e2e.stress.objects import GPU, cap, creates, patch, pod
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_usage import PodUsage
from e2e.stress.watcher import Watcher
from e2e.waiting import until

_BOUND = 8.0  # seconds
_HARD, _SURGE, _CLIENTS, _ROUNDS = 10, 2, 8, 6
_SHORT = 10  # seconds for which a surge may last
_WITHIN = 240.0  # seconds for a rollout
_STOPPED_SECONDS = 20.0  # seconds in which a rollout that has no room makes no progress
_PAUSE = 0.25
_NAME = "web"
_PATIENT = {"maxSurge": 2, "maxUnavailable": 0}
_READY = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}],
    }
}


@dataclass(frozen=True)
class _Rollout:
    """The Deployment in its namespace, and its pods as they are stored."""

    environment: StressEnvironment
    namespace: str

    def create(self) -> None:
        """Create the Deployment, and wait until all its pods are ready.

        Raises:
            ClusterError: if that takes too long.
        """
        labels = {"app": _NAME}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": _NAME, "namespace": self.namespace},
            "spec": {
                "replicas": _HARD,
                "selector": {"matchLabels": labels},
                "strategy": {"rollingUpdate": _PATIENT},
                "template": {"metadata": {"labels": labels}, "spec": pod(_NAME, {GPU: "1"})["spec"]},
            },
        }
        self.environment.apply([deployment])
        self.await_end("first", "")

    def start(self, revision: str, **strategy: object) -> None:
        """Change the template, and the strategy with it."""
        change = {
            "spec": {
                "template": {"metadata": {"annotations": {"revision": revision}}},
                "strategy": {"rollingUpdate": strategy or _PATIENT},
            }
        }
        self.environment.kubectl(
            "patch", "deployment", _NAME, f"--namespace={self.namespace}", "--patch", json.dumps(change)
        )

    def list_pods(self) -> list[dict[str, Any]]:
        """Return the stored pods of the Deployment."""
        selector = f"--selector=app={_NAME}"
        listed = self.environment.kubectl("get", "pods", f"--namespace={self.namespace}", selector, "--output=json")
        pods: list[dict[str, Any]] = json.loads(listed)["items"]
        return pods

    def count(self, revision: str) -> int:
        """Return the number of stored pods of a revision."""
        return sum(_get_revision(each) == revision for each in self.list_pods())

    def make_ready(self) -> None:
        """Report all pods as ready, as the kubelet would."""
        names = [each["metadata"]["name"] for each in self.list_pods() if not _is_ready(each)]
        send_requests(
            self.environment.access, _CLIENTS, [patch(self.namespace, name, _READY, "status") for name in names]
        )

    def await_end(self, what: str, revision: str) -> float:
        """Report pods as ready until all are of this revision and no others exist; return the seconds.

        Raises:
            ClusterError: if that takes too long.
        """
        begun = time.monotonic()

        def is_over() -> bool:
            self.make_ready()
            pods = self.list_pods()
            return len(pods) == _HARD and all(_get_revision(each) == revision and _is_ready(each) for each in pods)

        until(f"rollout {what} ends", is_over, _WITHIN, self._describe)
        return time.monotonic() - begun

    def _describe(self) -> str:
        revisions = [_get_revision(each) for each in self.list_pods()]
        return f"pods by revision: { {each: revisions.count(each) for each in revisions} }"


def _get_revision(stored: Mapping[str, Any]) -> str:
    return str(stored["metadata"].get("annotations", {}).get("revision", ""))


def _is_ready(stored: Mapping[str, Any]) -> bool:
    conditions = stored["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def roll_full_cap(environment: StressEnvironment) -> Outcome:
    """Roll a Deployment that fills its cap, with a surge while other pods come and a gate is killed, and without one.

    Raises:
        ClusterError: if something takes too long.
    """
    unmet: list[str] = []
    attempts: list[Attempt] = []
    with (
        environment.gates(3, [_create_cap()], "kubernetes", _BOUND) as replicas,
        environment.namespaces() as (namespace,),
    ):
        usage, rollout = track_namespace(namespace, _HARD + _SURGE), _Rollout(environment, namespace)
        with Watcher(environment.access, [usage]) as watcher:
            rollout.create()
            seconds: list[float] = []
            with _create_ordinary(environment, namespace, attempts):
                for number in range(_ROUNDS):
                    rollout.start(f"patient-{number}")
                    if number == 1:
                        KILLED.happens(environment, replicas)
                    seconds.append(rollout.await_end("with maxUnavailable 0", f"patient-{number}"))
            unmet += _check_ordinary(attempts, usage, namespace)
            rollout.start("default", maxSurge="25%", maxUnavailable="25%")
            rollout.await_end("with the default of 25%", "default")
            replicas.write_policies(policies([_create_cap(seconds=0)]))
            rollout.start("stopped")
            unmet += _find_progress(rollout, "stopped", "without a surge", rollout.make_ready)
            replicas.write_policies(policies([_create_cap(_SHORT)]))
            rollout.await_end("with the surge put back", "stopped")
            unmet += _outlast_surge(rollout, usage, namespace)
            watcher.until_current()
            title = f"{_ROUNDS} rollouts of {_HARD} pods under a full cap with a surge of {_SURGE}, {KILLED.title}"
            outcome = compute_outcome(title, attempts, usage)
    outcome = complete_outcome(outcome, usage, f"{max(seconds):.1f} s (a rollout)")
    if outcome.peak <= _HARD:
        unmet.append(f"no pod ever exceeded {_HARD}: nothing surged")
    outcome.unmet += unmet
    return outcome


def _create_cap(seconds: int = 600) -> dict[str, Any]:
    surge = {"amounts": {GPU: str(_SURGE)}, "for": f"{seconds}s"}
    return cap("rolling", {GPU: str(_HARD)}, ["stress-*"], **({"surge": surge} if seconds else {}))


@contextmanager
def _create_ordinary(environment: StressEnvironment, namespace: str, attempts: list[Attempt]) -> Iterator[None]:
    """Create pods of no controller for as long as the block runs; `attempts` gets the answers."""
    over = Event()

    def create_pods() -> None:
        number = 0
        while not over.is_set():
            names = [f"ordinary-{number}-{each}" for each in range(_CLIENTS)]
            with RequestLoad(environment.access, _CLIENTS, creates(namespace, names)) as load:
                pass
            attempts.extend(load.attempts)
            number += 1
            over.wait(_PAUSE)

    thread = Thread(target=create_pods)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _check_ordinary(attempts: list[Attempt], usage: PodUsage, namespace: str) -> Iterator[str]:
    """Yield what is wrong with the answers to pods of no controller, all of which come to a full cap."""
    if not attempts:
        yield "no ordinary pod was created meanwhile"
    if stored := [each.name for each in attempts if each.is_done]:
        yield f"{len(stored)} ordinary pods used a surge: {stored[:3]}"
    until("only the pods of the Deployment are seen", lambda: usage.now(namespace) == _HARD, _WITHIN)


def _find_progress(rollout: _Rollout, revision: str, when: str, act: Callable[[], None]) -> Iterator[str]:
    """Yield the progress of a rollout that must not make any."""
    deadline = time.monotonic() + _STOPPED_SECONDS
    before = rollout.count(revision)
    while time.monotonic() < deadline:
        act()
        if (found := rollout.count(revision)) > before:
            yield f"{when}: {found} pods of revision {revision}, before {before}"
            return
        time.sleep(_PAUSE)


def _outlast_surge(rollout: _Rollout, usage: PodUsage, namespace: str) -> Iterator[str]:
    """Yield what is wrong after the time of a surge: no new pod takes the place of a deleted one above the cap.

    Raises:
        ClusterError: if something takes too long.
    """
    rollout.start("last")
    until("the surge is used up", lambda: rollout.count("last") == _SURGE, _WITHIN)
    time.sleep(_SHORT)
    name = next(each["metadata"]["name"] for each in rollout.list_pods() if _get_revision(each) == "last")
    deletion = Request(name, "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")
    send_requests(rollout.environment.access, 1, [deletion])
    until("the deletion is seen", lambda: usage.now(namespace) == _HARD + _SURGE - 1, _WITHIN)
    yield from _find_progress(rollout, "last", "after the time of the surge", lambda: None)
    rollout.await_end("after the time of the surge", "last")
