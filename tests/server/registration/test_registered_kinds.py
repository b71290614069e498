"""The kinds for which the gate registers itself: those that are served, of other projects and of policies."""

from pathlib import Path

from tallygate.admission.workload_resources import ServedResources, read_registered
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import WorkloadKind
from tests.admission.plain_configurations import to_typed
from tests.admission.test_self_registration import KINDS
from tests.server.registration.memory_registration import Gate, MemoryRegistrationStore

JOB_SETS = ("jobset.x-k8s.io", "v1alpha2", "jobsets")
NEW_WORKLOADS, OLD_WORKLOADS = (("kueue.x-k8s.io", version, "workloads") for version in ("v1beta2", "v1beta1"))


def list_registered(store: MemoryRegistrationStore) -> list[ServedResources]:
    """Return the resources of other projects for which each configuration is registered."""
    return [read_registered(to_typed(each)) for each in store.stored.values()]


def test_a_kind_is_registered_while_it_is_served(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served[("example.com", "v1", "unknowns")] = True
    gate.register()
    assert [len(each) for each in store.list_names()] == [3, 7]
    store.served[JOB_SETS] = True
    assert gate.run(6) == {"state": "complete", "workloads": ["jobsets.v1alpha2.jobset.x-k8s.io"]}
    assert list_registered(store) == [{JOB_SETS: True}] * 2
    writes = len(store.owners)
    gate.run(6)
    assert len(store.owners) == writes
    del store.served[JOB_SETS]
    gate.run(6)
    assert gate.run(30) == {"state": "complete"}
    assert [len(each) for each in store.list_names()] == [3, 7]


def test_a_kind_is_not_reported_before_both_configurations_have_it(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.served[JOB_SETS] = True
    reported: list[object] = []
    store.before_write = lambda: reported.append(gate.controller.worker.check().detail)
    assert gate.run(6) == {"state": "complete", "workloads": ["jobsets.v1alpha2.jobset.x-k8s.io"]}
    assert reported == [{"state": "complete"}] * 2


def test_a_kind_of_a_policy_is_registered_and_forgotten_with_it(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served |= {JOB_SETS: True, ("example.com", "v1", "gangs"): False}
    gate.register_with(["jobsets.v1alpha2.jobset.x-k8s.io"])
    gang = WorkloadKind("example.com", "Gang", "gangs", ("v1",), (), is_namespaced=False)
    gate.kinds = (*KNOWN_KINDS, gang)
    assert gate.run(6)["workloads"] == ["gangs.v1.example.com", "jobsets.v1alpha2.jobset.x-k8s.io"]
    assert list_registered(store) == [{JOB_SETS: True, ("example.com", "v1", "gangs"): False}] * 2
    gate.kinds = KNOWN_KINDS
    gate.run(6)
    assert list_registered(store) == [{JOB_SETS: True}] * 2


def test_the_newest_served_version_is_registered(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served[OLD_WORKLOADS] = True
    gate.register_with(["workloads.v1beta1.kueue.x-k8s.io"])
    store.served[NEW_WORKLOADS] = True
    gate.run(6)
    assert list_registered(store) == [{NEW_WORKLOADS: True}] * 2


def test_the_registered_kinds_stay_while_discovery_fails(
    gate: Gate, store: MemoryRegistrationStore, tmp_path: Path
) -> None:
    """Restore everything else meanwhile, also in a replica that has just begun to lead."""
    store.served[JOB_SETS] = True
    gate.register_with(["jobsets.v1alpha2.jobset.x-k8s.io"])
    for each in (gate, Gate(tmp_path, store)):
        store.discovery_failure = "/apis answers no discovery"
        del store.stored[KINDS[1]]["webhooks"][0]
        assert each.run(6) == {
            "state": "complete",
            "workloads": ["jobsets.v1alpha2.jobset.x-k8s.io"],
            "discovery": "/apis answers no discovery",
        }
        assert [len(names) for names in store.list_names()] == [4, 8]
        assert list_registered(store) == [{JOB_SETS: True}] * 2
    store.discovery_failure = ""
    store.served.clear()
    gate.run(6)
    assert gate.run(30) == {"state": "complete"}


def test_a_kind_that_is_missing_for_a_moment_stays_registered(gate: Gate, store: MemoryRegistrationStore) -> None:
    """Expect that of an API server that has just started, and may not know all definitions yet."""
    store.served[JOB_SETS] = True
    gate.register_with(["jobsets.v1alpha2.jobset.x-k8s.io"])
    for _ in range(2):
        store.served.clear()
        gate.run(6)
        gate.run(29)
        assert list_registered(store) == [{JOB_SETS: True}] * 2
        store.served[JOB_SETS] = True
        gate.run(6)
    assert len(store.owners) == 2


def test_an_older_version_is_registered_at_once_when_the_newer_one_is_not_served(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    """Keep no rule in a version that is not served: requests in the other version would pass it."""
    store.served |= {OLD_WORKLOADS: True, NEW_WORKLOADS: True}
    gate.register_with(["workloads.v1beta2.kueue.x-k8s.io"])
    del store.served[NEW_WORKLOADS]
    gate.run(6)
    assert list_registered(store) == [{OLD_WORKLOADS: True}] * 2


def test_without_discovery_the_kinds_of_kubernetes_are_registered(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.discovery_failure = "forbidden"
    gate.run()
    assert gate.run(5) == {"state": "complete", "discovery": "forbidden"}
    assert [len(each) for each in store.list_names()] == [3, 7]


def test_a_former_leader_lists_no_kinds(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served[JOB_SETS] = True
    gate.register_with(["jobsets.v1alpha2.jobset.x-k8s.io"])
    gate.is_leader = False
    assert gate.run(6) == {"state": "standby", "reason": "the leader registers the gate"}


def test_an_edited_rule_of_a_served_kind_is_restored(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served[JOB_SETS] = True
    gate.register_with(["jobsets.v1alpha2.jobset.x-k8s.io"])
    store.stored[KINDS[1]]["webhooks"][-1]["rules"][0]["resources"] = ["others"]
    gate.run(6)
    assert list_registered(store) == [{JOB_SETS: True}] * 2


def test_added_and_removed_kinds_are_logged(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served[OLD_WORKLOADS] = True
    gate.register_with(["workloads.v1beta1.kueue.x-k8s.io"])
    store.served = {JOB_SETS: True}
    gate.run(6)
    gate.run(30)
    old, new = ["workloads.v1beta1.kueue.x-k8s.io"], ["jobsets.v1alpha2.jobset.x-k8s.io"]
    logged = [(line["kind"], line.get("added"), line.get("removed")) for line in gate.list_logged("registered")]
    assert logged == [(kind, *changes) for changes in ((old, None), (new, None), (None, old)) for kind in KINDS]


def test_a_failure_of_discovery_is_logged_once(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.discovery_failure = "/apis answers no discovery"
    gate.run(6)
    gate.run(6)
    store.discovery_failure = ""
    gate.run(6)
    assert [line["message"] for line in gate.list_logged("discovery-failed")] == ["/apis answers no discovery"]
    assert len(gate.list_logged("discovery-recovered")) == 1
