"""Namespaces that are known in a moment."""

import threading

from tests.gate.world import World
from webhook.server.controllers.informers import WaitingNamespaceLister


def test_a_namespace_that_is_known_is_told_at_once() -> None:
    world = World()
    assert WaitingNamespaceLister(world.namespaces, timeout=0.0).labels("team-a") == {}


def test_one_that_is_told_of_meanwhile_is_waited_for() -> None:
    world = World()
    namespaces, found = WaitingNamespaceLister(world.namespaces, timeout=30.0), list[object]()
    asking = threading.Thread(target=lambda: found.append(namespaces.labels("team-new")))
    asking.start()
    world.labelled("another")
    world.labelled("team-new", gpu="yes")
    asking.join(20.0)
    assert found == [{"gpu": "yes"}]


def test_one_that_nobody_tells_of_stays_unknown() -> None:
    assert WaitingNamespaceLister(World().namespaces, timeout=0.01).labels("nowhere") is None
