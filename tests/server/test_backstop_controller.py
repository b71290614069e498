"""The controller that keeps the compiled objects in a cluster: what it writes and deletes, and when it leaves them."""

from collections.abc import Collection
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from tallygate.admission.self_registration import EXEMPT_ANNOTATION, REGISTRATION_ANNOTATION
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.resource_quotas import ObservedCluster
from tallygate.errors import TallygateError
from tallygate.server.controllers import backstop_controller
from tallygate.server.controllers.backstop_controller import BackstopController, BackstopSource
from tests.admission.case import parse_policies
from tests.server.app_harness import Log
from tests.server.registration.memory_registration import MemoryRegistrationStore

CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec:
  namespaces: {include: ["team-*"]}
  hard: {example.com/dongle: 4}
"""
RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended]}
"""
OWNER = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "tallygate-backstop", "uid": "u1"}
LEFT_TO_GATE = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {
        "name": "tallygate",
        "annotations": {REGISTRATION_ANNOTATION: "gate", EXEMPT_ANNOTATION: "team-exempt"},
    },
}


class MemoryBackstopStore:
    """Compiled objects by kind, namespace and name, in the order of their last writes; `failure` makes calls fail."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, str], CompiledObject] = {}
        self.deleted: list[str] = []
        self.owner: dict[str, str] | None = OWNER
        self.failure = ""
        self.lists = 0

    def list_objects(self) -> list[CompiledObject]:
        """Return copies of the objects."""
        self.lists += 1
        if self.failure:
            raise TallygateError(self.failure)
        return deepcopy(list(self.stored.values()))

    def read_owner(self) -> dict[str, str] | None:
        """Return the owner that the test set."""
        return self.owner

    def apply(self, content: CompiledObject, owner: dict[str, str] | None) -> None:
        """Store an object with its owner."""
        metadata = content["metadata"] | ({"ownerReferences": [owner]} if owner else {})
        key = content["kind"], metadata.get("namespace", ""), metadata["name"]
        self.stored.pop(key, None)
        self.stored[key] = deepcopy({**content, "metadata": metadata})

    def delete(self, content: CompiledObject) -> None:
        """Delete an object."""
        metadata = content["metadata"]
        del self.stored[content["kind"], metadata.get("namespace", ""), metadata["name"]]
        self.deleted.append(content["kind"])

    def close(self) -> None:
        """Do nothing: no request is in progress."""

    def list_kinds(self) -> list[str]:
        """Return the kinds of the stored objects in the order of their writes."""
        return [kind for kind, _, _ in self.stored]

    def list_quota_namespaces(self) -> list[str]:
        """Return the namespaces with quotas."""
        return sorted(namespace for kind, namespace, _ in self.stored if kind == "ResourceQuota")


class Gate:
    """A gate that leads, in a cluster with the namespaces `namespaces`."""

    def __init__(self, text: str = f"{CAP}---{RULE}") -> None:
        self.policies = parse_policies(text)
        self.namespaces: dict[str, dict[str, str]] | None = {name: {} for name in ("team-a", "team-exempt", "other")}
        self.unrecorded: frozenset[str] = frozenset()
        self.is_leader, self.now = True, 100.0
        self.registrations = MemoryRegistrationStore(deepcopy(LEFT_TO_GATE))
        self.store, self.log = MemoryBackstopStore(), Log("info")
        source = BackstopSource(
            namespace="tallygate-system",
            policies=lambda: self.policies,
            list_unrecorded=lambda: self.unrecorded,
            observe=self._observe,
            read_configurations=self.registrations.read_configurations,
            is_leader=lambda: self.is_leader,
            monotonic=lambda: self.now,
            now=lambda: datetime(2026, 11, 29, tzinfo=UTC),
        )
        self.controller = BackstopController(self.store, source, self.log.logger)

    def _observe(self, excluded: Collection[str]) -> tuple[ObservedCluster, object] | None:
        if self.namespaces is None:
            return None
        return ObservedCluster(dict(self.namespaces), {}, excluded), tuple(sorted(self.namespaces))

    def run(self) -> Any:
        """Run once, and return the details of the readiness check."""
        self.controller.worker.run_once()
        return self.controller.worker.check().detail


def test_rules_and_caps_are_written_with_their_owner_and_policies_before_bindings() -> None:
    gate = Gate()
    assert gate.run() == {"state": "complete", "objects": 3}
    assert gate.store.list_kinds() == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ResourceQuota",
    ]
    assert all(content["metadata"]["ownerReferences"] == [OWNER] for content in gate.store.stored.values())
    assert gate.store.list_quota_namespaces() == ["team-a"], "no exempt namespace, and none without the cap"


def test_objects_of_removed_policies_are_deleted_bindings_first() -> None:
    gate = Gate()
    gate.run()
    gate.policies = parse_policies(CAP.replace("team-*", "other"))
    gate.run()
    assert gate.store.deleted == ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy", "ResourceQuota"]
    assert gate.store.list_quota_namespaces() == ["other"]


def test_a_new_namespace_gets_its_quota_at_the_next_run_and_else_nothing_is_listed_for_a_minute() -> None:
    gate = Gate()
    gate.run()
    gate.now += 10
    gate.run()
    assert gate.store.lists == 1
    assert gate.namespaces is not None
    gate.namespaces["team-b"] = {}
    gate.run()
    assert gate.store.list_quota_namespaces() == ["team-a", "team-b"]
    gate.now += 60
    gate.run()
    assert gate.store.lists == 3


def test_an_object_that_a_user_changed_or_deleted_is_restored_within_a_minute() -> None:
    gate = Gate()
    gate.run()
    before = deepcopy(gate.store.stored)
    for key, content in list(gate.store.stored.items()):
        if key[0] == "ResourceQuota":
            content["spec"]["hard"] = {"requests.example.com/dongle": "1"}
        elif key[0] == "ValidatingAdmissionPolicyBinding":
            del gate.store.stored[key]
    gate.now += 60
    gate.run()
    assert gate.store.stored == before


def test_the_quota_of_a_cap_waits_until_the_cap_is_recorded() -> None:
    gate = Gate(CAP)
    gate.unrecorded = frozenset({"dongles"})
    assert gate.run() == {"state": "complete", "objects": 1}
    assert not gate.store.stored
    gate.unrecorded = frozenset()
    gate.run()
    assert gate.store.list_quota_namespaces() == ["team-a"]


@pytest.mark.parametrize(
    ("changed", "namespaces"),
    [(CAP, ["team-a"]), (CAP.replace(": 4", ": 9"), []), (CAP.replace("team-*", "other"), [])],
    ids=["the same", "another limit", "other namespaces"],
)
def test_quotas_of_a_former_definition_are_deleted_while_the_cap_is_not_recorded(
    changed: str, namespaces: list[str]
) -> None:
    """Change a cap that counts first then: no quota may deny what the gate accepts meanwhile."""
    gate = Gate(CAP)
    gate.run()
    gate.policies, gate.unrecorded = parse_policies(changed), frozenset({"dongles"})
    gate.now += 60
    gate.run()
    assert gate.store.list_quota_namespaces() == namespaces


@pytest.mark.parametrize("stored", [(), ({**LEFT_TO_GATE, "metadata": {"name": "tallygate"}},)], ids=["deleted", "own"])
def test_nothing_is_written_or_deleted_without_a_registration_that_is_left_to_the_gate(stored: Any) -> None:
    gate = Gate()
    gate.run()
    gate.registrations.stored = {each["kind"]: each for each in stored}
    gate.store.stored.clear()
    gate.now += 60
    assert gate.run() == {"state": "not ours"}
    assert gate.store.stored == {}


def test_only_the_leader_writes_and_only_once_namespaces_are_known() -> None:
    gate = Gate()
    gate.is_leader = False
    assert gate.run() == {"state": "standby"}
    gate.is_leader, gate.namespaces = True, None
    assert gate.run() == {"state": "waiting"}
    assert gate.store.lists == 0


def test_many_objects_take_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backstop_controller, "_MAX_WRITES", 2)
    gate = Gate()
    assert gate.run() == {"state": "waiting"}
    assert gate.store.list_kinds() == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert gate.run() == {"state": "complete", "objects": 3}


def test_a_failure_is_shown_and_the_next_run_goes_on() -> None:
    gate = Gate()
    gate.store.failure = "resourcequotas cannot be listed"
    assert gate.run() == {"state": "waiting", "failure": "resourcequotas cannot be listed"}
    gate.store.failure = ""
    assert gate.run() == {"state": "complete", "objects": 3}


def test_without_its_role_the_objects_have_no_owner() -> None:
    gate = Gate()
    gate.store.owner = None
    gate.run()
    assert not any("ownerReferences" in content["metadata"] for content in gate.store.stored.values())
    assert gate.log.lines[-1] | {"time": ""} == {
        "time": "",
        "level": "info",
        "event": "backstop-written",
        "objects": 3,
        "left": 0,
        "owned": False,
    }
