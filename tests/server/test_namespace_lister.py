"""The lister that waits for namespaces."""

import threading

from tallygate.server.controllers.informers import WaitingNamespaceLister
from tests.gate.replica_fixture import ReplicaFixture


def test_the_labels_of_a_known_namespace_are_returned_at_once() -> None:
    replica = ReplicaFixture()
    assert WaitingNamespaceLister(replica.namespaces, timeout=0.0).labels("team-a") == {}


def test_a_namespace_that_appears_in_time_is_waited_for() -> None:
    replica = ReplicaFixture()
    namespaces, found = WaitingNamespaceLister(replica.namespaces, timeout=30.0), list[object]()
    asking = threading.Thread(target=lambda: found.append(namespaces.labels("team-new")))
    asking.start()
    replica.label_namespace("another")
    replica.label_namespace("team-new", gpu="yes")
    asking.join(20.0)
    assert found == [{"gpu": "yes"}]


def test_a_namespace_that_does_not_appear_in_time_stays_unknown() -> None:
    assert WaitingNamespaceLister(ReplicaFixture().namespaces, timeout=0.01).labels("nowhere") is None
