"""Random histories of pods with many controllers; each wrong way to find a rollout violates an invariant."""

import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tallygate.webhook.gate import rolling_pods
from tallygate.webhook.gate.owner_chain import OwnerChains, StoredController, find_controller
from tallygate.webhook.gate.rolling_pods import Revision
from tallygate.webhook.objects.meta import ObjectMeta, OwnerReference
from tests.effort import examples
from tests.gate.replica_fixture import create_active_replica
from tests.gate.test_surges import SURGE, create_reference, request_pod, store_replica_set
from tests.schedules import ViolationError

_HARD, _SURGE, _STEPS, _HISTORIES, _MAX_HISTORIES = 4, 2, 60, 40, 60
_SETS = {"web-1": "web", "web-2": "web", "api-1": "api", "api-2": "api", "web-x": ""}
"""By ReplicaSet the name of its Deployment; one has none, and a name like those of another."""
_Finder = rolling_pods._RevisionFinder  # noqa: SLF001  # its functions are replaced


class _World:
    """Pods of one GPU by the ReplicaSet that created them, `forged` for an owner reference with another UID."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  # reproducible
        self.replica = create_active_replica(SURGE)
        for name, deployment in _SETS.items():
            store_replica_set(self.replica, name, create_reference("Deployment", deployment) if deployment else None)
        self.stored: dict[str, str] = {}
        self.unseen: set[str] = set()
        self.ended: set[str] = set()
        self.number = 0

    def play(self) -> None:
        """Take the steps.

        Raises:
            ViolationError: if a pod exceeds the cap that may not.
        """
        steps: tuple[Callable[[], None], ...] = (self._create, self._observe, self._delete, self._end, self._reconcile)
        for step in self.random.choices(steps, (12, 8, 4, 1, 3), k=_STEPS):
            step()

    def _create(self) -> None:
        self.number += 1
        uid, name = f"p{self.number}", self.random.choice([*_SETS, "forged", "none"])
        owner: dict[str, Any] | None = create_reference("ReplicaSet", name)
        if name == "forged":
            owner = create_reference("ReplicaSet", self.random.choice(["web-1", "api-1"]), uid=f"uid-{self.number}")
        elif name == "none":
            owner = None
        if request_pod(self.replica, uid, owner, app="web", revision=f"{self.number}")[0] != 200:
            return
        used = len(self.stored.keys() - self.ended) + 1
        if used > _HARD + _SURGE:
            raise ViolationError(f"over: {used} pods")
        if used > _HARD and not self._is_rolling(name):
            raise ViolationError(f"shared: a pod of {name} is number {used} of {_HARD}, beside {self.stored}")
        metadata = {"ownerReferences": [owner] if owner else [], "labels": {"app": "web", "revision": f"{self.number}"}}
        self.replica.store_pod(uid)["metadata"] |= metadata
        self.stored[uid] = name
        self.unseen.add(uid)

    def _is_rolling(self, name: str) -> bool:
        deployment = _SETS.get(name)
        others = {self.stored[uid] for uid in self.stored.keys() - self.ended} - {name}
        return bool(deployment) and any(_SETS.get(each) == deployment for each in others)

    def _observe(self) -> None:
        for uid in sorted(self.unseen)[:1]:
            self.unseen.discard(uid)
            self.replica.observe(uid)

    def _delete(self) -> None:
        seen = sorted(self.stored.keys() - self.unseen)
        if seen:
            uid = self.random.choice(seen)
            del self.stored[uid]
            self.ended.discard(uid)
            self.replica.delete_pod(uid)

    def _end(self) -> None:
        running = sorted(self.stored.keys() - self.unseen - self.ended)
        if running:
            uid = self.random.choice(running)
            self.ended.add(uid)
            self.replica.revision += 1
            pod = self.replica.stored_pods[uid]
            pod["status"]["phase"] = "Succeeded"
            pod["metadata"]["resourceVersion"] = str(self.replica.revision)
            self.replica.observe(uid)

    def _reconcile(self) -> None:
        self.replica.reconcile(1)


def _find_by_label(_: Any, metadata: ObjectMeta) -> Revision | None:
    labels = metadata.labels or {}
    return Revision(labels.get("app", ""), labels.get("revision", ""))


def _find_by_name(_: Any, metadata: ObjectMeta) -> Revision | None:
    reference = find_controller(metadata)
    return None if reference is None else Revision((reference.name or "").rpartition("-")[0], reference.name or "")


def _find_any_set(_: Any, metadata: ObjectMeta) -> Revision | None:
    reference = find_controller(metadata)
    return None if reference is None else Revision("", reference.uid or "")


def _has_any_pod(_: Any, _own: Revision, _metadata: ObjectMeta, others: Iterator[ObjectMeta]) -> bool:
    return any(True for _ in others)


def _read_by_name(_: Any, _namespace: str, reference: OwnerReference, _targets: Any) -> StoredController | None:
    deployment = _SETS.get(reference.name or "", "")
    parent = OwnerReference("Deployment", deployment, f"uid-{deployment}", controller=True) if deployment else None
    return StoredController(parent, 0.0)


def _find_violation() -> str:
    """Return the first violation of the histories, or an empty text."""
    for seed in range(_MAX_HISTORIES):
        try:
            _World(seed).play()
        except ViolationError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("start", range(0, _HISTORIES, 10), ids=lambda start: f"from {start}")
def test_only_pods_of_controllers_that_roll_exceed_the_cap(start: int) -> None:
    for seed in range(start, start + examples(10)):
        _World(seed).play()


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        pytest.param(_Finder, "find_revision", _find_by_label, id="labels of the pods tell revisions"),
        pytest.param(_Finder, "find_revision", _find_by_name, id="the name of a controller tells its Deployment"),
        pytest.param(_Finder, "find_revision", _find_any_set, id="two controllers of any kind are a rollout"),
        pytest.param(_Finder, "has_other_revision", _has_any_pod, id="any other pod is one of another revision"),
        pytest.param(OwnerChains, "read_controller", _read_by_name, id="a controller is read by its name alone"),
    ],
)
def test_a_wrong_way_to_find_a_rollout_violates_an_invariant(owner: type, name: str, wrong: Any) -> None:
    with patch.object(owner, name, wrong):
        assert _find_violation().startswith("shared")
