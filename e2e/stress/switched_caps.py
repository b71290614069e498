"""A cap that is switched on and off, widened and narrowed under load, while API servers ask only about its objects.

Two API servers create pods that no other policy concerns, and one of them is restarted again and again, or late, while
the registration changes. A pod that a server lets past after the cap became active takes the use above the limit.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import product
from threading import Event
from typing import NamedTuple

from e2e.api import MERGE, api
from e2e.bench.client import load_access
from e2e.local.cluster import ApiServer, LocalCluster
from e2e.registering import CONFIGURATIONS
from e2e.stress.clients import Attempt
from e2e.stress.enforced_usage import EnforcedUsage
from e2e.stress.environment import StressEnvironment, policies
from e2e.stress.objects import cap
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.pod_churn import PodChurn
from e2e.stress.pod_usage import Limit
from e2e.stress.replicas import Replicas
from e2e.stress.watcher import Watcher
from e2e.tcp_proxy import TcpProxy
from e2e.waiting import until
from tallygate.admission.self_registration import ASKED_ANNOTATION

_BOUND = 8.0  # seconds
_HARD = 12
_CLIENTS = 4  # of each API server in each namespace: they keep 32 pods
_WITHIN = 400.0  # seconds until a cap is active, or no more asked about, on a busy machine
_ENFORCED = 30  # pods of each server in each namespace that are stored, and that are refused, while the cap is enforced
_QUIET_SECONDS = 3.0
_DOWN_SECONDS, _UP_SECONDS = 2.0, 15.0
_LEAST_LAG = 10.0  # seconds of a server whose watches are silent: it takes 34
_SERVERS = range(2)
_SECOND = 1
_NAME = "processors"
_CONFIGURATION = CONFIGURATIONS["ValidatingWebhookConfiguration"]
_REJECTED, _COUNTS_FIRST, _UNDECIDED = "TG201", "TG217", "TG218"


class ServerFault(StrEnum):
    """What happens to the second API server while the registration changes."""

    RESTARTS = "killed and started again and again"
    SILENCE = "silent watches"
    """Its connections to etcd that only watch are silent: it learns of the change by its pings, after half a minute."""


class Step(NamedTuple):
    """The namespaces that the cap selects next, by number, and the fault meanwhile."""

    namespaces: tuple[int, ...]
    fault: ServerFault


STEPS = (
    Step((0,), ServerFault.SILENCE),
    Step((0, 1), ServerFault.SILENCE),
    Step((1,), ServerFault.RESTARTS),
    Step((), ServerFault.RESTARTS),
    Step((0, 1), ServerFault.RESTARTS),
)
"""The cap is switched on, widened, narrowed, switched off, and on again."""


def switch_caps(environment: StressEnvironment, steps: Sequence[Step] = STEPS) -> Outcome:
    """Let a cap on processors select other namespaces in each step, or none.

    Raises:
        ClusterError: if something takes too long.
    """
    with (
        environment.namespaces(2) as namespaces,  # older than the gates: a cap counts what is there first
        environment.registering_gates(2, _BOUND) as replicas,
        _run_behind_proxy(environment.cluster) as (second, etcd),
    ):
        accesses = [environment.access, load_access(second.kubeconfig, second.kubeconfig.parent)]
        usage = EnforcedUsage(Limit(_HARD, "cpu", lambda where, _: where if where in namespaces else None))
        asked = _list_asked(environment.cluster)
        churn = PodChurn(accesses, namespaces, _CLIENTS)
        with Watcher(environment.access, [usage]) as watcher:
            switching = _Switching(environment.cluster, replicas, second, etcd, churn, usage, watcher, asked)
            with churn.run():
                for step in steps:
                    switching.select([namespaces[number] for number in step.namespaces], step.fault)
            watcher.until_current()
    outcome = compute_outcome(switching.describe(), churn.attempts, usage)
    outcome.unmet = [*switching.unmet, *(f"{name} used {more:g} too much" for name, more in usage.excess.items())]
    if watcher.torn:
        outcome.unmet.append("the watch has missed events")
    return outcome


@contextmanager
def _run_behind_proxy(cluster: LocalCluster) -> Iterator[tuple[ApiServer, TcpProxy]]:
    """Run a second API server, and yield it with the proxy by which it reaches etcd."""
    with ExitStack() as ends:
        proxies: list[TcpProxy] = []

        def pass_on(port: int) -> int:
            proxies.append(ends.enter_context(TcpProxy(port)))
            return proxies[0].port

        second = ends.enter_context(cluster.run_second_server(pass_on))
        yield second, proxies[0]


@dataclass(slots=True)
class _Switching:
    """The parts of a run whose cap selects other namespaces, and what it has shown so far."""

    cluster: LocalCluster
    replicas: Replicas
    second: ApiServer
    etcd: TcpProxy
    churn: PodChurn
    usage: EnforcedUsage
    watcher: Watcher
    asked: frozenset[str]
    """The digests of the policies that the API servers ask about before the first step."""
    unmet: list[str] = field(default_factory=list)
    _selected: Sequence[str] = ()
    _steps: int = 0
    _restarts: int = 0
    _before: int = 0  # pods that were stored in the namespaces of a cap before it rejected
    _lags: list[float] = field(default_factory=list)  # of the server with silent watches, in seconds

    def select(self, namespaces: Sequence[str], fault: ServerFault) -> None:
        """Let the cap select these namespaces during a fault, and go on under it once it is active.

        Raises:
            ClusterError: if something takes too long.
        """
        is_new, added = not self._selected, [name for name in namespaces if name not in self._selected]
        for name in added:
            until(f"{name} uses more than the cap", partial(self._uses_more, name), _WITHIN)
        self.usage.release([name for name in self._selected if name in namespaces])
        caps = [cap(_NAME, {"requests.cpu": f"{_HARD}"}, namespaces)] if namespaces else []
        with self._fail(fault):
            begun = time.monotonic()
            self.replicas.write_policies(policies(caps))
            loaded = time.monotonic()
            for name in namespaces:
                until(f"the cap rejects in {name}", partial(self._rejects, name, loaded), _WITHIN, self.replicas.log)
            self.churn.until_answered()
            self.watcher.until_passed()
            self.usage.enforce(namespaces)
            self._until_enforced(namespaces)
            if not namespaces:
                until("the cap is asked about no more", self._is_unasked, _WITHIN, self.replicas.log)
        self._verify(added, begun, fault, _COUNTS_FIRST if is_new else _UNDECIDED)
        self._selected = namespaces
        self._steps += 1

    def describe(self) -> str:
        """Return what was done."""
        lags = " and ".join(f"{lag:.0f} s" for lag in self._lags)
        return (
            f"a cap selects other namespaces {self._steps} times, {self._before:,} pods stored there before it rejects,"
            f" 2 replicas that register themselves, one API server of two late by {lags}, "
            f"and killed {self._restarts} times"
        )

    @contextmanager
    def _fail(self, fault: ServerFault) -> Iterator[None]:
        if fault is ServerFault.SILENCE:
            # An event makes the connection of the configurations fresh, so that its ping comes late.
            change = {"metadata": {"annotations": {"example.com/step": str(self._steps)}}}
            api(self.cluster.kubeconfig).patch(_CONFIGURATION, change, MERGE)
            time.sleep(2 * _QUIET_SECONDS)  # what creations use is not quiet, and what only watches is
            with self.etcd.stall(_QUIET_SECONDS) as silent:
                yield
            if not silent:
                self.unmet.append("there was no watch to stall")
            return
        over = Event()
        with ThreadPoolExecutor(1) as pool:
            restarts = pool.submit(self._restart, over)
            try:
                yield
            finally:
                over.set()
            self._restarts += restarts.result()

    def _restart(self, over: Event) -> int:
        """Kill the second server and start it until it is over; return how often."""
        restarts = 0
        while not restarts or not over.wait(_UP_SECONDS):
            self.second.component.kill()
            over.wait(_DOWN_SECONDS)
            self.second.start()
            restarts += 1
        return restarts

    def _until_enforced(self, namespaces: Sequence[str]) -> None:
        """Wait until enough pods were stored and rejected by each server in each of these namespaces."""
        since = time.monotonic()

        def is_enforced(server: int, name: str) -> bool:
            stored = sum(attempt.is_done for attempt in self.churn.list_attempts(server, name, since))
            return min(stored, self._count(server, name, since, _REJECTED)) >= _ENFORCED

        for server, name in product(_SERVERS, namespaces):
            until(f"the cap is enforced in {name}, server {server}", partial(is_enforced, server, name), _WITHIN)

    def _verify(self, added: Sequence[str], begun: float, fault: ServerFault, code: str) -> None:
        """Verify that each server asked about the added namespaces, and stored pods there, before the cap rejected.

        `code` is the answer of the gate until then. A cap that was changed admits nothing, once it is asked.
        """
        for server, name in product(_SERVERS, added):
            rejected_at = self._find_rejection(name, begun)
            made = self.churn.list_attempts(server, name, begun)
            before = [attempt for attempt in made if attempt.begun < rejected_at]
            stored = sum(attempt.is_done for attempt in before)
            self._before += stored
            asked_at = next((attempt.begun for attempt in before if _mentions(attempt, code)), None)
            if asked_at is None:
                self.unmet.append(f"{name}: server {server} got no {code} before the cap rejected")
                continue
            is_late = fault is ServerFault.SILENCE and server == _SECOND
            if is_late:
                self._lags.append(asked_at - begun)
            if is_late and asked_at - begun < _LEAST_LAG:
                self.unmet.append(f"{name}: the server with silent watches asks after {asked_at - begun:.1f} s")
            if not stored and (is_late or code == _COUNTS_FIRST):
                self.unmet.append(f"{name}: server {server} stored nothing before the cap rejected")

    def _find_rejection(self, name: str, since: float) -> float:
        """Return the time at which the cap first rejected a pod that was sent after a time."""
        made = [attempt for server in _SERVERS for attempt in self.churn.list_attempts(server, name, since)]
        return min(attempt.ended for attempt in made if _mentions(attempt, _REJECTED))

    def _count(self, server: int, name: str, since: float, code: str) -> int:
        return sum(_mentions(attempt, code) for attempt in self.churn.list_attempts(server, name, since))

    def _rejects(self, name: str, since: float) -> bool:
        return any(self._count(server, name, since, _REJECTED) for server in _SERVERS)

    def _uses_more(self, name: str) -> bool:
        return self.usage.now(name) > _HARD

    def _is_unasked(self) -> bool:
        return _list_asked(self.cluster) == self.asked


def _mentions(attempt: Attempt, code: str) -> bool:
    return code in attempt.message or code in attempt.warnings


def _list_asked(cluster: LocalCluster) -> frozenset[str]:
    """Return the digests of the policies that the API servers ask about."""
    stored = api(cluster.kubeconfig).get(_CONFIGURATION)
    listed: str = stored["metadata"]["annotations"][ASKED_ANNOTATION]
    return frozenset(each.partition(":")[0] for each in listed.split(","))
