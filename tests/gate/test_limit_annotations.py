"""Limits that an annotation of a namespace sets: who may change it, what is valid, and when replicas apply it."""

import itertools
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tallygate.admission.cap_sources import CapSources
from tallygate.admission.request import ReviewError
from tallygate.gate.gate import Gate
from tallygate.policy.limit_annotations import ANNOTATION_PREFIX
from tallygate.review.view import ClusterView
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, response
from tests.gate.replica_fixture import ReplicaFixture, create_active_replica
from tests.state.fixed_namespaces import FixedNamespaces

END = datetime(2026, 12, 4, 18, tzinfo=UTC)
BEFORE, SECOND = END - timedelta(hours=1), timedelta(seconds=1)
READ = CAP + "  overrideAnnotation: {setBy: {groups: [admins]}, most: {nvidia.com/gpu: 8}}\n"
RAISED = READ + "  overrides: [{hard: {nvidia.com/gpu: 6}}]\n"
TEXT = "nvidia.com/gpu=7 until=2026-12-04T18:00:00Z"
ADMIN = {"username": "ann", "groups": ["system:authenticated", "admins"]}


def _create_replica(text: str = READ, **texts: str) -> ReplicaFixture:
    """Return an active replica that leads, an hour before the end, with these annotations of team-a by cap."""
    replica = create_active_replica(text)
    replica.follow_gate()
    replica.utc = BEFORE
    replica.annotate_namespace("team-a", **texts)
    replica.reconcile()
    return replica


def _review(
    new: dict[str, str] | None, old: dict[str, str] | None, policies: str = READ, **request: Any
) -> dict[str, Any]:
    """Return the response to a write of namespace team-a with these annotations by cap; without `old` a create."""

    def create_namespace(texts: dict[str, str]) -> dict[str, Any]:
        annotations = {f"{ANNOTATION_PREFIX}{cap}": text for cap, text in texts.items()} | {"other": "x"}
        return {"kind": "Namespace", "metadata": {"name": "team-a", "annotations": annotations}}

    fields: dict[str, Any] = {"kind": {"group": "", "kind": "Namespace"}, "name": "team-a", "userInfo": ADMIN}
    if old is not None:
        fields["oldObject"] = create_namespace(old)
    return response(GateFixture(policies).admit(create_namespace(new or {}), **fields | request))


def _read_message(answer: dict[str, Any]) -> str:
    assert not answer["allowed"]
    assert answer["status"]["code"] == 403
    return str(answer["status"]["message"])


@pytest.mark.parametrize(
    ("new", "old", "subresource"),
    [
        pytest.param({"gpus": TEXT}, None, "", id="created with it"),
        pytest.param({"gpus": TEXT}, {}, "", id="added"),
        pytest.param({"gpus": TEXT}, {"gpus": "nvidia.com/gpu=5"}, "", id="changed"),
        pytest.param({}, {"gpus": TEXT}, "", id="removed"),
        pytest.param({"gpus": TEXT}, {}, "status", id="added with the status"),
        pytest.param({}, {"gpus": TEXT}, "finalize", id="removed with a finalizer"),
    ],
)
def test_only_an_admin_may_change_the_annotation(
    new: dict[str, str], old: dict[str, str] | None, subresource: str
) -> None:
    fields = {"subResource": subresource}
    assert _review(new, old, **fields)["allowed"]
    message = _read_message(_review(new, old, userInfo={"username": "tom", "groups": ["tenants"]}, **fields))
    assert (
        "metadata.annotations[limits.tallygate.dev/gpus]: it sets limits of cap gpus, and tom may not add, change or "
        "remove it: only the groups admins may (TG216, cap gpus)"
    ) in message


