"""The controller by which the gate registers itself, over a store in memory; certificates and handshakes are real."""

import base64
import io
import json
from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tallygate.certs.certificate_names import create_service_names
from tallygate.certs.renewal import issue
from tallygate.webhook.admission.self_registration import RegistrationState
from tallygate.webhook.admission.workload_resources import ServedResources, read_registered
from tallygate.webhook.errors import TallygateError
from tallygate.webhook.policy.known_kinds import KNOWN_KINDS
from tallygate.webhook.policy.workload_kinds import WorkloadKind
from tallygate.webhook.server.controllers.registration_controller import (
    CaSource,
    RegistrationController,
)
from tallygate.webhook.server.https.tls_files import find_trust_problem, read_certificates
from tallygate.webhook.server.interfaces import ReadinessStatus, RegistrationParts
from tallygate.webhook.server.telemetry.json_log import LineWriter, create_logger
from tallygate.webhook.state.kubernetes.registration_store import Configuration, Installation
from tests.admission.test_self_registration import KINDS, configuration

NOW = datetime.now(UTC)
READY = Installation("deployment-1", "namespace-1", ready_replicas=1)
REMOVED = Installation("", "namespace-1", is_deployment_absent=True)


class MemoryRegistrationStore:
    """Configurations by kind, the state of the installation, and the number of writes that find another version."""

    def __init__(self, *stored: dict[str, Any]) -> None:
        self.stored = {each["kind"]: each for each in stored}
        self.installation = READY
        self.conflicts = 0
        self.failure = ""
        self.owners: list[str] = []
        self.served: dict[tuple[str, str, str], bool] = {}
        self.discovery_failure = ""

    def read_configurations(self, _timeout: float) -> list[Configuration]:
        """Return copies of the configurations."""
        if self.failure:
            raise TallygateError(self.failure)
        return deepcopy(list(self.stored.values()))

    def read_installation(self, _timeout: float) -> Installation:
        """Return the state of the installation."""
        return self.installation

    def read_served_resources(self, _timeout: float) -> ServedResources:
        """Return the served resources."""
        if self.discovery_failure:
            raise TallygateError(self.discovery_failure)
        return dict(self.served)

    def replace_webhooks(
        self, configuration: Configuration, webhooks: list[dict[str, Any]], namespace_uid: str, _timeout: float
    ) -> bool:
        """Replace the webhooks, unless a conflict is set."""
        if self.conflicts:
            self.conflicts -= 1
            return False
        self.stored[configuration["kind"]]["webhooks"] = deepcopy(webhooks)
        self.owners.append(namespace_uid)
        return True

    def close(self) -> None:
        """Do nothing: no request is in progress."""

    def list_names(self) -> list[list[str]]:
        """Return the names of the webhooks of each configuration."""
        return [[each["name"] for each in stored.get("webhooks") or ()] for stored in self.stored.values()]


class Gate:
    """The gate around the controller: its certificate, its CA bundle, its readiness and its clock."""

    def __init__(self, folder: Path, store: MemoryRegistrationStore) -> None:
        self.folder = folder
        self.store = store
        self.bundle = (folder / "ca.crt").read_bytes()
        self.unready: Sequence[str] = ()
        self.is_leader = True
        self.kinds: Sequence[WorkloadKind] = KNOWN_KINDS
        self.implies_requests = False
        self.seconds = 100.0
        self.log = io.BytesIO()
        self._lines = LineWriter(self.log)
        parts = RegistrationParts(
            namespace="here",
            get_tokens=tuple,
            find_trust_problem=self._find_trust_problem,
            is_leader=lambda: self.is_leader,
            list_statuses=lambda: [ReadinessStatus(name, ready=False) for name in self.unready],
            list_workload_kinds=lambda: self.kinds,
            implies_requests=lambda: self.implies_requests,
        )
        logger = create_logger("info", line_writer=self._lines)
        self.controller = RegistrationController(
            store, parts, CaSource(lambda: self.bundle, "add the CA"), logger, lambda: self.seconds
        )

    def _find_trust_problem(self, bundle: bytes, host: str) -> str:
        certificates = read_certificates(self.folder / "tls.crt", self.folder / "tls.key")
        return find_trust_problem(certificates, bundle, host)

    def run(self, seconds: float = 0.0) -> dict[str, Any]:
        """Run the controller once after a time, and return its details."""
        self.seconds += seconds
        self.controller.worker.run_once()
        return dict(self.controller.worker.check().detail)

    def list_logged(self, event: str) -> list[dict[str, Any]]:
        """Return the logged lines of an event."""
        self._lines.flush()
        return [line for each in self.log.getvalue().splitlines() if (line := json.loads(each))["event"] == event]

    def register(self) -> None:
        """Run the controller until the Service is known to route to a ready replica."""
        self.run()
        assert self.run(5) == {"state": RegistrationState.COMPLETE}

    def register_with(self, workloads: list[str]) -> None:
        """Run the controller until the gate is registered for these resources of other projects."""
        self.run()
        assert self.run(5) == {"state": RegistrationState.COMPLETE, "workloads": workloads}


