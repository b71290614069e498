"""The admitted changes of annotations that set limits: which become records, and which are forgotten."""

import json
from contextlib import nullcontext
from typing import Any

import pytest

from tallygate.admission.request import UPDATE, AdmissionRequest, UserInfo
from tallygate.gate.limit_admissions import AdmittedLimit, LimitAdmissions
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.state.informers.named_stores import NamespaceRecord
from tests.gate.gate_fixture import CAP, GateFixture, response

READ = CAP + "  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}\n"
TEXT, OTHER = "nvidia.com/gpu=7", "nvidia.com/gpu=8"


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _create_namespace(uid: str = "u1", **texts: str) -> dict[str, Any]:
    annotations = {f"{ANNOTATION_PREFIX}{cap}": text for cap, text in texts.items()}
    return {"kind": "Namespace", "metadata": {"name": "team-a", "uid": uid, "annotations": annotations}}


class _Cluster:
    """The namespace of a cluster as a watch shows it, and the pending changes of one replica."""

    def __init__(self) -> None:
        self.now = 0.0
        self.namespace: NamespaceRecord | None = None
        self.admissions = LimitAdmissions(lambda: self.now, nullcontext())

    def admit(self, new: dict[str, Any], old: dict[str, Any] | None = None, *, dry_run: bool = False) -> None:
        """Add the changes of one admitted write."""
        user, old_object = UserInfo("ann"), None if old is None else _encode(old)
        self.admissions.add(AdmissionRequest("Namespace", UPDATE, _encode(new), old_object, user=user, dry_run=dry_run))

    def store(self, uid: str = "u1", **texts: str) -> None:
        """Let the watch show the namespace with these annotations."""
        self.namespace = NamespaceRecord(uid, "team-a", 1, {}, limit_texts=texts)

    def list_stored(self) -> list[tuple[str, str | None]]:
        """Return cap and text of the changes that are to be recorded."""
        stored = self.admissions.list_stored(lambda _: self.namespace)
        assert {(each.namespace_uid, each.namespace, each.user) for each in stored} <= {("u1", "team-a", "ann")}
        return [(each.cap, each.text) for each in stored]


@pytest.fixture
def cluster() -> _Cluster:
    """Return a cluster without the namespace."""
    return _Cluster()


def test_a_change_is_recorded_once_the_watch_shows_it_stored(cluster: _Cluster) -> None:
    cluster.admit(_create_namespace(gpus=TEXT))
    assert cluster.list_stored() == []
    cluster.store(gpus=TEXT)
    assert cluster.list_stored() == [("gpus", TEXT)]
    cluster.admissions.remove([AdmittedLimit("u1", "team-a", "gpus", TEXT, "ann")])
    assert cluster.list_stored() == []


def test_a_change_that_a_later_webhook_denied_is_not_recorded_and_the_stored_one_is(cluster: _Cluster) -> None:
    cluster.admit(_create_namespace(gpus=TEXT), _create_namespace())
    cluster.admit(_create_namespace(gpus=OTHER), _create_namespace(gpus=TEXT))
    cluster.store(gpus=TEXT)
    assert cluster.list_stored() == [("gpus", TEXT)]


def test_a_removal_is_recorded_once_the_annotation_is_removed(cluster: _Cluster) -> None:
    cluster.store(gpus=TEXT)
    cluster.admit(_create_namespace(), _create_namespace(gpus=TEXT))
    assert cluster.list_stored() == []
    cluster.store()
    assert cluster.list_stored() == [("gpus", None)]


def test_a_later_namespace_of_the_same_name_gets_no_record(cluster: _Cluster) -> None:
    cluster.admit(_create_namespace(gpus=TEXT))
    cluster.store("u2", gpus=TEXT)
    assert cluster.list_stored() == []


def test_a_dry_run_and_an_object_without_uid_are_never_recorded(cluster: _Cluster) -> None:
    cluster.admit(_create_namespace(gpus=TEXT), dry_run=True)
    cluster.admit(_create_namespace("", gpus=TEXT))
    cluster.store(gpus=TEXT)
    assert cluster.list_stored() == []


def test_a_change_that_is_never_stored_is_forgotten_after_ten_minutes(cluster: _Cluster) -> None:
    cluster.admit(_create_namespace(gpus=TEXT))
    cluster.now = 601.0
    cluster.store(gpus=TEXT)
    assert cluster.list_stored() == []


def test_forged_reviews_leave_a_thousand_pending_changes_at_most(cluster: _Cluster) -> None:
    for number in range(1500):
        cluster.admit(_create_namespace(**{f"cap-{number}": TEXT}))
    cluster.store(**{f"cap-{number}": TEXT for number in range(1500)})
    assert [cap for cap, _ in cluster.list_stored()] == [f"cap-{number}" for number in range(500, 1500)]


def test_the_gate_adds_what_it_admits_and_nothing_that_it_denies(cluster: _Cluster) -> None:
    fixture = GateFixture(READ, limit_admissions=cluster.admissions)
    kind = {"group": "", "kind": "Namespace"}
    fields: dict[str, Any] = {"kind": kind, "name": "team-a", "oldObject": _create_namespace()}
    tenant, admin = ({"username": name, "groups": groups} for name, groups in (("tom", []), ("ann", ["admins"])))
    cluster.store(gpus=TEXT)
    assert not response(fixture.admit(_create_namespace(gpus=TEXT), **fields, userInfo=tenant))["allowed"]
    assert cluster.list_stored() == []
    assert response(fixture.admit(_create_namespace(gpus=TEXT), **fields, userInfo=admin))["allowed"]
    assert cluster.list_stored() == [("gpus", TEXT)]