def test_a_tenant_may_change_all_else_of_an_annotated_namespace() -> None:
    tenant = {"username": "tom", "groups": ["tenants"]}
    assert _review({"gpus": TEXT}, {"gpus": TEXT}, userInfo=tenant)["allowed"]
    assert _review({}, {}, userInfo=tenant)["allowed"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 'the text is empty; write "nvidia.com/gpu=8 until=2026-12-04T18:00:00Z", or without until for no end'),
        ("12", '"12" is not NAME=AMOUNT; write "nvidia.com/gpu=8 until='),
        ("nvidia.com/gpu=", '"nvidia.com/gpu=" is not NAME=AMOUNT'),
        ("nvidia.com/gpu=7 nvidia.com/gpu=6", "nvidia.com/gpu is there twice; keep one"),
        ("nvidia.com/gpu=7 requests.nvidia.com/gpu=6", "nvidia.com/gpu is there twice; keep one"),
        ("nvidia.com/gpu=7 until=2026-12-04 until=2026-12-05", "until is there twice; keep one"),
        ("nvidia.com/gpus=7", 'the annotation may not set "nvidia.com/gpus"; did you mean nvidia.com/gpu?'),
        ("cpu=7", 'the annotation may not set "cpu"; it may set nvidia.com/gpu'),
        ("nvidia.com/gpu=seven", 'nvidia.com/gpu: "seven" '),
        ("nvidia.com/gpu=-1", "nvidia.com/gpu: -1 is negative; write 0 or more"),
        ("nvidia.com/gpu=1500m", "nvidia.com/gpu: 1500m is a fraction of what is counted in whole units; write 2"),
        ("nvidia.com/gpu=9", "nvidia.com/gpu: 9 is more than an annotation may give; write 8 or less"),
        ("until=2026-12-04", "the text has an end and no limit; write"),
        ("nvidia.com/gpu=7 until=tomorrow", "until=tomorrow: write a time with its zone, as in 2026-12-04T18:00:00Z"),
        ("nvidia.com/gpu=7 until=2026-02-30", "until=2026-02-30: "),
        ("nvidia.com/gpu=7 " * 300, "the text is longer than 4096 characters"),
    ],
)
def test_an_annotation_that_is_not_valid_is_denied_with_one_that_is(text: str, expected: str) -> None:
    message = _read_message(_review({"gpus": text}, {}))
    assert f"metadata.annotations[limits.tallygate.dev/gpus]: {expected}" in message
    assert message.count("TG216") == 1


@pytest.mark.parametrize(
    "text", ["nvidia.com/gpu=8", " requests.nvidia.com/gpu=0\n", "until=2026-12-04 nvidia.com/gpu=7"]
)
def test_a_valid_annotation_is_admitted(text: str) -> None:
    assert _review({"gpus": text}, {})["allowed"]


@pytest.mark.parametrize(
    ("policies", "name", "expected"),
    [
        (READ, "gpu", 'no cap of the name gpu reads it; did you mean "gpus"?; remove it'),
        (READ, "memory", "no cap of the name memory reads it; these do: gpus; remove it"),
        (CAP, "gpus", "no cap of the name gpus reads it; remove it"),
    ],
)
def test_an_annotation_that_no_cap_reads_is_denied_and_may_be_removed(policies: str, name: str, expected: str) -> None:
    assert f"[limits.tallygate.dev/{name}]: {expected} (TG216)" in _read_message(_review({name: TEXT}, {}, policies))
    assert _review({}, {name: TEXT}, policies, userInfo={"username": "tom"})["allowed"]


def test_an_invalid_namespace_is_a_review_error() -> None:
    with pytest.raises(ReviewError, match="the object is not a Namespace"):
        _review({"gpus": 1}, {})  # type: ignore[dict-item]


def test_an_annotation_raises_the_limit_until_its_end() -> None:
    replica = _create_replica(gpus=TEXT)
    assert replica.request_pod("u1", 7) == 200
    message = json.loads(replica.admit(pod("u2", 1)).body)["response"]["status"]["message"]
    assert "hard 7 (until 2026-12-04T18:00Z, then 4), free 0" in message
    replica.utc = END
    assert replica.request_pod("u2") == 403
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: 4}
    replica.utc = END - SECOND
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: 7}, "a clock that is set back brings it back"


