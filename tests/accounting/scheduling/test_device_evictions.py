"""Pods that would have to end for a pod without devices: it fits then, and not if one of them stays."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.accounting.scheduling.evictions import EvictionOption, find_eviction_options
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import claim, claim_template, device_class, device_slice, request
from tests.accounting.scheduling.product_scheduler import create_full_cluster
from tests.effort import examples

Json = dict[str, Any]

_RESOURCE = "example.com/gpu"
_SPECIAL = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
_SLICES = [device_slice("a", ["a0", "a1"]), device_slice("b", ["b0"])]


def _own(name: str, **metadata: Any) -> Json:
    """Return the metadata of a claim that was made for a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [owner], **metadata}


def _claiming(name: str = "c", **spec: Any) -> Json:
    return pod("new", resourceClaims=[{"name": "x", "resourceClaimName": name}], **spec)


def _create(pods: Sequence[Json], objects: Sequence[Json], *slices: Json) -> Cluster:
    nodes = [node("a", cpu="4"), node("b", cpu="4")]
    return create_full_cluster(nodes, pods, [device_class(resource=_RESOURCE), *(slices or _SLICES), *objects])


def _find(cluster: Cluster, written: Json, *kept: str) -> tuple[EvictionOption, ...]:
    incoming = IncomingPod.from_pod(decode_pod(written))
    return find_eviction_options(incoming, cluster, cluster.nodes.get_indices().tolist(), kept)


def _describe(options: tuple[EvictionOption, ...]) -> list[tuple[str, list[str], list[str]]]:
    return [(each.node, [one.name for one in each.pods], list(map(str, each.claims))) for each in options]


_ONE = "gives back 1 device of pool gpu.example.com"
_WAITING = claim("c", request(count=2))


@pytest.mark.parametrize(
    ("pods", "objects", "written", "expected"),
    [
        pytest.param(
            [pod("x", on="a")],
            [_WAITING, claim("d", allocated=["a/a0"], pods=["x"])],
            _claiming(),
            [("a", ["x"], [f"claim default/d {_ONE}/a"])],
            id="a claim that a user made",
        ),
        pytest.param(
            [pod("x", on="a"), pod("y", on="a")],
            [
                claim_template("t", request(count=2)),
                claim("d", allocated=["a/a0"], pods=["x"], metadata=_own("x")),
                claim("e", allocated=["a/a1"], pods=["y"], metadata=_own("y", **_SPECIAL)),
            ],
            {
                "metadata": {"name": "new", "namespace": "default"},
                "spec": {
                    "resourceClaims": [{"name": "x", "resourceClaimTemplateName": "t"}],
                    "containers": [{"name": "c"}],
                },
            },
            [("a", ["x", "y"], [f"claim default/d {_ONE}/a", f"claim default/e {_ONE}/a"])],
            id="claims that were made for pods",
        ),
        pytest.param(
            [pod("x", on="a"), pod("y", on="b")],
            [claim("d", allocated=["a/a0"], pods=["x"]), claim("e", allocated=["b/b0"], pods=["y"])],
            pod("new", requests={_RESOURCE: "2"}),
            [("a", ["x"], [f"claim default/d {_ONE}/a"])],
            id="an extended resource",
        ),
        pytest.param(
            [pod("x", on="a"), pod("y", on="a"), pod("z", on="a")],
            [
                claim("c"),
                claim("d", allocated=["a/a0"], pods=["x", "y"]),
                claim("e", allocated=["a/a1"], pods=["z"]),
                claim("f", allocated=["b/b0"], pods=["away"]),
            ],
            _claiming(),
            [("a", ["z"], [f"claim default/e {_ONE}/a"])],
            id="a claim that one pod uses is freed first",
        ),
        pytest.param(
            [pod("x", on="a"), pod("y", on="a")],
            [_WAITING, claim("d", allocated=["a/a0"], pods=["x", "y"])],
            _claiming(),
            [("a", ["x", "y"], [f"claim default/d {_ONE}/a"])],
            id="pods that share a claim end together",
        ),
        pytest.param(
            [pod("x", on="a")],
            [_WAITING, claim("d", allocated=["a/a0"], pods=["x", "unknown"])],
            _claiming(),
            [],
            id="a pod that is on no node keeps a claim",
        ),
        pytest.param(
            [pod("x", on="a")],
            [_WAITING, claim("d", allocated=["a/a0"])],
            _claiming(),
            [],
            id="no pod has an idle claim",
        ),
        pytest.param(
            [pod("x", on="a", priority=1)],
            [_WAITING, claim("d", allocated=["a/a0"], pods=["x"])],
            _claiming(),
            [],
            id="a pod of a higher priority keeps its devices",
        ),
        pytest.param(
            [pod("x", on="a", requests={"cpu": "4"})],
            [_WAITING, claim("d", allocated=["a/a0"], pods=["x"])],
            _claiming(requests={"cpu": "1"}),
            [("a", ["x"], [f"claim default/d {_ONE}/a"])],
            id="a pod gives its other resources back too",
        ),
        pytest.param(
            [pod("x", on="a")],
            [claim("c", allocated=["a/a0"], pods=["x"])],
            _claiming(nodeSelector={"host": "b"}),
            [("b", ["x"], [f"claim default/c {_ONE}/a"])],
            id="the claim of the pod itself is allocated again elsewhere",
        ),
    ],
)
def test_the_pods_with_devices_are_named(
    pods: Sequence[Json], objects: Sequence[Json], written: Json, expected: list[tuple[str, list[str], list[str]]]
) -> None:
    cluster = _create(pods, objects)
    before = dict(cluster.devices.claims) if cluster.devices else {}
    assert _describe(_find(cluster, written)) == expected
    assert cluster.devices is not None
    assert cluster.devices.claims == before


