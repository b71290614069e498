"""Caps that count GPUs requested by annotations: creates, changes, recounts, and annotations that no cap counts."""

from collections.abc import Mapping
from typing import Any

import pytest

from tallygate.state.ledger.ledger import compute_drift
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import GPU, GateFixture, response

FRACTION, MEMORY, COUNT = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
HEAD = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: ["team-*"]}
"""
PARTS = f"{HEAD}  hard: {{parts: 4000}}\n  counts: {{parts: {{annotation: gpu-fraction, weights: {{{GPU}: 1000}}}}}}\n"
GPUS = f"{HEAD}  hard: {{{GPU}: 4}}\n"
NONE = PARTS.replace("name: gpus", "name: parts").replace("4000", "0")


def create_pod(uid: str, annotations: Mapping[str, str], gpus: int = 0) -> dict[str, Any]:
    """Return a pod with these annotations."""
    container = {"name": "a", "resources": {"limits": {GPU: f"{gpus}"}} if gpus else {}}
    metadata = {"uid": uid, "name": uid, "annotations": dict(annotations)}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def create_deployment(annotations: Mapping[str, str]) -> dict[str, Any]:
    pod = create_pod("", annotations)
    template = {"metadata": {"annotations": dict(annotations)}, "spec": pod["spec"]}
    return {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3, "template": template}}


def read_message(fixture: GateFixture, pod: dict[str, Any], **request: Any) -> str:
    body = response(fixture.admit(pod, **request))
    message: str = "" if body["allowed"] else body["status"]["message"]
    return message.partition('": ')[2]


def read_warnings(fixture: GateFixture, object_: dict[str, Any], **request: Any) -> list[str]:
    body = response(fixture.admit(object_, **request))
    assert body["allowed"]
    return [each.partition('": ')[2] for each in body.get("warnings", [])]


def test_half_of_each_of_eight_gpus_is_four() -> None:
    fixture = GateFixture(PARTS)
    assert not read_message(fixture, create_pod("u1", {FRACTION: "0.25", COUNT: "8"}, gpus=1))
    assert fixture.read_reserved() == {"parts": 3000}
    assert read_message(fixture, create_pod("u2", {FRACTION: "0.5", COUNT: "8"})).startswith(
        "cap gpus of this namespace exceeded: requested 4000 parts (0.5 gpu-fraction × 8 gpu-fraction-num-devices "
        "× 1000 = 4000 parts), used 0, reserved 3000, hard 4000, free 1000"
    )


def test_pods_with_equal_resources_and_other_annotations_count_differently() -> None:
    fixture = GateFixture(PARTS)
    for uid, text in (("u1", "0.1"), ("u2", "0.2"), ("u3", "0.1")):
        assert not read_message(fixture, create_pod(uid, {FRACTION: text}))
    assert not read_message(fixture, create_pod("u4", {}))
    assert fixture.read_reserved() == {"parts": 400}


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        pytest.param({FRACTION: "half"}, '"half" is not an amount: write a decimal number, as in 0.5', id="fraction"),
        pytest.param(
            {FRACTION: "1", COUNT: "x"}, '"x" is not an amount: write a whole number from 1 on, as in 2', id="count"
        ),
    ],
)
def test_an_annotation_that_is_no_amount_is_denied(annotations: dict[str, str], message: str) -> None:
    field = list(annotations)[-1]
    wrong = create_pod("u1", annotations)
    assert read_message(GateFixture(PARTS), wrong) == (
        f"metadata.annotations[{field}]: cap gpus counts parts by annotations, and {message} (TG203, cap gpus)"
    )
    assert not read_message(GateFixture(PARTS), wrong, oldObject=wrong)
    assert f"metadata.annotations[{field}]" in read_message(GateFixture(PARTS), wrong, oldObject=create_pod("u1", {}))


def test_a_template_with_an_annotation_that_is_no_amount_is_reported() -> None:
    request = {"kind": {"group": "apps", "kind": "Deployment"}, "name": "d"}
    (warning,) = read_warnings(GateFixture(PARTS), create_deployment({FRACTION: "half"}), **request)
    assert warning.startswith("spec.template.metadata.annotations[gpu-fraction]: cap gpus counts parts by annotations")


def test_the_pods_of_a_workload_are_forecast_by_their_annotations() -> None:
    request = {"kind": {"group": "apps", "kind": "Deployment"}, "name": "d"}
    assert not read_warnings(GateFixture(PARTS), create_deployment({FRACTION: "0.5"}), **request)
    (warning,) = read_warnings(GateFixture(PARTS), create_deployment({FRACTION: "0.5", COUNT: "4"}), **request)
    assert warning.startswith("3 replicas request 6000 parts")


def test_a_change_of_the_annotation_is_charged_like_a_resize() -> None:
    fixture = GateFixture(PARTS)
    small, large = create_pod("u1", {FRACTION: "0.5"}), create_pod("u1", {FRACTION: "0.5", COUNT: "9"})
    assert not read_message(fixture, small)
    assert "requested 4000 parts on top of 500" in read_message(fixture, large, oldObject=small)
    medium = create_pod("u1", {FRACTION: "0.5", COUNT: "4"})
    assert not read_message(fixture, medium, oldObject=small)
    assert fixture.read_reserved() == {"parts": 2000}


def store(replica: ClaimReplica, uid: str, annotations: Mapping[str, str]) -> None:
    """Store a pod with these annotations, and deliver its watch event."""
    replica.store_pod(uid, 0)["metadata"]["annotations"] = {"example.com/other": uid, **annotations}
    replica.observe(uid)


def test_stored_pods_are_recounted_by_their_annotations() -> None:
    replica = create_claim_replica(PARTS, {})
    store(replica, "u1", {FRACTION: "0.5", COUNT: "4"})
    store(replica, "u2", {FRACTION: "0.75"})
    store(replica, "u3", {FRACTION: "half"})
    replica.reconcile()
    before = replica.read_ledger()
    assert before.used == {"parts": 2750}
    store(replica, "u2", {FRACTION: "0.25"})
    replica.reconcile()
    assert replica.read_ledger().used == {"parts": 2250}
    replica.load_policies(PARTS.replace("gpu-fraction", "gpu-memory"))
    replica.synced_at = replica.now
    replica.reconcile()
    after = replica.read_ledger()
    assert after.used == {}
    assert not compute_drift(before, after)


@pytest.mark.parametrize("annotation", [FRACTION, MEMORY, "nvidia.com/container.a.gpu-memory.limit"])
def test_an_annotation_that_no_cap_counts_is_reported(annotation: str) -> None:
    (warning,) = read_warnings(GateFixture(GPUS), create_pod("u1", {annotation: "1"}))
    kind = FRACTION if annotation == FRACTION else MEMORY
    assert warning == (
        f"metadata.annotations[{annotation}]: the annotation requests GPUs of KAI-Scheduler or Run:ai, and no cap "
        f"counts it: cap gpus counts {GPU}, of which the pod costs none; count it by "
        f"`counts: {{NAME: {{annotation: {kind}}}}}`, with a limit of 0 to allow none (TG219, cap gpus)"
    )


@pytest.mark.parametrize(
    ("policies", "annotations"),
    [
        pytest.param(PARTS, {FRACTION: "1"}, id="a cap counts it"),
        pytest.param(f"{GPUS}---{PARTS.replace('name: gpus', 'name: p')}", {FRACTION: "1"}, id="another cap counts it"),
        pytest.param(GPUS, {COUNT: "2"}, id="the number of GPUs alone requests none"),
        pytest.param(f"{HEAD}  hard: {{cpu: 4}}\n", {FRACTION: "1"}, id="no cap limits GPUs"),
        pytest.param(f"{GPUS}  pods: {{nodeSelector: {{a: b}}}}\n", {FRACTION: "1"}, id="the cap counts other pods"),
    ],
)
def test_nothing_is_reported(policies: str, annotations: dict[str, str]) -> None:
    assert read_warnings(GateFixture(policies), create_pod("u1", annotations)) == []


def test_a_cap_that_counts_one_annotation_reports_another() -> None:
    (warning,) = read_warnings(GateFixture(PARTS), create_pod("u1", {FRACTION: "1", MEMORY: "1"}))
    assert warning.startswith("metadata.annotations[gpu-memory]: ")


def test_workloads_are_reported_once() -> None:
    request = {"kind": {"group": "apps", "kind": "Deployment"}, "name": "d"}
    deployment = create_deployment({FRACTION: "0.5"})
    (warning,) = read_warnings(GateFixture(GPUS), deployment, **request)
    assert warning.startswith("spec.template.metadata.annotations[gpu-fraction]: the annotation requests GPUs")
    assert read_warnings(GateFixture(GPUS), deployment, oldObject=deployment, **request) == []
    stopped = {**deployment, "spec": {**deployment["spec"], "replicas": 0}}
    assert read_warnings(GateFixture(GPUS), stopped, **request) == []


def test_a_limit_of_0_allows_no_pod_with_the_annotation() -> None:
    fixture = GateFixture(f"{GPUS}---{NONE}")
    assert "The cap allows none in this namespace" in read_message(fixture, create_pod("u1", {FRACTION: "0.5"}))
    assert "is not an amount" in read_message(fixture, create_pod("u2", {FRACTION: "half"}))
