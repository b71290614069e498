"""Namespaces that move among the forty groups of one cap, while others create pods under the same groups."""

import time
from collections.abc import Sequence

from e2e.errors import ClusterError
from e2e.stress.clients import Attempt, RequestLoad, send_requests
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import SLACK, complete_outcome
from e2e.stress.objects import GPU, cap, creates
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_usage import Limit, PodUsage
from e2e.stress.watcher import Watcher

_BOUND = 8.0  # seconds: a ledger of a new group is active after that
_GROUPS, _HARD, _VISITORS, _ROUNDS, _PODS, _CLIENTS = 40, 8, 20, 4, 6, 16
_SEEN_SECONDS = 2.0  # until every replica has seen a label
_PAUSE = 0.25


class _Groups:
    """The group of each namespace: residents stay, and visitors move to the next group."""

    def __init__(self, environment: StressEnvironment, names: Sequence[str]) -> None:
        self.names = names
        self.visitors = names[_GROUPS:]
        self._environment = environment
        self._numbers = {name: index % _GROUPS for index, name in enumerate(names)}
        self._label(names)

    def find(self, namespace: str) -> str | None:
        """Return the group of a namespace of the test."""
        return f"team-{self._numbers[namespace]}" if namespace in self._numbers else None

    def move(self, visitors: Sequence[str]) -> None:
        """Change the labels of visitors, which must have no pods: pods that move are not admitted again."""
        for name in visitors:
            self._numbers[name] = (self._numbers[name] + 7) % _GROUPS
        self._label(visitors)

    def _label(self, names: Sequence[str]) -> None:
        self._environment.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name, "labels": {"team": self.find(name)}},
                }
                for name in names
            ]
        )


def move_namespaces(environment: StressEnvironment) -> Outcome:
    """Create more pods than forty groups allow, and move empty namespaces among the groups meanwhile.

    Raises:
        ClusterError: if something takes too long.
    """
    document = cap("teams", {GPU: str(_HARD)}, ["stress-*"], groupBy={"label": "team"})
    with (
        environment.gates(3, [document], "kubernetes", _BOUND),
        environment.namespaces(_GROUPS + _VISITORS) as names,
    ):
        groups = _Groups(environment, names)
        usage = PodUsage(Limit(_HARD, GPU, lambda namespace, _: groups.find(namespace)))
        with Watcher(environment.access, [usage]) as watcher:
            attempts = [
                attempt for number in range(_ROUNDS) for attempt in _play_round(environment, groups, watcher, number)
            ]
            title = (
                f"{len(attempts):,} creates by {_CLIENTS} clients under {_GROUPS} groups of a cap, "
                f"{_ROUNDS * _VISITORS // 2} moves of namespaces among them"
            )
            found = compute_outcome(title, attempts, usage)
            room = _fill(environment, groups, usage)
            watcher.until_current()
    return complete_outcome(found, usage, f"{room:.1f} s (reserved)")


def _play_round(environment: StressEnvironment, groups: _Groups, watcher: Watcher, number: int) -> list[Attempt]:
    """Empty one half of the visitors, and move it while all other namespaces create pods."""
    moving = groups.visitors[number % 2 :: 2]
    for name in moving:
        environment.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", f"--namespace={name}")
    watcher.until_current()
    active = [name for name in groups.names if name not in moving]
    requests = [
        request for index in range(_PODS) for name in active for request in creates(name, [f"{name}-{number}-{index}"])
    ]
    with RequestLoad(environment.access, _CLIENTS, requests) as load:
        load.until_final(_CLIENTS)
        groups.move(moving)
    watcher.until_current()
    time.sleep(_SEEN_SECONDS)
    return load.attempts


def _fill(environment: StressEnvironment, groups: _Groups, usage: PodUsage) -> float:
    """Fill every group to its limit; return the seconds.

    Raises:
        ClusterError: if one is not full in time.
    """
    begun, number = time.monotonic(), 0
    while free := [name for name in groups.names[:_GROUPS] if usage.now(groups.find(name) or "") < _HARD]:
        if time.monotonic() > begun + _BOUND + SLACK:
            raise ClusterError(f"{len(free)} groups are not full after {_BOUND + SLACK:.0f} s")
        requests = [request for name in free for request in creates(name, [f"rest-{name}-{number}"])]
        send_requests(environment.access, _CLIENTS, requests)
        number += 1
        time.sleep(_PAUSE)
    return time.monotonic() - begun