def test_a_pod_elsewhere_has_devices_that_several_nodes_reach() -> None:
    shared = device_slice("net", ["n0"], allNodes=True)
    cluster = _create([pod("x", on="b")], [claim("c"), claim("d", allocated=["net/n0"], pods=["x"])], shared)
    found = (["x"], [f"claim default/d {_ONE}/net"])
    assert _describe(_find(cluster, _claiming())) == [("a", *found), ("b", *found)]


def test_a_pod_that_must_stay_keeps_its_devices() -> None:
    cluster = _create([pod("x", on="a")], [_WAITING, claim("d", allocated=["a/a0"], pods=["x"])])
    assert _find(cluster, _claiming(), "uid-x") == ()


_POOLS = {"a": ["a0", "a1", "a2"], "b": ["b0", "b1"], "net": ["n0"]}
_KINDS = ("named", "template", "special", "shared")
_ALL_SLICES = [
    device_slice("a", _POOLS["a"]),
    device_slice("b", _POOLS["b"]),
    device_slice("net", _POOLS["net"], allNodes=True),
]


class _Running(NamedTuple):
    """A drawn pod on a node, with devices."""

    node: str
    priority: int
    cpu: int
    devices: int
    kind: str


_RUNNING = st.builds(
    _Running, st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2), st.sampled_from(_KINDS)
)


def _write(running: Sequence[_Running], ended: Collection[str]) -> tuple[list[Json], list[Json]]:
    """Return the pods that have not ended, and the claims as the controller leaves them."""
    free = {name: list(devices) for name, devices in _POOLS.items()}
    pods, claims = [], []
    for index, each in enumerate(running):
        name = f"p{index}"
        if name not in ended:
            pods.append(pod(name, on=each.node, priority=each.priority, requests={"cpu": f"{each.cpu}"}))
        places = [f"{pool}/{device}" for pool in (each.node, "net") for device in free[pool]][: each.devices]
        for place in places:
            free[place.split("/")[0]].remove(place.split("/")[1])
        if not places:
            continue
        users = [name, f"p{(index + 1) % len(running)}"] if each.kind == "shared" else [name]
        is_made = each.kind in {"template", "special"}
        metadata = _own(name, **(_SPECIAL if each.kind == "special" else {})) if is_made else {}
        is_released = set(users) <= set(ended)
        if not (is_released and is_made):
            allocated, reserved = ([], []) if is_released else (places, users)
            claims.append(claim(f"c{index}", allocated=allocated, pods=reserved, metadata=metadata))
    return pods, claims


@given(
    st.lists(_RUNNING, min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(0, 4),
    st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_a_pod_fits_after_the_named_pods_have_ended_and_not_before(
    running: list[_Running],
    count: int,
    cpu: int,
    is_extended: bool,  # noqa: FBT001  # hypothesis gives it by position
) -> None:
    """Keep each of the pods in turn. Without an option the pod does not fit even if all pods end that may."""
    amounts = {"cpu": f"{cpu}"} | ({_RESOURCE: f"{count}"} if is_extended else {})
    claims = [] if is_extended else [{"name": "x", "resourceClaimName": "wanted"}]
    written = pod("new", requests=amounts, priority=1, resourceClaims=claims)
    incoming = IncomingPod.from_pod(decode_pod(written))

    def find_feasible(ended: Collection[str]) -> set[str]:
        pods, objects = _write(running, ended)
        cluster = _create(pods, [*objects, claim("wanted", request(count=count))], *_ALL_SLICES)
        return {cluster.nodes.get_name(each) for each in run_filters(incoming, cluster).feasible.tolist()}

    pods, objects = _write(running, ())
    cluster = _create(pods, [*objects, claim("wanted", request(count=count))], *_ALL_SLICES)
    if len(run_filters(incoming, cluster).feasible):
        return
    options = _find(cluster, written)
    for each in options:
        names = {one.name for one in each.pods}
        assert each.node in find_feasible(names)
        for kept in names:
            assert each.node not in find_feasible(names - {kept})
    if not options:
        users = _list_users(running)
        priorities = {f"p{index}": each.priority for index, each in enumerate(running)}
        assert not find_feasible([name for name in priorities if priorities[name] <= 1 or name not in users])


def _list_users(running: Sequence[_Running]) -> set[str]:
    """Return the pods that have devices."""
    _, claims = _write(running, ())
    return {each["name"] for one in claims for each in one["status"].get("reservedFor", ())}