@pytest.fixture
def store() -> MemoryRegistrationStore:
    """Return a store with both configurations, without webhooks and left to the gate."""
    return MemoryRegistrationStore(*(configuration(kind) for kind in KINDS))


@pytest.fixture
def gate(tmp_path: Path, store: MemoryRegistrationStore) -> Gate:
    """Return a ready gate with a certificate for its Service, whose controller has not run."""
    issue(tmp_path, create_service_names("tallygate", "here"), NOW)
    return Gate(tmp_path, store)


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
    assert [len(each) for each in store.list_names()] == [3, 5]
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
    assert [len(each) for each in store.list_names()] == [3, 5]
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
    assert [len(each) for each in store.list_names()] == [3, 5]


def test_a_gate_that_never_saw_its_deployment_keeps_the_registration(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    for each in store.stored.values():
        each["metadata"]["annotations"]["tallygate.dev/url"] = "https://tallygate.here.svc:8443"
    store.installation = Installation(is_deployment_absent=True)
    assert gate.run() == {"state": "complete"}
    gate.controller.withdraw()
    assert [len(each) for each in store.list_names()] == [3, 5]


def test_a_configuration_of_an_administrator_is_not_emptied(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    for each in store.stored.values():
        del each["metadata"]["annotations"]
    store.installation = REMOVED
    gate.controller.withdraw()
    assert [len(each) for each in store.list_names()] == [3, 5]


def test_an_api_server_that_does_not_answer_ends_no_thread(gate: Gate, store: MemoryRegistrationStore) -> None:
    gate.register()
    store.failure = "connection refused"
    store.installation = REMOVED
    gate.controller.withdraw()
    gate.controller.worker.run_once()


JOB_SETS = ("jobset.x-k8s.io", "v1alpha2", "jobsets")
NEW_WORKLOADS, OLD_WORKLOADS = (("kueue.x-k8s.io", version, "workloads") for version in ("v1beta2", "v1beta1"))


def list_registered(store: MemoryRegistrationStore) -> list[ServedResources]:
    """Return the resources of other projects for which each configuration is registered."""
    return [read_registered(each) for each in store.stored.values()]


def test_a_kind_is_registered_while_it_is_served(gate: Gate, store: MemoryRegistrationStore) -> None:
    store.served[("example.com", "v1", "unknowns")] = True
    gate.register()
    assert [len(each) for each in store.list_names()] == [3, 5]
    store.served[JOB_SETS] = True
    assert gate.run(6) == {"state": "complete", "workloads": ["jobsets.v1alpha2.jobset.x-k8s.io"]}
    assert list_registered(store) == [{JOB_SETS: True}] * 2
    writes = len(store.owners)
    gate.run(6)
    assert len(store.owners) == writes
    del store.served[JOB_SETS]
    gate.run(6)
    assert gate.run(30) == {"state": "complete"}
    assert [len(each) for each in store.list_names()] == [3, 5]


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


def test_the_mutating_phase_sees_every_new_pod_while_a_policy_implies_requests(
    gate: Gate, store: MemoryRegistrationStore
) -> None:
    gate.register()
    creations = store.stored["MutatingWebhookConfiguration"]["webhooks"]
    assert [each["name"] for each in creations[0]["matchConditions"]] == ["may-be-mended"]
    gate.implies_requests = True
    gate.run(5)
    assert "matchConditions" not in store.stored["MutatingWebhookConfiguration"]["webhooks"][0]
    gate.implies_requests = False
    gate.run(5)
    assert store.stored["MutatingWebhookConfiguration"]["webhooks"] == creations


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
        assert [len(names) for names in store.list_names()] == [4, 6]
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
    assert [len(each) for each in store.list_names()] == [3, 5]


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
