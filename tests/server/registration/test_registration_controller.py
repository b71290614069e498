"""When the gate registers itself, restores what was edited, and withdraws its registration."""

import base64
from copy import deepcopy
from datetime import timedelta
from pathlib import Path

import pytest

from tallygate.state.kubernetes.registration_store import Installation
from tallygate_certs.certificate_names import create_service_names
from tallygate_certs.renewal import issue
from tests.admission.test_self_registration import KINDS, configuration
from tests.server.registration.memory_registration import NOW, READY, REMOVED, Gate, MemoryRegistrationStore


def encode(pem: bytes) -> str:
    """Return a PEM text as a `caBundle`."""
    return base64.b64encode(pem).decode("ascii")


def test_nothing_is_registered_while_a_check_is_not_ready(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.unready = ("watches", "certificate")
    detail = gate.run(60)
    assert detail == {"state": "waiting", "reason": "this replica is not ready: watches, certificate"}
    assert store.list_names() == [[], []]


def test_nothing_is_registered_before_the_service_routes_to_a_ready_replica(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    store.installation = Installation("deployment-1", "namespace-1", ready_replicas=0)
    assert gate.run(60)["reason"] == "no replica of the Deployment in here is ready"
    store.installation = READY
    assert gate.run()["reason"] == "a replica is ready, and soon reached by its Service"
    assert store.list_names() == [[], []]
    assert gate.run(3) == {"state": "complete"}
    assert [len(each) for each in store.list_names()] == [3, 7]
    assert store.owners == ["namespace-1", "namespace-1"]


def test_a_follower_registers_nothing(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.is_leader = False
    gate.run()
    assert gate.run(60)["state"] == "standby"
    assert store.list_names() == [[], []]


def test_both_are_missing_after_the_way_out_and_none_is_created(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.stored.clear()
    assert gate.run(60) == {"state": "absent"}
    assert store.stored == {}


def test_a_configuration_of_an_administrator_is_never_changed(gate: Gate, store: MemoryRegistrationStore) -> None:
    for each in store.stored.values():
        del each["metadata"]["annotations"]
    gate.run()
    assert gate.run(60) == {"state": "not ours"}
    assert store.list_names() == [[], []]


def test_edits_are_restored_at_once_also_while_no_replica_is_ready(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.installation = Installation("deployment-1", "namespace-1", ready_replicas=0)
    store.stored[KINDS[1]]["webhooks"][0]["failurePolicy"] = "Ignore"
    del store.stored[KINDS[0]]["webhooks"][1:]
    assert gate.run() == {"state": "complete"}
    assert [len(each) for each in store.list_names()] == [3, 7]
    assert store.stored[KINDS[1]]["webhooks"][0]["failurePolicy"] == "Fail"


def test_a_changed_annotation_changes_the_webhooks(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.stored[KINDS[0]] = configuration(failure_policy="Ignore") | {"webhooks": store.stored[KINDS[0]]["webhooks"]}
    gate.run()
    assert {each["failurePolicy"] for each in store.stored[KINDS[0]]["webhooks"]} == {"Ignore"}
    assert "Fail" in {each["failurePolicy"] for each in store.stored[KINDS[1]]["webhooks"]}


def test_an_invalid_annotation_is_reported_and_changes_nothing(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.stored[KINDS[0]]["metadata"]["annotations"]["tallygate.dev/failure-policy"] = "Open"
    before = deepcopy(store.stored)
    detail = gate.run()
    assert (
        "failure-policy of the MutatingWebhookConfiguration has the value 'Open': write Fail or Ignore"
        in detail["failure"]
    )
    assert store.stored == before


def test_without_a_ca_nothing_is_registered_and_the_remedy_is_shown(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.bundle = b""
    gate.run()
    detail = gate.run(60)
    assert detail["reason"] == detail["failure"] == "no CA is known for the served certificate: add the CA"
    assert store.list_names() == [[], []]


def test_a_ca_that_has_not_signed_the_certificate_is_not_published(
    gate: Gate, store: MemoryRegistrationStore, tmp_path: Path
) -> None:
    issue(tmp_path / "other", create_service_names("tallygate", "here"), NOW)
    gate.bundle = (tmp_path / "other" / "ca.crt").read_bytes()
    gate.run()
    assert gate.run(60)["failure"].startswith("the served certificate is not valid for tallygate.here.svc: ")
    assert store.list_names() == [[], []]


def test_a_certificate_for_another_name_is_not_registered(store: MemoryRegistrationStore, tmp_path: Path) -> None:
    issue(tmp_path, create_service_names("tallygate", "elsewhere"), NOW)
    gate = Gate(tmp_path, store)
    gate.run()
    assert "not valid for tallygate.here.svc" in gate.run(60)["failure"]
    assert store.list_names() == [[], []]


def test_an_expired_certificate_is_not_registered(store: MemoryRegistrationStore, tmp_path: Path) -> None:
    issue(tmp_path, create_service_names("tallygate", "here"), NOW - timedelta(days=91))
    gate = Gate(tmp_path, store)
    gate.run()
    assert "certificate has expired" in gate.run(60)["failure"]


def test_a_published_bundle_stays_while_the_certificate_is_valid_by_it(
    gate: Gate, store: MemoryRegistrationStore, tmp_path: Path
) -> None:
    """Leave it to its publisher: a new CA is published long before it signs."""
    gate.register()
    issue(tmp_path / "next", create_service_names("tallygate", "here"), NOW)
    both = encode(gate.bundle + (tmp_path / "next" / "ca.crt").read_bytes())
    for stored in store.stored.values():
        for webhook in stored["webhooks"]:
            webhook["clientConfig"]["caBundle"] = both
    writes = len(store.owners)
    assert gate.run(60) == {"state": "complete"}
    assert len(store.owners) == writes
    store.stored[KINDS[0]]["webhooks"][0]["clientConfig"]["caBundle"] = encode(b"broken")
    gate.run(60)
    assert store.stored[KINDS[0]]["webhooks"][0]["clientConfig"]["caBundle"] == encode(gate.bundle)
    assert store.stored[KINDS[0]]["webhooks"][1]["clientConfig"]["caBundle"] == both


def test_a_version_that_was_changed_since_is_read_again(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.run()
    store.conflicts = 1
    assert gate.run(5)["reason"] == "another client has changed the MutatingWebhookConfiguration"
    assert gate.run(1) == {"state": "complete"}


@pytest.mark.parametrize(
    "installation",
    [
        Installation("deployment-1", "namespace-1", ready_replicas=1, is_deleted=True),
        REMOVED,
        Installation(is_deployment_absent=True),
    ],
    ids=["being deleted", "Deployment deleted", "all deleted"],
)
def test_at_the_end_of_its_installation_it_empties_both_and_restores_nothing(
    gate: Gate, store: MemoryRegistrationStore, installation: Installation
) -> None:
    gate.register()
    store.installation = installation
    store.conflicts = 1
    gate.controller.withdraw()
    assert store.list_names() == [[], []]
    gate.run(60)
    assert store.list_names() == [[], []]


def test_another_replica_does_not_restore_what_one_has_withdrawn(
    gate: Gate, store: MemoryRegistrationStore, tmp_path: Path
) -> None:
    gate.register()
    other = Gate(tmp_path, store)
    other.run()
    store.installation = REMOVED
    gate.controller.withdraw()
    other.run(1)
    assert other.run(60)["reason"] == "the gate is being removed"
    assert store.list_names() == [[], []]


@pytest.mark.parametrize(
    "installation",
    [READY, Installation("deployment-1", "namespace-1"), Installation("deployment-2", "namespace-1"), Installation()],
    ids=["a restart", "scaled to 0", "replaced by another Deployment", "may not be read any more"],
)
def test_a_restart_and_a_scale_to_0_keep_the_registration(
    gate: Gate, store: MemoryRegistrationStore, installation: Installation
) -> None:
    gate.register()
    store.installation = installation
    gate.controller.withdraw()
    assert [len(each) for each in store.list_names()] == [3, 7]


def test_a_gate_that_never_saw_its_deployment_keeps_the_registration(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    for each in store.stored.values():
        each["metadata"]["annotations"]["tallygate.dev/url"] = "https://tallygate.here.svc:8443"
    store.installation = Installation(is_deployment_absent=True)
    assert gate.run() == {"state": "complete"}
    gate.controller.withdraw()
    assert [len(each) for each in store.list_names()] == [3, 7]


def test_a_configuration_of_an_administrator_is_not_emptied(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    for each in store.stored.values():
        del each["metadata"]["annotations"]
    store.installation = REMOVED
    gate.controller.withdraw()
    assert [len(each) for each in store.list_names()] == [3, 7]


def test_an_api_server_that_does_not_answer_ends_no_thread(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.failure = "connection refused"
    store.installation = REMOVED
    gate.controller.withdraw()
    gate.controller.worker.run_once()
