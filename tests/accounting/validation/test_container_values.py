"""Container limits of an extended resource: every way to write a quantity."""

from typing import Any

import pytest

from tallygate.accounting.kubernetes_codes import TOO_LARGE, UNREADABLE_QUANTITY
from tallygate.accounting.problem import Reason
from tallygate.accounting.validation.pods import validate_pod
from tests.accounting.objects import container, pod
from tests.accounting.validation.problem_views import INTEGER, NEGATIVE, list_causes, list_detail_texts

GPU = "example.com/gpu"


def validate_limit(quantity: Any, name: str = GPU) -> list[str]:
    """Return the details for a limit, and check that they equal those for the request, which defaults to it."""
    found = list_detail_texts(validate_pod(pod(container("a", None, {name: quantity}))))
    half = len(found) // 2
    assert found[:half] == found[half:]
    return found[:half]


@pytest.mark.parametrize(
    "quantity",
    [
        3,
        "3",
        "3000m",
        "3.0",
        "3e0",
        "3Ki",
        "3k",
        3000,
        "3M",
        "0.003k",
        "+3",
        "03",
        "3.",
        0,
        None,
        "2.9999",
        "2.9991",
        "2.9999999999",
        "9223372036854775",
        "9E",
        " 3 ",
    ],
)
def test_whole_numbers_in_any_form_are_valid(quantity: Any) -> None:
    assert validate_limit(quantity) == []


@pytest.mark.parametrize(
    "quantity", ["2.999", "3.0001", "3500m", "3.5", 3.5, "0.5", "500m", "1n", "0.0001", "1e-1", "0.1Ki", "1100u"]
)
def test_fractions_are_invalid(quantity: Any) -> None:
    assert validate_limit(quantity) == [INTEGER]


@pytest.mark.parametrize(
    ("quantity", "expected"), [("-1", [NEGATIVE]), ("-0.5", [NEGATIVE, INTEGER]), ("-0", []), ("-3000m", [NEGATIVE])]
)
def test_negative_numbers(quantity: str, expected: list[str]) -> None:
    assert validate_limit(quantity) == expected


@pytest.mark.parametrize("quantity", ["9223372036854776", "999999999999999999", "1000000000000000001"])
def test_integers_that_kubernetes_rejects_by_overflow_are_valid(quantity: str) -> None:
    """Kubernetes computes thousandths first, which wrap around, and reports `must be an integer` at random."""
    assert validate_limit(quantity) == []


@pytest.mark.parametrize("quantity", ["10E", "100E", "1000E", "9223372036854775808", "1e19", "-10E", "1e300"])
def test_a_number_beyond_64_bits_is_too_large(quantity: str) -> None:
    found = validate_pod(pod(container("a", None, {GPU: quantity})))
    assert {each.code for each in found} - {"TG005"} == {TOO_LARGE}
    assert all("wrap around" in each.message for each in found if each.code == TOO_LARGE)


@pytest.mark.parametrize("quantity", ["8Ei", "100Ei", "9223372036854775807"])
def test_the_largest_number_of_64_bits_is_valid(quantity: str) -> None:
    assert validate_limit(quantity) == []


def test_cpu_is_too_large_in_thousandths() -> None:
    assert validate_pod(pod(container("a", None, {"cpu": "9223372036854775807m"}))) == []
    found = validate_pod(pod(container("a", None, {"cpu": "9223372036854776"})))
    assert [each.code for each in found] == [TOO_LARGE] * 2


@pytest.mark.parametrize(
    ("quantity", "message"),
    [
        ("one", "quantities must match"),
        ("", "quantities must match"),
        (True, "quantities must match"),
        ("3 Ki", "quantities must match"),
        ("1K", "unable to parse quantity's suffix"),
        ("1ki", "unable to parse quantity's suffix"),
        ({}, "quantities must match"),
        ([3], "quantities must match"),
    ],
)
def test_an_invalid_quantity_is_reported(quantity: Any, message: str) -> None:
    (found,) = validate_pod(pod(container("a", None, {GPU: quantity})))
    assert (found.field, found.code, found.reason) == (
        f"spec.containers[0].resources.limits[{GPU}]",
        UNREADABLE_QUANTITY,
        Reason.INVALID,
    )
    assert found.detail.startswith(message)
    assert "is not a quantity" in found.message


@pytest.mark.parametrize("name", ["cpu", "memory", "kubernetes.io/foo", "foo.kubernetes.io/bar", "mykubernetes.io/x"])
def test_native_names_may_have_fractions(name: str) -> None:
    assert validate_limit("1500m", name) == []


def test_a_message_suggests_a_valid_value() -> None:
    found = validate_pod(pod(container("a", None, {GPU: "1500m"})))
    assert found[0].message == "1500m is not a whole number; example.com/gpu is counted in whole units: use 1 or 2"
    found = validate_pod(pod(container("a", None, {GPU: "500m"})))
    assert found[0].message.endswith("use 1")


def test_causes_are_those_of_the_api_server() -> None:
    """Show the value rounded up to thousandths, as it is validated."""
    assert list_causes(validate_pod(pod(container("a", None, {GPU: "1n"})))) == [
        f'spec.containers[0].resources.limits[{GPU}]: Invalid value: "1m": must be an integer',
        f'spec.containers[0].resources.requests[{GPU}]: Invalid value: "1m": must be an integer',
    ]
