"""Rounds of creates: in blocks by one client and by several, and one by one, so that each variant is seldom called."""

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from time import perf_counter

from e2e.bench.bench_cluster import BenchCluster
from e2e.bench.calls import Calls
from e2e.bench.client import Client, CreateResponse
from e2e.bench.variants import COMPILED, OPEN, REFUSING, RESERVING, UNASKED, VARIANTS, Variant
from e2e.errors import ClusterError

_CREATED = 201
_FORBIDDEN = 403
_WARMUP_CREATES = 8  # creates in each variant before those that are measured
_BLOCK = 80  # creates of several clients in one variant before the next variant
_BLOCK_OF_ONE = 25  # the same of one client


@dataclass(frozen=True, slots=True)
class Load:
    """A load: `clients` that create at once, in blocks; or `seldom`, one by one, in each variant in turn.

    In blocks a gate gets one create after the other, as the only gate of a cluster does. In turn a gate is called
    once in the time of eight creates, after all the others: the caches of the processor have little of its data,
    as in a cluster with few creates.
    """

    clients: int
    seldom: bool = False

    @property
    def block(self) -> int:
        """Creates in one variant before the next variant."""
        if self.seldom:
            return 1
        return _BLOCK_OF_ONE if self.clients == 1 else _BLOCK

    @property
    def title(self) -> str:
        """Name in the tables."""
        return f"{self.clients}, seldom" if self.seldom else f"{self.clients}"


ALONE = Load(1)
SELDOM = Load(1, seldom=True)
LOADS = (ALONE, SELDOM, Load(8), Load(32))
BLOCK_LOADS = (ALONE, Load(8), Load(32))

RESERVATIONS = 1_000
"""The number of open reservations in one ledger."""

_LASTING_SECONDS = 15.0  # of the 40 s after which a reservation expires; a block takes less than the rest


@dataclass(frozen=True, slots=True)
class Sample:
    """The creates of one variant in one round: the seconds of each, and of all together.

    `calls` are those that the API server has counted during the round.
    """

    latencies: tuple[float, ...]
    elapsed: float
    calls: Calls


Round = dict[Variant, Sample]

Rounds = dict[Load, Round]
"""One round under each load."""

Durations = tuple[list[float], float]
"""The seconds of each create, and the seconds of all together."""

DurationsByVariant = dict[Variant, Durations]

Block = Callable[[Variant, int], Durations]
"""A function that creates at least a number of pods of a variant."""

Make = Callable[[int], list[bytes]]
"""A function that returns manifests of a number of pods with new names."""


def measure_round(bench_cluster: BenchCluster, creates: int) -> Rounds:
    """Measure a number of creates in each variant under every load (rounded up to whole blocks).

    Raises:
        ClusterError: if a pod is not stored, or the cluster does not become idle.
    """
    return _measure_loads(bench_cluster, LOADS, VARIANTS, creates, bench_cluster.pods)


def measure_with_reservations(
    bench_cluster: BenchCluster, creates: int, reservations: int = RESERVATIONS
) -> tuple[Rounds, Sequence[int]]:
    """Measure with a ledger that has open reservations; return also their number after each load.

    The reservations are those of creations that failed after the gate, as it writes them. Each stays open for the
    in-flight bound, and they are replaced before each block in which one might expire.

    Raises:
        ClusterError: if a pod gets a wrong response, or the cluster does not become idle.
    """
    rounds, after, filled_at = {}, list[int](), -math.inf
    for load in BLOCK_LOADS:
        with _open_block(bench_cluster, load, bench_cluster.pods) as block:

            def fill_and_run(variant: Variant, size: int, block: Block = block) -> Durations:
                nonlocal filled_at
                if variant is OPEN and time.monotonic() - filled_at > _LASTING_SECONDS:
                    bench_cluster.fill_ledger(reservations)
                    filled_at = time.monotonic()
                return block(variant, size)

            run = partial(_run_in_turns, load, RESERVING, fill_and_run)
            rounds[load] = _measure(
                bench_cluster, run, creates, lambda: after.append(bench_cluster.open_reservations())
            )
    return rounds, after


def measure_uncounted(bench_cluster: BenchCluster, creates: int) -> Rounds:
    """Measure creates of pods that no policy concerns, without a webhook and under the registration of a gate.

    Raises:
        ClusterError: if a pod is not stored, or the cluster does not become idle.
    """
    return _measure_loads(bench_cluster, BLOCK_LOADS, UNASKED, creates, bench_cluster.pods_without_gpus)


def measure_compiled(bench_cluster: BenchCluster, creates: int) -> Rounds:
    """Measure creates under twenty policies, by a gate and by compiled objects, while these are applied.

    Raises:
        ClusterError: if a pod is not stored, or the cluster does not become idle.
    """
    return _measure_loads(bench_cluster, BLOCK_LOADS, COMPILED, creates, bench_cluster.pods)


