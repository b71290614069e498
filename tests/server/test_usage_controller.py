"""The controller that keeps the usage of caps in their namespaces: what it writes and deletes, and when it does not."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallygate.gate.published_usage import UsageKey
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.server.controllers import usage_controller
from tallygate.server.controllers.usage_controller import UsageController, UsageSource
from tallygate.server.lifecycle import ServeError
from tallygate.server.serve import serve
from tallygate.server.settings.table import Settings
from tallygate.state.kubernetes.cap_usage import (
    CapSharing,
    CapState,
    PublishedStatus,
    create_object,
    create_resource,
    create_summary,
)
from tests.server.app_harness import Log

OWNER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "name": "tallygate-publish-usage",
    "uid": "u1",
}
START = datetime(2026, 11, 29, 9, tzinfo=UTC)


def create_status(used: int) -> PublishedStatus:
    """Return the status of a cap of 8 GPUs that are used by one namespace."""
    resource = create_resource("nvidia.com/gpu", hard=8, soft=None, used=used, reserved=0, free=8 - used)
    return PublishedStatus(CapState.ACTIVE, CapSharing.NONE, 1, [resource], create_summary([resource]))


class MemoryUsageStore:
    """CapUsages by namespace and name; `refused` are namespaces whose writes fail, and `ending` those that end."""

    def __init__(self) -> None:
        self.stored: dict[UsageKey, dict[str, Any]] = {}
        self.calls: list[str] = []
        self.owner: dict[str, str] | None = OWNER
        self.refused: dict[str, ApiError] = {}
        self.ending: set[str] = set()

    def list_objects(self) -> list[dict[str, Any]]:
        """Return copies of the objects."""
        self.calls.append("list")
        return deepcopy(list(self.stored.values()))

    def read_owner(self) -> dict[str, str] | None:
        """Return the owner that the test set."""
        return self.owner

    def apply(self, content: dict[str, Any], owner: dict[str, str] | None) -> dict[str, Any] | None:
        """Store an object with its owner."""
        metadata = content["metadata"] | ({"ownerReferences": [owner]} if owner else {})
        key = UsageKey(metadata["namespace"], metadata["name"])
        self.calls.append(f"apply {key.namespace}/{key.cap}")
        if key.namespace in self.refused:
            raise self.refused[key.namespace]
        if key.namespace in self.ending:
            return None
        self.stored[key] = deepcopy({**content, "metadata": metadata})
        return deepcopy(self.stored[key])

    def delete(self, content: dict[str, Any]) -> None:
        """Delete an object."""
        key = UsageKey(content["metadata"]["namespace"], content["metadata"]["name"])
        self.calls.append(f"delete {key.namespace}/{key.cap}")
        del self.stored[key]

    def close(self) -> None:
        """Do nothing: no request is in progress."""

    def take_calls(self) -> list[str]:
        """Return the calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


class Gate:
    """A gate that leads, and the statuses that it has to publish."""

    def __init__(self, *namespaces: str) -> None:
        self.statuses: dict[UsageKey, PublishedStatus | None] | None = {
            UsageKey(namespace, "gpus"): create_status(3) for namespace in namespaces or ("team-a",)
        }
        self.is_leader, self.seconds = True, 0.0
        self.store = MemoryUsageStore()
        source = UsageSource(
            list_statuses=lambda: self.statuses,
            is_leader=lambda: self.is_leader,
            monotonic=lambda: self.seconds,
            now=lambda: START + timedelta(seconds=self.seconds),
        )
        self.controller = UsageController(self.store, source, Log("info").logger)

    def set_used(self, used: int, namespace: str = "team-a") -> None:
        """Change the used amount of a namespace."""
        assert self.statuses is not None
        self.statuses[UsageKey(namespace, "gpus")] = create_status(used)

    def run(self, seconds: float = 10.0) -> list[str]:
        """Let seconds pass, run once, and return the calls."""
        self.seconds += seconds
        self.controller.worker.run_once()
        return self.store.take_calls()

    @property
    def detail(self) -> Any:
        """The details of the readiness check."""
        return self.controller.worker.check().detail


def test_each_cap_has_an_object_with_label_owner_amounts_and_columns() -> None:
    gate = Gate()
    assert gate.run() == ["list", "apply team-a/gpus"]
    assert gate.store.stored[UsageKey("team-a", "gpus")] == {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "CapUsage",
        "metadata": {
            "name": "gpus",
            "namespace": "team-a",
            "labels": {"app.kubernetes.io/managed-by": "tallygate"},
            "ownerReferences": [OWNER],
        },
        "status": {
            "state": "active",
            "sharing": "none",
            "namespaces": 1,
            "resources": [{"name": "nvidia.com/gpu", "hard": "8", "used": "3", "reserved": "0", "free": "5"}],
            "summary": {"used": "nvidia.com/gpu 3/8", "reserved": "nvidia.com/gpu 0", "free": "nvidia.com/gpu 5"},
            "asOf": "2026-11-29T09:00:10Z",
        },
    }
    assert gate.detail == {"state": "complete", "objects": 1, "left": 0}


