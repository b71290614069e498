"""Amounts of several resources: weighted sums of pods and products of containers, beside their definitions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.charge import Charge, compute_charge, explain_derived
from tallygate.accounting.claim_charge import compute_claim_charge, compute_least_devices
from tallygate.accounting.derived_amounts import Product, WeightedSum, create_product, create_weighted_sum
from tallygate.objects.core import Pod
from tests.accounting.claims import CLASS, claim, exactly, first_available, result
from tests.accounting.objects import Json, container, container_status, pod, sidecar

GPU, SLICE, MEMORY = "nvidia.com/gpu", "nvidia.com/mig-3g.40gb", "nvidia.com/gpumem"
SMALL = "small.example.com"
WEIGHTS = {GPU: 7, SLICE: 4}
SUM = create_weighted_sum(WEIGHTS, {}, {})
PRODUCT = create_product("mem", [GPU, MEMORY], {})


def charge(a_pod: Pod, definition: WeightedSum | Product) -> Charge:
    return compute_charge(a_pod, (), derived={"own": definition})


def amount_of(a_pod: Pod, definition: WeightedSum | Product) -> int:
    return charge(a_pod, definition).amounts.get("own", 0)


def equal(name: str, **requests: Any) -> Json:
    """Return a container of GPUs, slices and memory with these names in short."""
    names = {"gpu": GPU, "slices": SLICE, "memory": MEMORY}
    return container(name, {names[key]: str(value) for key, value in requests.items()})


_RESIZED = container_status("a", allocatedResources={GPU: "3"}, resources={"requests": {GPU: "1"}})
_SUMS: dict[str, tuple[Pod, int, str]] = {
    "one resource": (pod(equal("a", slices=3)), 12, f"3 {SLICE} × 4 = 12"),
    "two resources add up": (pod(equal("a", slices=3, gpu=1)), 19, f"1 {GPU} × 7 + 3 {SLICE} × 4 = 19"),
    "containers add up": (pod(equal("a", gpu=1), equal("b", gpu=2)), 21, f"3 {GPU} × 7 = 21"),
    "a limit is a request": (pod(container("a", None, {GPU: 2})), 14, f"2 {GPU} × 7 = 14"),
    "an init step and a container request different resources, and the node keeps both": (
        pod(equal("a", gpu=1), initContainers=[equal("i", slices=2)]),
        15,
        f"1 {GPU} × 7 + 2 {SLICE} × 4 = 15",
    ),
    "a larger init step": (pod(equal("a", gpu=1), initContainers=[equal("i", gpu=3)]), 21, f"3 {GPU} × 7 = 21"),
    "a sidecar": (pod(equal("a", gpu=1), initContainers=[sidecar("s", {GPU: 1})]), 14, f"2 {GPU} × 7 = 14"),
    "overhead": (pod(equal("a", gpu=1), overhead={GPU: "1"}), 14, f"2 {GPU} × 7 = 14"),
    "a resize counts the largest amount": (
        pod(equal("a", gpu=2), status={"containerStatuses": [_RESIZED]}),
        21,
        f"3 {GPU} × 7 = 21",
    ),
    "amounts above any float are exact": (
        pod(equal("a", gpu=2**62)),
        7 * 2**62,
        f"{2**62} {GPU} × 7 = {7 * 2**62}",
    ),
}


@pytest.mark.parametrize("case", _SUMS)
def test_a_weighted_sum_of_a_pod(case: str) -> None:
    a_pod, expected, line = _SUMS[case]
    assert amount_of(a_pod, SUM) == expected
    assert explain_derived(a_pod, SUM, f"{expected}") == line


_PRODUCTS: dict[str, tuple[Pod, int, str]] = {
    "one container": (pod(equal("a", gpu=2, memory=8000)), 16000, f"2 {GPU} × 8000 {MEMORY} = 16000"),
    "containers are multiplied alone": (
        pod(equal("a", gpu=2, memory=8000), equal("b", gpu=1, memory=100)),
        16100,
        f"a 2 {GPU} × 8000 {MEMORY} + b 1 {GPU} × 100 {MEMORY} = 16100",
    ),
    "a larger init step": (
        pod(equal("a", gpu=1, memory=10), initContainers=[equal("i", gpu=2, memory=10)]),
        20,
        f"2 {GPU} × 10 {MEMORY} = 20",
    ),
    "a smaller init step": (
        pod(equal("a", gpu=2, memory=10), initContainers=[equal("i", gpu=1, memory=10), equal("j", gpu=1, memory=9)]),
        20,
        f"a 2 {GPU} × 10 {MEMORY} = 20",
    ),
    "an init step above a sidecar": (
        pod(
            equal("a", gpu=1, memory=1),
            initContainers=[sidecar("s", {GPU: 1, MEMORY: 5}), equal("i", gpu=2, memory=10)],
        ),
        25,
        f"i 2 {GPU} × 10 {MEMORY} + sidecars 5 = 25",
    ),
    "overhead is one container more": (
        pod(equal("a", gpu=1, memory=10), overhead={GPU: "1", MEMORY: "3"}),
        13,
        f"a 1 {GPU} × 10 {MEMORY} + overhead 1 {GPU} × 3 {MEMORY} = 13",
    ),
    "amounts above any float are exact": (
        pod(equal("a", gpu=2**31 + 1, memory=2**31 + 1)),
        (2**31 + 1) ** 2,
        f"{2**31 + 1} {GPU} × {2**31 + 1} {MEMORY} = {(2**31 + 1) ** 2}",
    ),
}


@pytest.mark.parametrize("case", _PRODUCTS)
def test_a_product_of_a_pod(case: str) -> None:
    a_pod, expected, line = _PRODUCTS[case]
    assert amount_of(a_pod, PRODUCT) == expected
    written = explain_derived(a_pod, PRODUCT, f"{expected}")
    assert written.removeprefix("a ") == line.removeprefix("a ")
    assert charge(a_pod, PRODUCT).unlimited == {}


@pytest.mark.parametrize(
    ("a_pod", "incomplete"),
    [
        pytest.param(pod(equal("a", gpu=1)), ("a",), id="no memory"),
        pytest.param(pod(equal("a", memory=1)), ("a",), id="no device"),
        pytest.param(pod(equal("a", gpu=1, memory=0)), ("a",), id="memory of zero"),
        pytest.param(pod(equal("a", gpu=0, memory=0), equal("b")), (), id="nothing of both"),
        pytest.param(
            pod(equal("a", gpu=1, memory=1), initContainers=[equal("i", gpu=1), sidecar("s", {GPU: 1})]),
            ("i", "s"),
            id="init steps and sidecars",
        ),
    ],
)
def test_containers_with_one_factor_alone(a_pod: Pod, incomplete: tuple[str, ...]) -> None:
    assert charge(a_pod, PRODUCT).unlimited == ({"own": incomplete} if incomplete else {})
    assert charge(a_pod, SUM).unlimited == {}


def test_an_ended_pod_counts_nothing() -> None:
    ended = pod(equal("a", gpu=1), status={"phase": "Failed"})
    assert charge(ended, SUM) == charge(ended, PRODUCT) == Charge()


AMOUNTS = st.fixed_dictionaries({}, optional=dict.fromkeys((GPU, SLICE, MEMORY), st.integers(0, 2**40)))
Requests = Mapping[str, int]


@st.composite
def draw_pods(draw: st.DrawFn) -> tuple[Pod, Sequence[Requests], Sequence[tuple[bool, Requests]], Requests]:
    """Draw a pod with its containers, its init containers (whether each is a sidecar), and its overhead."""
    containers = draw(st.lists(AMOUNTS, min_size=1, max_size=3))
    init = draw(st.lists(st.tuples(st.booleans(), AMOUNTS), max_size=4))
    overhead = draw(AMOUNTS)
    make = (sidecar if is_sidecar else container for is_sidecar, _ in init)
    written = pod(
        *(container(f"c{index}", dict(each)) for index, each in enumerate(containers)),
        initContainers=[
            new(f"i{index}", dict(each)) for index, (new, (_, each)) in enumerate(zip(make, init, strict=True))
        ],
        overhead=overhead,
    )
    return written, containers, init, overhead


def list_phases(
    containers: Sequence[Requests], init: Sequence[tuple[bool, Requests]], overhead: Requests
) -> Iterator[list[Requests]]:
    """Yield the requests that run at one time, for every time of a pod's life."""
    running: list[Requests] = [overhead]
    for is_sidecar, requests in init:
        yield [*running, requests]
        if is_sidecar:
            running.append(requests)
    yield [*running, *containers]


