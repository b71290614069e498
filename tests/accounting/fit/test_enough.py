"""What is told without placing copies is what placing them comes to."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.accounting.cluster import Cluster, take
from webhook.accounting.fit.advertised import advertised, advertisers, is_advertised
from webhook.accounting.fit.enough import is_enough
from webhook.accounting.fit.never import never
from webhook.accounting.fit.room import room_for
from webhook.objects.scheduling import PlacedPod, PlacedSpec

_GPU = "nvidia.com/gpu"
_NEAR = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
]}}  # fmt: skip


def made(*gpus: int) -> Cluster:
    """Nodes with so many GPUs each."""
    cluster = Cluster()
    for name, amount in zip("abcdef", gpus, strict=False):
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        node = {"metadata": meta, "status": {"allocatable": {_GPU: str(amount), "pods": "3"}}}
        take(cluster, "Node", json.dumps(node).encode())
    return cluster


def newcomer(gpus: int, **spec: Any) -> PlacedPod:
    """A pod with so many GPUs."""
    container = {"name": "c", "resources": {"requests": {_GPU: str(gpus)}, "limits": {_GPU: str(gpus)}}}
    body = {
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {"containers": [container], "priority": 0, **spec},
    }
    return msgspec.json.decode(json.dumps(body), type=PlacedPod)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4),
    st.integers(0, 3),
    st.integers(1, 8),
    st.sampled_from([{}, {"affinity": _NEAR}]),
)
def test_what_is_surely_enough_is_found_by_placing(
    gpus: list[int], each: int, copies: int, spec: dict[str, Any]
) -> None:
    cluster, pod = made(*gpus), newcomer(each, **spec)
    placed = len(room_for(pod, cluster, copies).places)
    told = is_enough(pod, cluster, copies)
    assert told is (placed == copies) if copies == 1 or not spec else not told


@pytest.mark.parametrize(("gpus", "hopeless"), [(4, False), (5, True)])
def test_what_can_never_be_is_told_with_the_largest(gpus: int, *, hopeless: bool) -> None:
    found = never(newcomer(gpus), made(4, 2, 0))
    assert (found is not None) is hopeless
    assert found is None or found.largest == {_GPU: 4}


def test_a_pod_without_a_priority_is_judged_as_well() -> None:
    pod = newcomer(5)
    assert pod.spec is not None
    assert never(PlacedPod(pod.metadata, PlacedSpec(containers=pod.spec.containers)), made(4)) is not None


def test_who_advertises_is_who_has_some() -> None:
    cluster = made(0, 2, 1)
    assert advertised(cluster) == [_GPU, "pods"]
    assert advertisers(cluster, _GPU, 5) == ["b", "c"]
    assert advertisers(cluster, _GPU, 1) == ["b"]
    assert not is_advertised(cluster, "example.com/other")
    cluster.remove_node("b")
    cluster.remove_node("c")
    assert not is_advertised(cluster, _GPU)
