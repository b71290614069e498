"""The charge of claims for devices, and the ways to a device that count under a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.charge import compute_charge
from tallygate.accounting.claim_charge import (
    MAX_DEVICES,
    compute_claim_charge,
    compute_least_devices,
    find_device_sources,
)
from tallygate.objects.devices import ResourceClaim
from tests.accounting.claims import CLASS, Object, claim, exactly, first_available, result
from tests.accounting.objects import container
from tests.accounting.objects import pod as pod_of

GPU = "nvidia.com/gpu"
SMALL = "small.example.com"
OTHER = "other.example.com"
SOURCES = find_device_sources([GPU], {CLASS: GPU, OTHER: ""}, {GPU: [SMALL]})
BY_CLASS = f"{CLASS}.deviceclass.resource.k8s.io/devices"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{CLASS}"

ALL = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "allocationMode": "All"}}
_CLAIMS: dict[str, tuple[ResourceClaim, int]] = {
    "a request without a count is for one device": (claim(exactly()), 1),
    "a request for three devices counts three": (claim(exactly(3)), 3),
    "requests add up": (claim(exactly(3), exactly(2, name="more")), 5),
    "a class that counts nothing costs nothing": (claim(exactly(3, OTHER)), 0),
    "a mapped class counts like the class of the resource": (claim(exactly(3, SMALL)), 3),
    "all devices count as the most that a claim can get": (claim(ALL), 32),
    "more than a claim can get counts as that": (claim(exactly(20), exactly(20, name="more")), 32),
    "admin access costs nothing": (claim(exactly(3, adminAccess=True), exactly(1, name="more")), 1),
    "of alternatives the largest counts": (claim(first_available((CLASS, 1), (CLASS, 4))), 4),
    "of alternatives in two classes of one name the largest counts": (
        claim(first_available((CLASS, 2), (SMALL, 7))),
        7,
    ),
    "an alternative of another class costs nothing": (claim(first_available((OTHER, 8), (CLASS, 1))), 1),
    "a claim without requests costs nothing": (claim(), 0),
    "an allocated claim counts its devices": (claim(ALL, results=[result(), result()]), 2),
    "an allocated alternative counts its own devices": (
        claim(first_available((CLASS, 1), (CLASS, 4)), results=[result("gpu/choice-0")]),
        1,
    ),
    "an allocated alternative of another class costs nothing": (
        claim(first_available((OTHER, 1), (CLASS, 4)), results=[result("gpu/choice-0")]),
        0,
    ),
    "an allocated device with admin access costs nothing": (
        claim(exactly(2, adminAccess=True), results=[result(adminAccess=True), result(adminAccess=True)]),
        0,
    ),
    "an empty allocation costs nothing": (claim(exactly(2), results=[]), 0),
}


@pytest.mark.parametrize("case", _CLAIMS)
def test_a_claim_counts_the_most_that_it_may_get_and_then_what_it_got(case: str) -> None:
    counted, expected = _CLAIMS[case]
    assert compute_claim_charge(counted, SOURCES) == ({GPU: expected} if expected else {})


_LEAST: dict[str, tuple[ResourceClaim, int]] = {
    "a request for three devices": (claim(exactly(3)), 3),
    "all devices, of which one must exist": (claim(ALL), 1),
    "the smallest alternative": (claim(first_available((CLASS, 4), (CLASS, 2))), 2),
    "an alternative of another class": (claim(first_available((CLASS, 4), (OTHER, 2))), 0),
    "admin access": (claim(exactly(3, adminAccess=True)), 0),
}


@pytest.mark.parametrize("case", _LEAST)
def test_the_least_of_a_claim_is(case: str) -> None:
    counted, expected = _LEAST[case]
    assert compute_least_devices(counted, SOURCES) == ({GPU: expected} if expected else {})


@pytest.mark.parametrize(
    ("name", "resources", "classes"),
    [
        pytest.param(
            GPU,
            {GPU, IMPLICIT, f"deviceclass.resource.kubernetes.io/{SMALL}"},
            {CLASS, SMALL},
            id="an extended resource counts by its classes, by the mapped ones, and by the resources of both",
        ),
        pytest.param(BY_CLASS, {GPU, IMPLICIT}, {CLASS}, id="a class counts by its own resource and the extended one"),
        pytest.param(IMPLICIT, {GPU, IMPLICIT}, {CLASS}, id="so does the resource of the class"),
    ],
)
def test_the_ways_to_a_device(name: str, resources: set[str], classes: set[str]) -> None:
    (sources,) = find_device_sources([name], {CLASS: GPU, OTHER: ""}, {GPU: [SMALL]}).values()
    assert (set(sources.resources), set(sources.classes)) == (resources, classes)


def test_names_that_no_class_has_stand_for_no_devices() -> None:
    assert find_device_sources(["cpu", "pods", "limits.memory", "example.com/dongle"], {CLASS: GPU}, {}) == {}


def test_two_classes_of_one_resource_both_count() -> None:
    (sources,) = find_device_sources([GPU], {CLASS: GPU, SMALL: GPU}, {}).values()
    assert sources.classes == {CLASS, SMALL}


def test_a_pod_counts_its_requests_by_every_name_of_the_devices() -> None:
    requests = {GPU: "1", IMPLICIT: "2", f"deviceclass.resource.kubernetes.io/{SMALL}": "4", "cpu": "8"}
    pod = pod_of(container("main", requests, requests))
    assert compute_charge(pod, [GPU, "cpu"], SOURCES).amounts == {GPU: 7, "cpu": 8000}
    by_class = find_device_sources([BY_CLASS], {CLASS: GPU}, {})
    assert compute_charge(pod, [BY_CLASS], by_class).amounts == {BY_CLASS: 3}


classes = st.sampled_from([CLASS, SMALL, OTHER])
counts = st.integers(0, 40)
requests = st.lists(
    st.one_of(
        st.builds(exactly, counts, classes),
        st.builds(lambda device_class: exactly(None, device_class, allocationMode="All"), classes),
        st.lists(st.tuples(classes, counts), min_size=1, max_size=3).map(lambda each: first_available(*each)),
    ),
    max_size=4,
)


@given(requests)
def test_no_claim_counts_less_than_its_least_or_more_than_it_can_get(drawn: list[Object]) -> None:
    counted = claim(*drawn)
    most, least = (
        each.get(GPU, 0) for each in (compute_claim_charge(counted, SOURCES), compute_least_devices(counted, SOURCES))
    )
    assert 0 <= least <= most <= MAX_DEVICES
