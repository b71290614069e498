"""A cap in percent of the processors of 200 nodes that come, go, reboot and lose their label, while clients fill it.

The use is never more than the largest limit by the capacities of the time in which less acts not yet. A rejection names
no smaller limit than that of a capacity that every gate has seen in that time, and its own arithmetic shows why. A
share of the limit is guaranteed to one namespace: others never take it, and it is not refused while these leave it,
by the versions of the ledger and the counts of the pods that give the amounts of a refusal.
"""

import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from threading import Lock
from typing import Any

from e2e.stress.clients import Attempt
from e2e.stress.environment import StressEnvironment
from e2e.stress.guaranteed_share import GuaranteedShare, list_unshown
from e2e.stress.ledger_history import LedgerHistory, PodHistory
from e2e.stress.objects import cap
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.percent_nodes import PercentNodes
from e2e.stress.pod_churn import PodChurn
from e2e.stress.pod_usage import Limit, PodUsage
from e2e.stress.watcher import Watcher
from e2e.waiting import until

_PERCENT = 50
_SETTLE = 15.0  # seconds
_FAILOVER = 30.0  # seconds until another replica leads and writes: until then no rise acts
_SLACK = 6.0  # seconds: a second until a gate measures, and until the leader writes, on a busy machine
_BOUND = 8.0
_CLIENTS = 14  # in each of two namespaces: they want 112 pods
_OWNERS = 4  # clients of the owner of a guarantee: they want 16 pods
_GUARANTEED = 20  # percent of the limit
_WITHIN = 300.0
_REBOOT_SECONDS = 3.0
_LEFT = 20  # nodes that change at once, and that are left at the end
_SHARE = re.compile(r"hard (\d+)(m?) \(\d+% of \d+")
_THOUSANDTHS = 1000
_CODE = "TG201"


