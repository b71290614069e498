"""GPUs requested by annotations: the amounts of each form, texts that are no amount, and what a pod counts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import Charge, compute_charge, explain_derived
from tallygate.accounting.derived_amounts import WeightedSum, create_product, create_weighted_sum
from tallygate.accounting.gpu_annotations import (
    GpuAnnotation,
    RequestedAmount,
    compute_requested,
    list_requested,
    select_gpu_annotations,
)
from tallygate.objects.core import Pod
from tests.accounting.objects import container, pod

FRACTION, MEMORY, COUNT = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
REQUEST, LIMIT = "nvidia.com/container.a.gpu-memory.request", "nvidia.com/container.a.gpu-memory.limit"
GPU, GPU_MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"

_AMOUNTS: dict[str, tuple[dict[str, str], GpuAnnotation, int, str]] = {
    "half a GPU": ({FRACTION: "0.5"}, GpuAnnotation.FRACTION, 500, "0.5 gpu-fraction × 1000"),
    "half of each of eight": (
        {FRACTION: "0.5", COUNT: "8"},
        GpuAnnotation.FRACTION,
        4000,
        f"0.5 gpu-fraction × 8 {COUNT} × 1000",
    ),
    "no digit before the point": ({FRACTION: ".25"}, GpuAnnotation.FRACTION, 250, ".25 gpu-fraction × 1000"),
    "a plus sign": ({FRACTION: "+1"}, GpuAnnotation.FRACTION, 1000, "+1 gpu-fraction × 1000"),
    "a part of a thousandth is one": ({FRACTION: "0.3333"}, GpuAnnotation.FRACTION, 334, "0.3333 gpu-fraction × 1000"),
    "rounded once for all GPUs": (
        {FRACTION: "0.3333", COUNT: "3"},
        GpuAnnotation.FRACTION,
        1000,
        f"0.3333 gpu-fraction × 3 {COUNT} × 1000",
    ),
    "zero": ({FRACTION: "0.0"}, GpuAnnotation.FRACTION, 0, ""),
    "memory": ({MEMORY: "2000", COUNT: "2"}, GpuAnnotation.MEMORY, 4000, f"2000 gpu-memory × 2 {COUNT}"),
    "memory of a container": ({REQUEST: "1.5Gi"}, GpuAnnotation.MEMORY, 1536, f"1.5Gi {REQUEST}"),
    "a byte more is a MiB more": ({REQUEST: "1073741825"}, GpuAnnotation.MEMORY, 1025, f"1073741825 {REQUEST}"),
    "a limit stands for the request": (
        {LIMIT: "1Gi", COUNT: "2"},
        GpuAnnotation.MEMORY,
        2048,
        f"1Gi {LIMIT} × 2 {COUNT}",
    ),
    "a request comes before the limit": ({REQUEST: "1Gi", LIMIT: "4Gi"}, GpuAnnotation.MEMORY, 1024, f"1Gi {REQUEST}"),
    "both forms are one amount": ({MEMORY: "1024", REQUEST: "1Gi"}, GpuAnnotation.MEMORY, 1024, "1024 gpu-memory"),
    "the larger of both forms": ({MEMORY: "1024", REQUEST: "2Gi"}, GpuAnnotation.MEMORY, 2048, f"2Gi {REQUEST}"),
    "another amount": ({FRACTION: "0.5"}, GpuAnnotation.MEMORY, 0, ""),
    "a number of GPUs alone": ({COUNT: "8"}, GpuAnnotation.FRACTION, 0, ""),
}


@pytest.mark.parametrize("case", _AMOUNTS)
def test_the_amount_of_annotations(case: str) -> None:
    annotations, kind, amount, calculation = _AMOUNTS[case]
    assert compute_requested(annotations, kind) == RequestedAmount(amount, calculation)


@pytest.mark.parametrize(
    ("annotations", "invalid"),
    [
        *(
            ({FRACTION: text}, FRACTION)
            for text in ("", ".", "half", "-0.5", "0,5", "50%", "1e-1", "NaN", " 0.5", "500m")
        ),
        *(({MEMORY: text}, MEMORY) for text in ("", "2Gi", "-1", "1.5", "9" * 20)),
        *(({REQUEST: text}, REQUEST) for text in ("", "-1Gi", "two", "1 Gi")),
        *(({FRACTION: "0.5", COUNT: text}, COUNT) for text in ("", "0", "-1", "1.5", "two")),
        ({FRACTION: "0." + "1" * 100_000}, FRACTION),
        ({FRACTION: "٠.٥"}, FRACTION),  # noqa: RUF001  # digits of another script, which Go does not read
    ],
)
def test_a_text_that_is_no_amount_is_named(annotations: dict[str, str], invalid: str) -> None:
    (kind, _), *_ = list_requested(annotations)
    assert compute_requested(annotations, kind).invalid == (invalid,)


def test_only_the_annotations_that_request_gpus_are_selected() -> None:
    others = {"a": "1", "gpu-fraction-container-name": "a", "nvidia.com/container.a.gpus.devices": "GPU-1"}
    requests = {COUNT: "2", MEMORY: "1", REQUEST: "1Gi"}
    assert select_gpu_annotations({**requests, **others}) == requests
    assert list_requested({**requests, **others}) == [(GpuAnnotation.MEMORY, MEMORY)]
    assert list_requested({REQUEST: "1Gi", FRACTION: "1"}) == [
        (GpuAnnotation.FRACTION, FRACTION),
        (GpuAnnotation.MEMORY, REQUEST),
    ]
    assert select_gpu_annotations(None) == {}


@given(st.integers(0, 10**6), st.integers(0, 9), st.integers(1, 64))
def test_a_fraction_is_exact_and_rounded_up_once(mantissa: int, decimals: int, count: int) -> None:
    digits = f"{mantissa:0{decimals + 1}}"
    text = f"{digits[: len(digits) - decimals]}.{digits[len(digits) - decimals :]}"
    exact = Fraction(mantissa, 10**decimals) * count * 1000
    amount = compute_requested({FRACTION: text, COUNT: f"{count}"}, GpuAnnotation.FRACTION).amount
    assert 0 <= amount - exact < 1


SUM = create_weighted_sum({GPU: 1000}, {}, {}, annotation=GpuAnnotation.FRACTION)


def charge(a_pod: Pod, definition: WeightedSum) -> Charge:
    return compute_charge(a_pod, (), derived={"own": definition})


def test_the_amount_of_annotations_is_added_to_that_of_resources() -> None:
    half = pod(container("a", {GPU: "1"}), metadata={"annotations": {FRACTION: "0.5"}})
    assert charge(half, SUM) == Charge(Amounts({"own": 1500}), {})
    assert explain_derived(half, SUM, "1500") == f"1 {GPU} × 1000 + 0.5 gpu-fraction × 1000 = 1500"
    assert charge(pod(container("a", {GPU: "1"})), SUM).amounts == {"own": 1000}
    assert charge(half, create_weighted_sum({GPU: 1000}, {}, {})).amounts == {"own": 1000}


def test_an_annotation_that_is_no_amount_is_no_silent_zero() -> None:
    wrong = pod(container("a"), metadata={"annotations": {FRACTION: "half", COUNT: "two"}})
    assert charge(wrong, SUM).unlimited == {"own": (COUNT, FRACTION)}


def test_an_ended_pod_counts_no_annotation() -> None:
    ended = pod(container("a"), metadata={"annotations": {FRACTION: "x"}}, status={"phase": "Succeeded"})
    assert charge(ended, SUM) == Charge()


def test_another_annotation_is_another_definition() -> None:
    alone = [create_weighted_sum({}, {}, {}, annotation=each) for each in GpuAnnotation]
    definitions = [SUM, create_weighted_sum({GPU: 1000}, {}, {}), *alone]
    assert len({each.identity for each in definitions}) == len(definitions)


WITH_DEFAULT = create_product("own", [GPU, GPU_MEMORY], {}, defaults={GPU_MEMORY: 8000})


@pytest.mark.parametrize(
    ("requests", "amount", "calculation", "lacks"),
    [
        pytest.param({GPU: "2", GPU_MEMORY: "10"}, 20, f"2 {GPU} × 10 {GPU_MEMORY}", False, id="both"),
        pytest.param({GPU: "2"}, 16000, f"2 {GPU} × 8000 {GPU_MEMORY} by default", False, id="the default"),
        pytest.param(
            {GPU: "2", GPU_MEMORY: "0"}, 16000, f"2 {GPU} × 8000 {GPU_MEMORY} by default", False, id="0 is missing"
        ),
        pytest.param({GPU_MEMORY: "10"}, 0, "", True, id="the factor without a default"),
        pytest.param({}, 0, "", False, id="none"),
    ],
)
def test_a_factor_with_a_default(requests: dict[str, str], amount: int, calculation: str, lacks: bool) -> None:  # noqa: FBT001  # a column
    a_pod = pod(container("a", requests))
    found = compute_charge(a_pod, (), derived={"own": WITH_DEFAULT})
    assert found.amounts.get("own", 0) == amount
    assert found.unlimited == ({"own": ("a",)} if lacks else {})
    if calculation:
        assert explain_derived(a_pod, WITH_DEFAULT, f"{amount}") == f"{calculation} = {amount}"


def test_another_default_is_another_definition() -> None:
    others = [create_product("own", [GPU, GPU_MEMORY], {}, defaults=each) for each in ({}, {GPU: 1}, {GPU_MEMORY: 1})]
    assert len({each.identity for each in (WITH_DEFAULT, *others)}) == 4  # four definitions