@pytest.mark.parametrize(
    ("texts", "utc", "expected"),
    [
        ({}, BEFORE, 6),
        ({"gpus": TEXT}, BEFORE, 7),
        ({"gpus": "nvidia.com/gpu=2 until=2026-12-04T18:00:00Z"}, BEFORE, 2),
        ({"gpus": TEXT}, END, 6),
        ({"gpus": "nvidia.com/gpu=9"}, BEFORE, 6),
        ({"gpus": "none"}, BEFORE, 6),
        ({"other": TEXT}, BEFORE, 6),
    ],
    ids=["none", "a raise", "a lower limit", "ended", "above the bound", "not valid", "of another cap"],
)
def test_a_valid_annotation_that_has_not_ended_comes_before_the_overrides_of_the_policy(
    texts: dict[str, str], utc: datetime, expected: int
) -> None:
    replica = _create_replica(RAISED, **texts)
    replica.utc = utc
    replica.reconcile()
    assert replica.read_ledger().hard == {GPU: expected}


def test_another_namespace_keeps_its_limit() -> None:
    replica = ReplicaFixture(READ, ("team-a", "team-b"))
    replica.follow_gate()
    replica.utc = BEFORE
    replica.annotate_namespace("team-a", gpus=TEXT)
    replica.activate_ledgers()
    assert [replica.read_ledger(name).hard[GPU] for name in ("team-a", "team-b")] == [7, 4]


def test_a_cap_without_the_field_reads_no_annotation_and_is_not_indexed_again() -> None:
    replica = _create_replica(CAP, gpus=TEXT)
    before = replica.gate.get_active_caps()
    replica.annotate_namespace("team-a", gpus="nvidia.com/gpu=8")
    assert replica.gate.get_active_caps() is before
    assert replica.read_ledger().hard == {GPU: 4}


def test_the_limits_are_indexed_once_for_each_change_and_no_ledger_is_counted_again() -> None:
    replica = _create_replica()
    before = replica.gate.get_active_caps()
    (cap,) = before.list_caps()
    revisions = replica.usage_lister.get_required_revisions(cap)
    replica.label_namespace("team-b")
    assert replica.gate.get_active_caps() is before, "a namespace without an annotation changes nothing"
    replica.now += 10.0
    replica.annotate_namespace("team-a", gpus=TEXT)
    after = replica.gate.get_active_caps()
    assert after is not before
    assert after is replica.gate.get_active_caps()
    assert [each.active_key for each in after.list_caps()] == [cap.active_key]
    assert replica.usage_lister.get_required_revisions(after.list_caps()[0]) == revisions
    replica.delete_namespace("team-a")
    assert replica.gate.get_active_caps() is not after


class _StaleReplica:
    """A second replica with the ledgers of the first, whose view of namespaces has the events until now only."""

    def __init__(self, replica: ReplicaFixture) -> None:
        annotations = replica.namespaces.get_limit_annotations()
        nonces = itertools.count()
        self._replica = replica
        self._gate = Gate(
            policies=lambda: replica.policies,
            view=ClusterView(
                namespaces=FixedNamespaces({"team-a": {}}),
                usage_lister=replica.usage_lister,
                cap_sources=lambda: CapSources(annotations=annotations),
            ),
            ledgers=replica.ledgers,
            monotonic=lambda: replica.now,
            nonce=lambda: f"stale-{next(nonces)}",
            unix_time=replica.read_unix_time,
        )

    def request_pod(self, uid: str, gpus: int) -> int:
        """Return the status code of a review of the creation of a pod by this replica."""
        own = self._replica.gate
        self._replica.gate = self._gate
        try:
            return self._replica.request_pod(uid, gpus)
        finally:
            self._replica.gate = own


def test_a_stale_replica_applies_the_smaller_of_its_limit_and_that_of_the_leader() -> None:
    """Raise the limit, then remove the raise: in both cases one replica still sees the annotations of before."""
    replica = _create_replica()
    stale = _StaleReplica(replica)
    replica.annotate_namespace("team-a", gpus=TEXT)
    assert replica.request_pod("u1", 5) == 403, "the leader has not written the limit yet"
    replica.reconcile()
    assert stale.request_pod("u1", 5) == 403, "its own limit is the smaller one"
    assert replica.request_pod("u1", 5) == 200
    stale = _StaleReplica(replica)
    replica.annotate_namespace("team-a")
    assert stale.request_pod("u2", 1) == 200, "both its view and the ledger are from before the removal"
    assert replica.request_pod("u3", 1) == 403
    replica.reconcile()
    assert stale.request_pod("u4", 1) == 403, "the leader has written the limit"
    assert replica.read_ledger().hard == {GPU: 4}
