"""The devices that a pod lacks on one node, in words: each case is one pool of one node."""

from collections.abc import Sequence
from typing import Any

import pytest

from tallygate.accounting.scheduling.device_shortfalls import DeviceInspector, find_device_shortfalls
from tallygate.accounting.scheduling.filters import run_filters
from tallygate.accounting.scheduling.incoming_pod import IncomingPod
from tallygate.accounting.scheduling.placement import open_placement_session
from tests.accounting.scheduling.clusters import decode_pod, node, pod
from tests.accounting.scheduling.devices import claim, claim_template, device, device_class, device_slice, request
from tests.accounting.scheduling.product_scheduler import create_full_cluster

_START = "claim default/c, request r for"
_POOL = "pool gpu.example.com/n:"
_SHARED: dict[str, Any] = {
    "allowMultipleAllocations": True,
    "capacity": {"memory": {"value": "80Gi", "requestPolicy": {"default": "10Gi", "validRange": {"min": "1Gi"}}}},
}
_SHARE = {
    "request": "r",
    "driver": "gpu.example.com",
    "pool": "n",
    "device": "d0",
    "shareID": "x",
    "consumedCapacity": {"memory": "60Gi"},
}


def _create_partition(name: str, slots: int) -> dict[str, Any]:
    counters = [{"counterSet": "card", "counters": {"slots": {"value": str(slots)}}}]
    return device(name, consumesCounters=counters)


def _first_available(*counts: int) -> dict[str, Any]:
    choices = [{"name": f"choice-{count}", "deviceClassName": "gpu", "count": count} for count in counts]
    return {"name": "r", "firstAvailable": choices}


def _allocate_share(name: str) -> dict[str, Any]:
    made = claim(name, pods=["train-0"])
    made["status"]["allocation"] = {"devices": {"results": [_SHARE]}}
    return made


def _find(objects: Sequence[dict[str, Any]], written: dict[str, Any]) -> list[tuple[int, str]]:
    cluster = create_full_cluster([node("n")], [], [device_class(resource="example.com/gpu"), *objects])
    shortfalls = find_device_shortfalls(IncomingPod.from_pod(decode_pod(written)), cluster, 0)
    return [(each.missing, str(each)) for each in shortfalls]


_CLAIMING = pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [
                device_slice("n", [device("d0", **_SHARED)]),
                claim("c", request(capacity={"requests": {"memory": "30Gi"}})),
                _allocate_share("used"),
            ],
            [
                (
                    1,
                    (
                        f"{_START} 1 device of class gpu: {_POOL} 1 device, 1 has too little capacity left besides "
                        "default/train-0, claim default/used, 0 free"
                    ),
                )
            ],
            id="another claim consumes most of a shared device",
        ),
        pytest.param(
            [
                device_slice(
                    "n",
                    [_create_partition("half", 4), _create_partition("whole", 8)],
                    pool={"resourceSliceCount": 2},
                ),
                device_slice(
                    "n",
                    [],
                    pool={"resourceSliceCount": 2},
                    sharedCounters=[{"name": "card", "counters": {"slots": {"value": "8"}}}],
                )
                | {"metadata": {"name": "counters"}},
                claim("c"),
                claim("used", allocated=["n/half"], pods=["train-0"]),
            ],
            [
                (
                    1,
                    (
                        f"{_START} 1 device of class gpu: {_POOL} 2 devices, 1 allocated (default/train-0, claim "
                        "default/used), 1 has too little left of its counters besides allocated devices, 0 free"
                    ),
                )
            ],
            id="a partition consumes the counters of the whole card",
        ),
        pytest.param(
            [device_slice("n", ["d0", "d1"]), claim("c", _first_available(4, 3))],
            [
                (2, f"claim default/c, request r/choice-4 for 4 devices of class gpu: {_POOL} 2 devices, 2 free"),
                (1, f"claim default/c, request r/choice-3 for 3 devices of class gpu: {_POOL} 2 devices, 2 free"),
            ],
            id="no alternative has enough devices",
        ),
        pytest.param(
            [device_slice("n", ["d0", "d1"]), claim("c", _first_available(3, 2), request("s"))],
            [
                (0, f"claim default/c, request r/choice-2 for 2 devices of class gpu: {_POOL} 2 devices, 2 free"),
                (0, f"claim default/c, request s for 1 device of class gpu: {_POOL} 2 devices, 2 free"),
            ],
            id="an alternative and another request compete for the same devices",
        ),
        pytest.param(
            [
                device_slice("n", ["d0", "d1"]),
                claim("c", request(allocationMode="All")),
                claim("used", allocated=["n/d0"]),
            ],
            [(1, f"{_START} all devices of class gpu: {_POOL} 2 devices, 1 allocated (claim default/used), 1 free")],
            id="a request for all devices while one is allocated",
        ),
        pytest.param(
            [
                device_slice(
                    "n",
                    [device("here", nodeName="n"), device("there", nodeName="other")],
                    perDeviceNodeSelection=True,
                ),
                claim("c", request(count=2)),
            ],
            [(1, f"{_START} 2 devices of class gpu: {_POOL} 1 device, 1 free")],
            id="a device of another node in the same slice",
        ),
        pytest.param(
            [device_slice("n", ["d0"], pool={"resourceSliceCount": 2}), claim("c")],
            [(1, f"{_START} 1 device of class gpu: {_POOL} its driver is replacing its slices")],
            id="a slice of the pool is missing",
        ),
        pytest.param(
            [device_slice("n", ["d0", "d0"]), claim("c")],
            [(1, f"{_START} 1 device of class gpu: {_POOL} it is invalid: duplicate device name d0")],
            id="a pool with one name twice",
        ),
    ],
)
def test_a_pod_lacks_devices(objects: Sequence[dict[str, Any]], expected: list[tuple[int, str]]) -> None:
    assert _find(objects, _CLAIMING) == expected


def test_an_extended_resource_lacks_devices_under_its_own_name() -> None:
    assert _find([device_slice("n", ["d0"])], pod("new", requests={"example.com/gpu": "3"})) == [
        (2, f"example.com/gpu of container c, 3 devices of class gpu: {_POOL} 1 device, 1 free")
    ]


def test_the_devices_of_an_earlier_copy_are_in_use_by_it() -> None:
    written = pod("new", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
    del written["metadata"]["uid"]
    cluster = create_full_cluster(
        [node("n")],
        [],
        [device_class(), device_slice("n", ["d0", "d1"]), claim_template("t"), claim("used", allocated=["n/d1"])],
    )
    incoming = IncomingPod.from_pod(decode_pod(written))
    with open_placement_session(cluster) as session:
        session.place(incoming, 1, run_filters(incoming, cluster))
        inspector = DeviceInspector(incoming, cluster)
        (shortfall,) = inspector.find_shortfalls(0)
        (pool,) = inspector.list_pools(0)
    assert str(shortfall.pools[0]).endswith("2 allocated (an earlier copy of default/new; claim default/used), 0 free")
    assert [(each.name, list(map(str, each.holders))) for each in pool.devices] == [
        ("d0", ["an earlier copy of default/new"]),
        ("d1", ["claim default/used"]),
    ]