@dataclass(slots=True)
class GrownUsage:
    """The pods of all namespaces of a cap, and each moment at which their use grew, with the use then."""

    limit: Limit
    grown: list[tuple[float, float]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _usage: PodUsage = field(init=False)

    def __post_init__(self) -> None:
        """Count nothing yet."""
        self._usage = PodUsage(self.limit)

    @property
    def peak(self) -> float:
        """The largest use at any moment."""
        return self._usage.peak

    def now(self, scope: str) -> float:
        """Return the used amount."""
        with self._lock:
            return self._usage.now(scope)

    def list_uids(self) -> frozenset[str]:
        """Return the pods that use something."""
        with self._lock:
            return self._usage.list_uids()

    def see(self, stored: Mapping[str, Any], *, is_deleted: bool = False) -> None:
        """Count the pod as it is now, or as it was when it was deleted."""
        with self._lock:
            before = self._usage.now("all")
            self._usage.see(stored, is_deleted=is_deleted)
            after = self._usage.now("all")
            if after > before:
                self.grown.append((time.monotonic(), after))

    def forget(self, uid: str) -> None:
        """Count the pod no longer."""
        with self._lock:
            self._usage.forget(uid)


def storm_nodes(environment: StressEnvironment, count: int = 200, seconds: float = 90.0) -> Outcome:
    """Let the nodes of a pool come and go for these seconds.

    Raises:
        ClusterError: if something takes too long.
    """
    nodes = PercentNodes(environment.cluster)
    try:
        for number in range(count):
            nodes.add(f"n{number}", 1)
        with environment.namespaces(3) as namespaces:
            return _run(environment, nodes, namespaces, seconds)
    finally:
        nodes.remove_all()


def _run(environment: StressEnvironment, nodes: PercentNodes, namespaces: list[str], seconds: float) -> Outcome:
    capacity = {"nodeSelector": nodes.selector, "settle": f"{_SETTLE:.0f}s"}
    owner, *others = namespaces
    guarantee = [{"namespaces": [owner], "amounts": {"requests.cpu": f"{_GUARANTEED}%"}}]
    hard = {"requests.cpu": f"{_PERCENT}%"}
    cap_of_half = cap("half", hard, namespaces, shared=True, capacity=capacity, guarantee=guarantee)
    count = len(nodes.names)
    most = nodes.capacity * _PERCENT // 100
    usage = GrownUsage(Limit(most, "cpu", lambda where, _: "all" if where in namespaces else None))
    borrowed = GrownUsage(Limit(most, "cpu", lambda where, _: "all" if where in others else None))
    ledger = LedgerHistory(PodHistory(owner, namespaces))
    churn, owners = PodChurn([environment.access], others, _CLIENTS), PodChurn([environment.access], [owner], _OWNERS)
    with (
        environment.gates(2, [cap_of_half], "kubernetes", _BOUND) as replicas,
        Watcher(environment.access, [usage, borrowed, ledger.pods]) as watcher,
        Watcher(environment.access, [ledger], environment.ledgers_path) as ledger_watcher,
        churn.run(),
        owners.run(),
    ):
        until("the cap is full", lambda: _is_rejecting(churn), _WITHIN, replicas.log)
        begun = time.monotonic()
        storm = _NodeStorm(nodes)
        storm.play(seconds / 2)
        killed = time.monotonic()
        replicas.each[0].kill()
        replicas.each[0].start()
        storm.play(seconds / 2)
        storm.drain()
        lowered = time.monotonic()
        until("the fall acts", partial(_has_lowered, churn, nodes, lowered), _WITHIN, replicas.log)
        fall = time.monotonic() - lowered
        ended = time.monotonic()
        watcher.until_passed()
        ledger_watcher.until_passed()
    changes = len(nodes.periods) - 1 - count
    title = (
        f"{changes:,} changes of {count} nodes, which come, go, reboot, resize and lose their label, under a cap of "
    )
    title += (
        f"{_PERCENT}% of their processors, {_GUARANTEED}% of it guaranteed to one of three namespaces, 32 clients, "
        "2 replicas, one killed"
    )
    attempts = [*churn.attempts, *owners.attempts]
    guaranteed = GuaranteedShare(_GUARANTEED, owners.attempts, ledger, begun, ended)
    outcome = compute_outcome(title, attempts, usage)
    outcome.hard = max(period.capacity for period in nodes.periods) * _PERCENT // 100
    outcome.room = f"{fall:.1f} s (a fall, after {_SETTLE:.0f} s)"
    outcome.room += f"; {guaranteed.stored} pods and {guaranteed.refused} refusals of the owner of the guarantee"
    outcome.unmet = [
        *_list_unmet(nodes, usage, begun, _PERCENT),
        *_list_unmet(nodes, borrowed, begun, _PERCENT * (100 - _GUARANTEED) / 100),
        *_list_unfounded(nodes, attempts, begun, killed),
        *list_unshown(attempts),
        *guaranteed.list_unfounded(),
    ]
    return outcome


@dataclass(slots=True)
class _NodeStorm:
    """Changes of nodes, drawn one after the other."""

    nodes: PercentNodes
    _rng: random.Random = field(default_factory=partial(random.Random, 38))
    _away: dict[str, int] = field(default_factory=dict)
    _added: int = 0

    def play(self, seconds: float) -> None:
        """Change nodes for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._rng.choice((self._replace_third, self._reboot, self._relabel, self._resize, self._rest))()

    def drain(self) -> None:
        """Remove all nodes but for some."""
        for name in self.nodes.names[_LEFT:]:
            self.nodes.remove(name)

    def _replace_third(self) -> None:
        """Remove a third of the nodes, and add others later."""
        names = self.nodes.names
        for name in self._rng.sample(names, len(names) // 3):
            self.nodes.remove(name)
        time.sleep(self._rng.uniform(0, 1.5 * _SETTLE))
        for _ in range(len(names) // 3):
            self._added += 1
            self.nodes.add(f"new-{self._added}", 1)

    def _reboot(self) -> None:
        names = self._draw()
        for name in names:
            self.nodes.remove(name)
        self._rest()
        for name in names:
            self.nodes.add(name, 1)

    def _relabel(self) -> None:
        for name, size in list(self._away.items()):
            self.nodes.label(name, size)
        self._away = {name: self.nodes.relabel(name) for name in self._draw()}

    def _resize(self) -> None:
        for name in self._draw():
            self.nodes.resize(name, self._rng.randrange(3))

    def _rest(self) -> None:
        time.sleep(_REBOOT_SECONDS)

    def _draw(self) -> list[str]:
        names = self.nodes.names
        return self._rng.sample(names, min(_LEFT, len(names)))


def _is_rejecting(churn: PodChurn) -> bool:
    return any(_CODE in attempt.message for attempt in churn.attempts)


def _has_lowered(churn: PodChurn, nodes: PercentNodes, since: float) -> bool:
    """Return whether pods are rejected by the limit of the nodes that are left."""
    hard = nodes.capacity * _PERCENT * _THOUSANDTHS // 100
    return any(_read_limit(attempt) == hard for attempt in churn.attempts if attempt.begun > since)


def _read_limit(attempt: Attempt) -> int | None:
    """Return the limit that a rejection names, in thousandths; None for any other answer."""
    share = _SHARE.search(attempt.message)
    if attempt.status != HTTPStatus.FORBIDDEN or share is None:
        return None
    return int(share[1]) * (1 if share[2] else _THOUSANDTHS)


def _list_unmet(nodes: PercentNodes, usage: GrownUsage, begun: float, percent: float) -> list[str]:
    """Return where the use grew above this part of the largest capacity of the time."""
    found = []
    for moment, used in usage.grown:
        most = nodes.find_most(moment - _SETTLE - _SLACK, moment) * percent / 100
        if used > most:
            found.append(f"{moment - begun:.1f} s: {used:g} were used, where {most} were the largest limit")
    return found[:10]


def _list_unfounded(nodes: PercentNodes, attempts: list[Attempt], begun: float, killed: float) -> list[str]:
    """Return the rejections by a smaller limit than that of a capacity that counts, while a replica leads."""
    found = []
    for attempt in attempts:
        limit = _read_limit(attempt)
        if limit is None or attempt.begun < begun or killed <= attempt.begun <= killed + _FAILOVER:
            continue
        capacity = nodes.find_least(attempt.begun - _SETTLE + _SLACK, attempt.begun - _SLACK)
        least = capacity * _PERCENT * _THOUSANDTHS // 100
        if limit < least:
            found.append(f"{attempt.begun - begun:.1f} s: {limit}m was the limit, where {least}m count")
    return found[:10]