def test_nothing_is_written_without_a_change_and_a_change_at_most_once_in_10_seconds() -> None:
    gate = Gate()
    gate.run()
    assert gate.run() == []
    gate.set_used(4)
    assert gate.run() == ["apply team-a/gpus"]
    gate.set_used(5)
    assert gate.run(9.9) == []
    assert gate.run(0.1) == ["apply team-a/gpus"]


def test_what_others_change_or_delete_is_restored_within_five_minutes() -> None:
    gate = Gate("team-a", "team-b")
    gate.run()
    gate.store.stored[UsageKey("team-a", "gpus")]["status"]["resources"][0]["free"] = "100"
    del gate.store.stored[UsageKey("team-b", "gpus")]
    assert gate.run() == []
    assert gate.run(300.0) == ["list", "apply team-a/gpus", "apply team-b/gpus"]


def test_objects_of_removed_caps_and_of_namespaces_without_a_cap_are_deleted() -> None:
    gate = Gate("team-a", "team-b")
    old = create_object("team-a", "old", create_status(1))
    gate.store.stored[UsageKey("team-a", "old")] = old
    assert gate.run() == ["list", "delete team-a/old", "apply team-a/gpus", "apply team-b/gpus"]
    assert gate.statuses is not None
    del gate.statuses[UsageKey("team-b", "gpus")]
    assert gate.run() == ["delete team-b/gpus"]


def test_an_object_stays_as_long_as_its_ledger_is_unknown_and_all_stay_while_namespaces_are() -> None:
    gate = Gate()
    gate.run()
    gate.statuses = {UsageKey("team-a", "gpus"): None}
    assert gate.run() == []
    gate.statuses = None
    assert gate.run() == []
    assert gate.detail == {"state": "waiting"}
    assert gate.store.stored.keys() == {UsageKey("team-a", "gpus")}


def test_only_the_leader_writes_and_a_new_one_lists_first() -> None:
    gate = Gate()
    gate.is_leader = False
    assert gate.run() == []
    assert gate.detail == {"state": "standby"}
    gate.is_leader = True
    gate.run()
    gate.is_leader = False
    gate.run()
    gate.is_leader = True
    assert gate.run() == ["list"]


def test_many_changes_take_several_runs_and_no_object_is_written_twice_in_10_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage_controller, "_MAX_WRITES", 2)
    gate = Gate("team-a", "team-b", "team-c")
    assert gate.run() == ["list", "apply team-a/gpus", "apply team-b/gpus"]
    assert gate.detail["left"] == 1
    gate.set_used(4)
    assert gate.run(1.0) == ["apply team-c/gpus"]
    assert gate.run(1.0) == []
    assert gate.run(8.0) == ["apply team-a/gpus"]


def test_a_refused_object_keeps_no_other_from_its_write_and_is_tried_again() -> None:
    gate = Gate("team-a", "team-b")
    gate.store.refused["team-a"] = ApiError(ApiErrorReason.FORBIDDEN, "team-a is locked", status=403)
    assert gate.run() == ["list", "apply team-a/gpus", "apply team-b/gpus"]
    assert gate.detail["failure"] == "team-a is locked"
    assert gate.run() == ["apply team-a/gpus"]
    gate.store.refused.clear()
    assert gate.run() == ["apply team-a/gpus"]
    assert "failure" not in gate.detail


def test_a_pass_ends_when_the_api_server_does_not_answer() -> None:
    gate = Gate("team-a", "team-b")
    gate.store.refused["team-a"] = ApiError(ApiErrorReason.UNREACHABLE, "no answer")
    assert gate.run() == ["list", "apply team-a/gpus"]
    gate.store.refused.clear()
    assert gate.run(1.0) == []
    assert gate.run() == ["apply team-a/gpus", "apply team-b/gpus"]


def test_a_namespace_that_ends_is_no_failure() -> None:
    gate = Gate()
    gate.store.ending.add("team-a")
    gate.run()
    assert gate.detail == {"state": "complete", "objects": 0, "left": 0}


def test_an_object_of_a_former_role_gets_the_new_one_as_its_owner() -> None:
    gate = Gate()
    gate.run()
    gate.store.owner = OWNER | {"uid": "u2"}
    assert gate.run(300.0) == ["list", "apply team-a/gpus"]
    assert gate.store.stored[UsageKey("team-a", "gpus")]["metadata"]["ownerReferences"] == [gate.store.owner]
    gate.store.owner = None
    assert gate.run(300.0) == ["list"]


def test_usage_without_a_cluster_is_an_error() -> None:
    with pytest.raises(ServeError, match="usage can be published only where there is a cluster"):
        serve(Settings(publish_usage="on"))