@given(draw_pods())
def test_a_weighted_sum_is_the_sum_of_the_largest_amounts_and_never_less_than_at_one_time(drawn: Any) -> None:
    a_pod, *parts = drawn
    phases = [{name: sum(each.get(name, 0) for each in phase) for name in WEIGHTS} for phase in list_phases(*parts)]
    largest = {name: max(phase[name] for phase in phases) for name in WEIGHTS}
    found = amount_of(a_pod, SUM)
    assert found == sum(WEIGHTS[name] * largest[name] for name in WEIGHTS)
    assert all(found >= sum(WEIGHTS[name] * phase[name] for name in WEIGHTS) for phase in phases)


@given(draw_pods())
def test_a_product_is_the_largest_sum_of_products_at_one_time(drawn: Any) -> None:
    a_pod, *parts = drawn
    at_one_time = (sum(each.get(GPU, 0) * each.get(MEMORY, 0) for each in phase) for phase in list_phases(*parts))
    assert amount_of(a_pod, PRODUCT) == max(at_one_time)


BY_CLASS = create_weighted_sum({GPU: 7, f"{SMALL}.deviceclass.resource.k8s.io/devices": 1}, {CLASS: GPU, SMALL: ""}, {})
OWN = {"own": BY_CLASS.sources}


def test_a_device_counts_with_the_largest_weight_of_its_names() -> None:
    implicit = f"deviceclass.resource.kubernetes.io/{CLASS}"
    found = create_weighted_sum({GPU: 7, implicit: 9, SLICE: 1}, {CLASS: GPU}, {SLICE: [CLASS]})
    assert found.weights == {GPU: 9, implicit: 9, SLICE: 1}
    assert found.classes == {CLASS: 9}
    assert amount_of(pod(container("a", {GPU: 1})), found) == amount_of(pod(container("a", {implicit: 1})), found) == 9


