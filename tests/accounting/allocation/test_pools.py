"""Pools with slices of several nodes and generations, as one node sees them."""

from typing import Any

import pytest

from tallygate.accounting.kubernetes_versions.version import MODELLED_VERSIONS, KubernetesVersion
from tests.accounting.allocation.recorded_cases import answer

DRIVER = "gpu.example.com"


def _create_slice(node: str, generation: int, count: int) -> dict[str, Any]:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": [{"name": f"of-{node}"}]}
    return {"metadata": {"name": f"slice-{node}"}, "spec": spec}


def _allocate(slices: list[dict[str, Any]], mode: dict[str, Any], version: KubernetesVersion) -> dict[str, Any]:
    """Return the devices of a claim on node a, or the error."""
    exactly = {"deviceClassName": "any", **mode}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    case = {
        "allocated": {},
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": slices,
        "node": {"metadata": {"name": "a"}},
        "claims": [claim],
    }
    found = answer(case, version)
    if "results" not in found:
        return found
    return {"devices": [each["device"] for each in found["results"][0]["devices"].get("results", [])]}


ONE = {"allocationMode": "ExactCount", "count": 1}
ALL = {"allocationMode": "All"}


@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
@pytest.mark.parametrize("mode", [ONE, ALL], ids=["one", "all"])
@pytest.mark.parametrize(
    ("slices", "is_usable"),
    [
        pytest.param([("a", 1, 2), ("b", 1, 2)], True, id="of one generation"),
        pytest.param([("a", 2, 1), ("b", 1, 2), ("c", 1, 2)], True, id="older ones of other nodes"),
        pytest.param([("a", 1, 2), ("b", 1, 2), ("c", 2, 3)], False, id="a newer one of another node"),
    ],
)
def test_no_device_is_allocated_from_a_pool_that_is_being_replaced_on_other_nodes(
    slices: list[tuple[str, int, int]], mode: dict[str, Any], version: KubernetesVersion, *, is_usable: bool
) -> None:
    found = _allocate([_create_slice(*each) for each in slices], mode, version)
    assert found == ({"devices": ["of-a"]} if is_usable else {})


@pytest.mark.parametrize("version", MODELLED_VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param(ONE, {}, id="one"),
        pytest.param(
            ALL,
            {
                "error": "claim c, request r: asks for all devices, but resource pool gpu.example.com/pool is "
                "currently being updated"
            },
            id="all",
        ),
    ],
)
def test_no_device_is_allocated_from_a_pool_that_lacks_a_slice(
    mode: dict[str, Any], expected: dict[str, Any], version: KubernetesVersion
) -> None:
    assert _allocate([_create_slice("a", 1, 2)], mode, version) == expected