def _measure_loads(
    bench_cluster: BenchCluster, loads: Sequence[Load], variants: Sequence[Variant], creates: int, make: Make
) -> Rounds:
    rounds = {}
    for load in loads:
        with _open_block(bench_cluster, load, make) as block:
            rounds[load] = _measure(bench_cluster, partial(_run_in_turns, load, variants, block), creates)
    return rounds


def measure_rejections(bench_cluster: BenchCluster, creates: int) -> Rounds:
    """Measure a number of rejected creates by one client, in blocks and one by one.

    Raises:
        ClusterError: if a pod is not rejected.
    """
    rounds = {}
    for load in (ALONE, SELDOM):
        before = bench_cluster.calls()
        durations = _run_in_turns(load, REFUSING, partial(_create_rejected, bench_cluster), creates)
        rounds[load] = _collect_samples(durations, before, bench_cluster.calls())
    return rounds


def _measure(
    bench_cluster: BenchCluster,
    run: Callable[[int], DurationsByVariant],
    creates: int,
    look: Callable[[], None] = lambda: None,
) -> Round:
    """Warm up, run, look, and delete the pods afterwards."""
    bench_cluster.begin_cap()
    run(_WARMUP_CREATES)
    before = bench_cluster.calls()
    durations = run(creates)
    after = bench_cluster.calls()
    look()
    bench_cluster.clear()
    return _collect_samples(durations, before, after)


def _collect_samples(
    durations: DurationsByVariant, before: Mapping[Variant, Calls], after: Mapping[Variant, Calls]
) -> Round:
    return {
        variant: Sample(tuple(latencies), elapsed, after[variant].since(before[variant]))
        for variant, (latencies, elapsed) in durations.items()
    }


def _run_in_turns(load: Load, variants: Sequence[Variant], block: Block, creates: int) -> DurationsByVariant:
    """Run blocks of the variants in turn, so that other load on the machine affects all variants alike.

    Their order is random, so that no variant always follows the same one.
    """
    durations: DurationsByVariant = {variant: ([], 0.0) for variant in variants}
    size = min(load.block, creates)
    for _ in range(-(-creates // size)):
        for variant in random.sample(variants, len(variants)):
            latencies, elapsed = block(variant, size)
            before = durations[variant]
            durations[variant] = (before[0] + latencies, before[1] + elapsed)
    return durations


@contextmanager
def _open_block(bench_cluster: BenchCluster, load: Load, make: Make) -> Iterator[Block]:
    if load.clients == 1:
        yield partial(_create_stored, bench_cluster, make)
        return
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(bench_cluster.access))) for _ in range(load.clients)]
        threads = stack.enter_context(ThreadPoolExecutor(load.clients))
        yield partial(_create_concurrently, make, _ClientPool(clients, threads))


def _create_stored(bench_cluster: BenchCluster, make: Make, variant: Variant, size: int) -> Durations:
    """Run a number of creates by one client; the total time is their sum."""
    latencies = [_check_duration(bench_cluster.client.create(variant.namespace, pod), _CREATED) for pod in make(size)]
    return latencies, sum(latencies)


def _create_rejected(bench_cluster: BenchCluster, variant: Variant, size: int) -> Durations:
    """Run a number of rejected creates by one client."""
    latencies = [
        _check_duration(bench_cluster.client.create(variant.full, pod), _FORBIDDEN) for pod in bench_cluster.pods(size)
    ]
    return latencies, sum(latencies)


@dataclass(frozen=True, slots=True)
class _ClientPool:
    """Several clients, and a thread pool with a thread for each."""

    clients: list[Client]
    threads: ThreadPoolExecutor


def _create_concurrently(make: Make, pool: _ClientPool, variant: Variant, size: int) -> Durations:
    """Run at least a number of creates by all clients, and measure the time from the first to the last."""
    start = Barrier(len(pool.clients) + 1)
    bodies = [make(-(-size // len(pool.clients))) for _ in pool.clients]

    def run(client: Client, pods: list[bytes]) -> list[float]:
        start.wait()
        return [_check_duration(client.create(variant.namespace, pod), _CREATED) for pod in pods]

    running = [pool.threads.submit(run, client, pods) for client, pods in zip(pool.clients, bodies, strict=True)]
    started_at = perf_counter()
    start.wait()
    latencies = [seconds for each in running for seconds in each.result()]
    return latencies, perf_counter() - started_at


def _check_duration(created: CreateResponse, wanted: int) -> float:
    if created.status != wanted:
        raise ClusterError(f"expected status {wanted} for a pod: {created.status} {created.body.decode()}")
    return created.seconds
