"""Rounds of creates in blocks, by one client and by several; and one by one, so that each variant is asked seldom."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from time import perf_counter

from e2e.bench.calls import Calls
from e2e.bench.client import Client, Created
from e2e.bench.ground import Ground
from e2e.bench.objects import LEFT
from e2e.bench.variants import OPEN, REFUSING, RESERVING, VARIANTS, Variant
from e2e.errors import ClusterError

_CREATED = 201
_FORBIDDEN = 403
_WARMING = 8  # creates in each variant before those that are measured
_BLOCK = 80  # creates of several clients together in one variant, before they turn to the next
_BLOCK_OF_ONE = 25  # the same of one client


@dataclass(frozen=True, slots=True)
class Way:
    """How it is created: by so many clients at once, in blocks; or `seldom`, one by one, in each variant in turn.

    A cluster has one gate, which is asked about one create after the other: so it is in blocks. In turn a gate is asked
    once in the time of eight creates, after all the others: it finds little of what it needs in the processor's caches,
    as it does in a cluster where creates are few.
    """

    clients: int
    seldom: bool = False

    @property
    def block(self) -> int:
        """Creates in one variant before the next has its turn."""
        if self.seldom:
            return 1
        return _BLOCK_OF_ONE if self.clients == 1 else _BLOCK

    @property
    def title(self) -> str:
        """How the tables call it."""
        return f"{self.clients}, seldom" if self.seldom else f"{self.clients}"


ALONE = Way(1)
SELDOM = Way(1, seldom=True)
WAYS = (ALONE, SELDOM, Way(8), Way(32))
RESERVING_WAYS = (ALONE, Way(8), Way(32))

RESERVATIONS = 1_000
"""Open in one ledger where that is measured."""

_SPARE = 100  # reservations, since some expire while others are measured


@dataclass(frozen=True, slots=True)
class Sample:
    """The creates of one variant in one round: how long each took, and all of them together, in seconds.

    `calls` are those that the API server has counted meanwhile.
    """

    latencies: tuple[float, ...]
    elapsed: float
    calls: Calls


Round = dict[Variant, Sample]


Took = tuple[list[float], float]
"""The seconds that each create took, and the seconds that all of them took together."""

Timed = dict[Variant, Took]

Block = Callable[[Variant, int], Took]
"""Creates pods of a variant, so many and more."""


def one_round(ground: Ground, creates: int) -> dict[Way, Round]:
    """So many creates in each variant, in every way (rounded up to whole blocks).

    Raises:
        ClusterError: a pod is not stored, or the cluster does not come to rest.
    """
    taken = {}
    for way in WAYS:
        with _asking(ground, way) as block:
            taken[way] = _measured(ground, partial(_by_turns, way, VARIANTS, block), creates)
    return taken


def beside_reservations(
    ground: Ground, creates: int, reservations: int = RESERVATIONS
) -> tuple[dict[Way, Round], Sequence[int]]:
    """The same beside a ledger with so many open reservations; and how many were open after each way.

    A reservation stays open for the in-flight bound and longer where something else refuses the pod. As many are made
    before each way as have expired.

    Raises:
        ClusterError: a pod is not answered as it should be, or the cluster does not come to rest.
    """
    taken, after = {}, []
    for way in RESERVING_WAYS:
        _leave_open(ground, reservations + _SPARE - ground.open_reservations())
        with _asking(ground, way) as block:
            taken[way] = _measured(ground, partial(_by_turns, way, RESERVING, block), creates)
        after.append(ground.open_reservations())
    return taken, after


def _leave_open(ground: Ground, reservations: int) -> None:
    """Create pods that the gate reserves for and something else refuses."""
    clients = 8
    with ExitStack() as ends:
        threads = ends.enter_context(ThreadPoolExecutor(clients))

        def run(pods: list[bytes]) -> None:
            with closing(Client(ground.access)) as client:
                for pod in pods:
                    _took(client.create(OPEN.namespace, pod), _FORBIDDEN)

        pods = ground.pods(max(0, reservations), LEFT)
        list(threads.map(run, (pods[first::clients] for first in range(clients))))


def refusals(ground: Ground, creates: int) -> dict[Way, Round]:
    """So many creates where there is no room, by one client, in blocks and one by one.

    Raises:
        ClusterError: a pod is not refused.
    """
    taken = {}
    for way in (ALONE, SELDOM):
        before = ground.calls()
        timed = _by_turns(way, REFUSING, partial(_refused, ground), creates)
        taken[way] = _sampled(timed, before, ground.calls())
    return taken


def _measured(ground: Ground, run: Callable[[int], Timed], creates: int) -> Round:
    """Let it warm up, let it run, and clear away after it."""
    ground.begin_cap()
    run(_WARMING)
    before = ground.calls()
    timed = run(creates)
    after = ground.calls()
    ground.clear()
    return _sampled(timed, before, after)


def _sampled(timed: Timed, before: Mapping[Variant, Calls], after: Mapping[Variant, Calls]) -> Round:
    return {
        variant: Sample(tuple(latencies), elapsed, after[variant].since(before[variant]))
        for variant, (latencies, elapsed) in timed.items()
    }


def _by_turns(way: Way, variants: Sequence[Variant], block: Block, creates: int) -> Timed:
    """A block in one variant, then in the next, again and again: all meet alike whatever else the machine does.

    Their order is one of chance, so that none always comes after the same one.
    """
    timed: Timed = {variant: ([], 0.0) for variant in variants}
    size = min(way.block, creates)
    for _ in range(-(-creates // size)):
        for variant in random.sample(variants, len(variants)):
            latencies, elapsed = block(variant, size)
            before = timed[variant]
            timed[variant] = (before[0] + latencies, before[1] + elapsed)
    return timed


@contextmanager
def _asking(ground: Ground, way: Way) -> Iterator[Block]:
    if way.clients == 1:
        yield partial(_stored, ground)
        return
    with ExitStack() as ends:
        clients = [ends.enter_context(closing(Client(ground.access))) for _ in range(way.clients)]
        threads = ends.enter_context(ThreadPoolExecutor(way.clients))
        yield partial(_stored_together, ground, _Crowd(clients, threads))


def _stored(ground: Ground, variant: Variant, size: int) -> Took:
    """So many creates by one client, whose time is the sum of theirs."""
    latencies = [_took(ground.client.create(variant.namespace, pod), _CREATED) for pod in ground.pods(size)]
    return latencies, sum(latencies)


def _refused(ground: Ground, variant: Variant, size: int) -> Took:
    """The same, where there is no room."""
    latencies = [_took(ground.client.create(variant.full, pod), _FORBIDDEN) for pod in ground.pods(size)]
    return latencies, sum(latencies)


@dataclass(frozen=True, slots=True)
class _Crowd:
    """Several clients, and a thread for each."""

    clients: list[Client]
    threads: ThreadPoolExecutor


def _stored_together(ground: Ground, crowd: _Crowd, variant: Variant, size: int) -> Took:
    """At least so many creates by all clients together, and their time from the first to the last."""
    start = Barrier(len(crowd.clients) + 1)
    bodies = [ground.pods(-(-size // len(crowd.clients))) for _ in crowd.clients]

    def run(client: Client, pods: list[bytes]) -> list[float]:
        start.wait()
        return [_took(client.create(variant.namespace, pod), _CREATED) for pod in pods]

    running = [crowd.threads.submit(run, client, pods) for client, pods in zip(crowd.clients, bodies, strict=True)]
    begun = perf_counter()
    start.wait()
    latencies = [seconds for each in running for seconds in each.result()]
    return latencies, perf_counter() - begun


def _took(created: Created, wanted: int) -> float:
    if created.status != wanted:
        raise ClusterError(f"a pod was to be answered with {wanted}: {created.status} {created.said.decode()}")
    return created.seconds