@pytest.mark.parametrize(
    ("requests", "most", "least"),
    [
        pytest.param([exactly(2)], 14, 14, id="devices of a class with a weight"),
        pytest.param([exactly(2), exactly(3, SMALL, "more")], 17, 17, id="classes with other weights"),
        pytest.param([first_available((CLASS, 1), (SMALL, 4))], 7, 4, id="alternatives with other weights"),
        pytest.param([exactly(20), exactly(20, SMALL, "more")], 160, 160, id="more than a claim can get"),
        pytest.param([exactly(40)], 224, 224, id="the most that a claim can get"),
        pytest.param([exactly(2, "other.example.com")], 0, 0, id="another class"),
    ],
)
def test_a_claim_counts_with_the_weights_of_its_classes(requests: list[Json], most: int, least: int) -> None:
    assert compute_claim_charge(claim(*requests), OWN).get("own", 0) == most
    assert compute_least_devices(claim(*requests), OWN).get("own", 0) == least


def test_allocated_devices_count_with_the_weights_of_their_classes() -> None:
    allocated = claim(first_available((CLASS, 1), (SMALL, 4)), results=[result("gpu/choice-1")] * 4)
    assert compute_claim_charge(allocated, OWN) == {"own": 4}


def test_another_definition_has_another_identity() -> None:
    definitions: list[WeightedSum | Product] = [
        create_weighted_sum({GPU: 7}, {}, {}),
        create_weighted_sum({GPU: 8}, {}, {}),
        create_weighted_sum({GPU: 7}, {CLASS: GPU}, {}),
        create_product("own", [GPU, MEMORY], {}),
        create_product("own", [GPU, SLICE], {}),
        create_product("own", [GPU, MEMORY], {CLASS: GPU}),
    ]
    assert len({each.identity for each in definitions}) == len(definitions)
    assert create_weighted_sum({SLICE: 4, GPU: 7}, {}, {}).identity == SUM.identity
