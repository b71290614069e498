"""The time since which a limit is exceeded: what shows it, and what does not."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from tallygate.answers.usage_report import LedgerChoice, UsageLine, compute_usage_of_caps
from tallygate.objects.scheduling import SchedulingPod
from tallygate.state.informers.pod_records import PodRecord
from tallygate.state.informers.pod_store import PodStore
from tests.answers.asked_clusters import NOW, Object, build_state, create_idle_cache, read_policies

GPU = "nvidia.com/gpu"
_NAMESPACE: Object = {"kind": "Namespace", "metadata": {"name": "team-a"}}


def create_pod(number: int, requests: dict[str, str], created: str | None = "", **more: Any) -> Object:
    """Return a stored pod, which is created at the hour of its number unless another time or None is given."""
    time = f"2026-01-01T{number:02}:00:00Z" if created == "" else created
    meta = {"name": f"p{number}", "namespace": "team-a", "uid": f"uid-{number}", "creationTimestamp": time}
    container = {"name": "main", "image": "x", "resources": {"requests": requests, "limits": requests}}
    return {"kind": "Pod", "metadata": meta, "spec": {"nodeName": "a", "containers": [container]}, **more}


def create_claim(name: str, created: str, **status: Any) -> Object:
    """Return a stored claim for a device of the class `gpus`."""
    meta = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "creationTimestamp": created}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]
    return {"kind": "ResourceClaim", "metadata": meta, "spec": {"devices": {"requests": requests}}, "status": status}


def find_line(spec: str, objects: Sequence[Object]) -> UsageLine:
    """Return the line of a cap over the namespace of these objects."""
    policies = read_policies(
        "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: cap}\n"
        f"spec: {{namespaces: {{include: [team-a]}}, {spec}}}\n"
    )
    state = build_state([_NAMESPACE, *objects])
    (line,) = compute_usage_of_caps(state, state.index_caps(policies, NOW), LedgerChoice())[0].lines
    return line


def find_time(spec: str, objects: Sequence[Object]) -> str | None:
    """Return the hour since which the limit is exceeded."""
    since = find_line(spec, objects).exceeded_since
    return None if since is None else since.isoformat()[11:13]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("hard: {nvidia.com/gpu: 1}", "02"),
        ("hard: {nvidia.com/gpu: 4}", "03"),
        ("soft: {nvidia.com/gpu: 4}", "03"),
        ("hard: {nvidia.com/gpu: 3}, soft: {nvidia.com/gpu: 1}", "03"),
        ("hard: {nvidia.com/gpu: 5}", None),
        ("hard: {units: 9}, counts: {units: {weights: {nvidia.com/gpu: 3}}}", "03"),
        ("hard: {pods: 1}", "02"),
        ("hard: {cpu: 1}", None),
        ("hard: {requests.memory: 1Gi}", None),
        ("hard: {limits.cpu: 1}", None),
    ],
)
def test_the_pods_that_count_now_show_since_when_they_exceed_a_limit(spec: str, expected: str | None) -> None:
    amounts = {GPU: "1", "cpu": "1", "memory": "1Gi"}
    pods = [create_pod(3, amounts | {GPU: "2"}), create_pod(2, amounts | {GPU: "2"}), create_pod(1, amounts)]
    assert find_time(spec, pods) == expected


@pytest.mark.parametrize(
    "other",
    [
        create_pod(2, {GPU: "1"}, status={"phase": "Succeeded"}),
        create_pod(2, {GPU: "1"}, None),
    ],
    ids=["ended", "without a time"],
)
def test_a_pod_that_shows_nothing_is_left_out(other: Object) -> None:
    pods = [create_pod(number, {GPU: "1"}) for number in (1, 3)]
    assert find_time("hard: {nvidia.com/gpu: 1}", [*pods, other]) == "03"


def test_amounts_by_annotations_show_nothing() -> None:
    pod = create_pod(1, {})
    pod["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    line = find_line("hard: {gpus: 100}, counts: {gpus: {annotation: gpu-fraction}}", [pod])
    assert (line.exceeded_limit, line.exceeded_since) == ("hard", None)


def test_a_claim_counts_since_its_creation() -> None:
    claims = [create_claim("one", "2026-01-01T04:00:00Z"), create_claim("two", "2026-01-01T05:00:00Z")]
    assert find_time("hard: {deviceclass.resource.kubernetes.io/gpus: 1}", claims) == "05"


def test_the_record_of_a_server_has_the_time_too() -> None:
    codec = create_idle_cache().create_pod_codec(PodStore())
    meta = {"resourceVersion": "1"}
    pod = create_pod(1, {GPU: "1"})
    pod["metadata"] |= meta
    record = codec.create_record(msgspec.json.decode(json.dumps(pod), type=SchedulingPod))
    assert isinstance(record, PodRecord)
    assert record.created == NOW.timestamp() - 9 * 3600
