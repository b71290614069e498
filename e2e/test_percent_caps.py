"""Caps in percent of the capacity of nodes, by two gates on a real control plane: nodes come, go, and are not ready."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from e2e.local.cluster import LocalCluster
from e2e.ports import NotHereError, Site
from e2e.stress.clients import Attempt, send_requests
from e2e.stress.environment import StressEnvironment, policies, prepare_environment
from e2e.stress.objects import cap, create, pod
from e2e.stress.percent_nodes import PercentNodes
from e2e.stress.percent_storm import storm_nodes
from e2e.stress.replicas import Replicas
from e2e.waiting import until

_WITHIN = 120.0  # seconds on a busy machine
_BOUND = 5.0
_LONG, _SHORT = 600, 5  # seconds until a fall acts
_NAME = "half"


@pytest.fixture(scope="module")
def environment(site: Site) -> Iterator[StressEnvironment]:
    """Prepare the environment of stress tests."""
    if not isinstance(site.cluster, LocalCluster):
        raise NotHereError("several gates run as processes, beside the local control plane")
    with prepare_environment(site.cluster) as made:
        yield made


@contextmanager
def _add_nodes(environment: StressEnvironment, **processors: int) -> Iterator[PercentNodes]:
    nodes = PercentNodes(environment.cluster)
    try:
        for name, size in processors.items():
            nodes.add(name, size)
        yield nodes
    finally:
        nodes.remove_all()


def _create_cap(nodes: PercentNodes, namespace: str, settle: int) -> dict[str, Any]:
    capacity = {"nodeSelector": nodes.selector, "settle": f"{settle}s"}
    return cap(_NAME, {"requests.cpu": "50%"}, [namespace], capacity=capacity)


def _submit(environment: StressEnvironment, namespace: str, name: str) -> Attempt:
    return send_requests(environment.access, 1, [create(namespace, pod(name, {"cpu": "1"}))])[-1]


def _stores(environment: StressEnvironment, namespace: str, name: str) -> bool:
    return _submit(environment, namespace, name).status == HTTPStatus.CREATED


def _says(environment: StressEnvironment, namespace: str, text: str) -> bool:
    """Return whether one more pod is rejected with a text."""
    return text in _submit(environment, namespace, "more").message


def _says_without(nodes: PercentNodes, unready: str, environment: StressEnvironment, namespace: str) -> bool:
    """Let a node report that it is not ready, and return whether a pod is rejected by the capacity without it."""
    nodes.report_unready(unready)
    return _says(environment, namespace, "hard 2 (50% of 4)")


def _restart(gates: Replicas) -> None:
    for gate in gates.each:
        gate.kill()
        gate.start()


def test_a_cap_follows_the_nodes_and_a_restart_while_one_is_away_rejects_nothing(
    environment: StressEnvironment,
) -> None:
    with _add_nodes(environment, a=4, b=4) as nodes, environment.namespaces() as (namespace,):
        long, short = (_create_cap(nodes, namespace, settle) for settle in (_LONG, _SHORT))
        with environment.gates(2, [long], "kubernetes", _BOUND) as gates:
            until("the cap is counted", partial(_stores, environment, namespace, "first"), _WITHIN)
            assert all(_stores(environment, namespace, f"pod-{number}") for number in range(3))
            rejected = _submit(environment, namespace, "more")
            assert rejected.status == HTTPStatus.FORBIDDEN
            assert "hard 4 (50% of 8), free 0" in rejected.message
            nodes.add("c", 4)
            begun = time.monotonic()
            until("the rise acts", partial(_stores, environment, namespace, "fifth"), _WITHIN)
            assert time.monotonic() - begun < 30.0
            nodes.remove("c")
            _restart(gates)
            assert _stores(environment, namespace, "sixth")
            rejected = _submit(environment, namespace, "more")
            assert "hard 6 (50% of 12, from 20" in rejected.message
            nodes.add("c", 4)
            until("it is back", partial(_says, environment, namespace, "hard 6 (50% of 12), free 0"), _WITHIN)
            gates.write_policies(policies([short]))
            nodes.remove("c")
            removed = time.monotonic()
            until("the fall acts", partial(_says, environment, namespace, "hard 4 (50% of 8"), _WITHIN)
            assert time.monotonic() - removed >= _SHORT
            until("b counts no more", partial(_says_without, nodes, "b", environment, namespace), _WITHIN)


def test_a_cap_in_percent_is_never_exceeded_while_nodes_come_and_go(environment: StressEnvironment) -> None:
    found = storm_nodes(environment, count=60, seconds=25.0)
    assert (found.is_over, found.unmet) == (False, [])
