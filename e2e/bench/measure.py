"""Rounds of creates: one by one in turn, and by several clients in blocks."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from time import perf_counter

from e2e.bench.calls import Calls
from e2e.bench.client import Client, Created
from e2e.bench.ground import Ground
from e2e.bench.variants import REFUSING, VARIANTS, Variant
from e2e.errors import ClusterError

CROWDS = (8, 32)
"""How many clients there are where there are several."""

_CREATED = 201
_FORBIDDEN = 403
_WARMING = 8  # creates in each variant before those that are measured
_BLOCK = 80  # creates of several clients together in one variant, before they turn to the next


@dataclass(frozen=True, slots=True)
class Sample:
    """The creates of one variant in one round: how long each took, and all of them together, in seconds.

    `calls` are those that the API server has counted meanwhile.
    """

    latencies: tuple[float, ...]
    elapsed: float
    calls: Calls


Round = dict[Variant, Sample]


Timed = dict[Variant, tuple[list[float], float]]
"""The seconds that each create took, and the seconds that all of them took together."""


def one_round(ground: Ground, creates: int) -> dict[int, Round]:
    """So many creates in each variant, by one client and by several (rounded up to whole blocks): by how many clients.

    Raises:
        ClusterError: a pod is not stored, or the cluster does not come to rest.
    """
    taken = {1: _measured(ground, partial(_in_turn, ground), creates)}
    for clients in CROWDS:
        with _crowd(ground, clients) as crowd:
            taken[clients] = _measured(ground, partial(_by_turns, ground, crowd), creates)
    return taken


def refusals(ground: Ground, creates: int) -> Round:
    """So many creates where there is no room, by one client in turn.

    Raises:
        ClusterError: a pod is not refused.
    """
    latencies: dict[Variant, list[float]] = {variant: [] for variant in REFUSING}
    before = ground.calls()
    for _ in range(creates):
        for variant in random.sample(REFUSING, len(REFUSING)):
            (body,) = ground.pods(1)
            latencies[variant].append(_took(ground.client.create(variant.full, body), _FORBIDDEN))
    after = ground.calls()
    return {
        variant: Sample(tuple(each), sum(each), after[variant].since(before[variant]))
        for variant, each in latencies.items()
    }


def _measured(ground: Ground, run: Callable[[int], Timed], creates: int) -> Round:
    """Let it warm up, let it run, and clear away after it."""
    ground.begin_cap()
    run(_WARMING)
    before = ground.calls()
    timed = run(creates)
    after = ground.calls()
    ground.clear()
    return {
        variant: Sample(tuple(latencies), elapsed, after[variant].since(before[variant]))
        for variant, (latencies, elapsed) in timed.items()
    }


def _in_turn(ground: Ground, creates: int) -> Timed:
    """One client, one pod in each variant in turn, so that whatever else the machine does meets all alike."""
    latencies: dict[Variant, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(creates):
        for variant in _drawn():
            (body,) = ground.pods(1)
            latencies[variant].append(_took(ground.client.create(variant.namespace, body), _CREATED))
    return {variant: (each, sum(each)) for variant, each in latencies.items()}


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Several clients, and a thread for each."""

    clients: list[Client]
    threads: ThreadPoolExecutor


@contextmanager
def _crowd(ground: Ground, many: int) -> Iterator[_Crowd]:
    with ExitStack() as ends:
        clients = [ends.enter_context(closing(Client(ground.access))) for _ in range(many)]
        yield _Crowd(clients, ends.enter_context(ThreadPoolExecutor(many)))


def _by_turns(ground: Ground, crowd: _Crowd, creates: int) -> Timed:
    """Several clients at one variant for a tenth of a second, then at the next, again and again."""
    timed: Timed = {variant: ([], 0.0) for variant in VARIANTS}
    for _ in range(-(-creates // _BLOCK)):
        for variant in _drawn():
            latencies, elapsed = _block(ground, crowd, variant)
            before = timed[variant]
            timed[variant] = (before[0] + latencies, before[1] + elapsed)
    return timed


def _block(ground: Ground, crowd: _Crowd, variant: Variant) -> tuple[list[float], float]:
    """A block of creates by each client."""
    start = Barrier(len(crowd.clients) + 1)
    bodies = [ground.pods(-(-_BLOCK // len(crowd.clients))) for _ in crowd.clients]

    def run(client: Client, pods: list[bytes]) -> list[float]:
        start.wait()
        return [_took(client.create(variant.namespace, pod), _CREATED) for pod in pods]

    running = [crowd.threads.submit(run, client, pods) for client, pods in zip(crowd.clients, bodies, strict=True)]
    begun = perf_counter()
    start.wait()
    latencies = [seconds for each in running for seconds in each.result()]
    return latencies, perf_counter() - begun


def _drawn() -> list[Variant]:
    """All variants in an order of chance, so that none always comes after the same one."""
    return random.sample(VARIANTS, len(VARIANTS))


def _took(created: Created, wanted: int) -> float:
    if created.status != wanted:
        raise ClusterError(f"a pod was to be answered with {wanted}: {created.status} {created.said.decode()}")
    return created.seconds
