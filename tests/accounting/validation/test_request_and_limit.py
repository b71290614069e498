"""Requests compared with limits, at the API server's field paths."""

from typing import Any

import pytest

from tallygate.accounting.problem import Reason
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.validation.pods import is_whole_pages, validate_pod
from tests.accounting.objects import container, pod
from tests.accounting.validation.problem_views import INTEGER, list_causes, list_details

GPU, OTHER, HUGE = "example.com/gpu", "other.io/x", "hugepages-2Mi"
MISSING = "Limit must be set for non overcommitable resources"
ALONE = "HugePages require cpu or memory"
AT = "spec.containers[0].resources"
Json = dict[str, Any]


def validate(requests: Json | None, limits: Json | None, *, template: bool = False) -> list[tuple[str, str]]:
    """Return field below the container's resources, and detail of each problem."""
    problems = list_details(validate_pod(pod(container("a", requests, limits)), template=template))
    return [(field.removeprefix(AT), detail) for field, detail in problems]


@pytest.mark.parametrize(
    ("requests", "limits"),
    [
        pytest.param(None, {GPU: 3}, id="only a limit"),
        pytest.param({GPU: 3}, {GPU: "3000m"}, id="3 and 3000m are equal"),
        pytest.param({GPU: 3072}, {GPU: "3Ki"}, id="3072 and 3Ki are equal"),
        pytest.param({GPU: 0}, {GPU: 0}, id="both zero"),
        pytest.param({GPU: None}, {GPU: 0}, id="null is zero"),
        pytest.param({"cpu": 1}, {"cpu": 2}, id="cpu may burst"),
        pytest.param({"cpu": "0.5m"}, None, id="cpu without a limit"),
        pytest.param({"memory": "500m"}, None, id="half a byte"),
        pytest.param({"kubernetes.io/foo": "0.5"}, None, id="a native name without a limit"),
        pytest.param({"foo.kubernetes.io/bar": "0.5"}, {"foo.kubernetes.io/bar": 3}, id="a native name may burst"),
        pytest.param({"cpu": 1, HUGE: "4Mi"}, {"cpu": 1, HUGE: "4Mi"}, id="huge pages beside cpu"),
        pytest.param({"cpu": 1, HUGE: 0}, {HUGE: 0}, id="no huge pages are whole pages"),
        pytest.param({"cpu": 1, "hugepages-2M": "2M"}, {"hugepages-2M": "2M"}, id="a decimal page size"),
        pytest.param({HUGE: "4Mi"}, {HUGE: "4Mi", "memory": 1}, id="memory on one side is enough"),
    ],
)
def test_valid_pairs(requests: Json | None, limits: Json | None) -> None:
    assert validate(requests, limits) == []


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        pytest.param({GPU: 1}, None, [(".limits", MISSING)], id="no limit"),
        pytest.param(
            {GPU: 1}, {GPU: 2}, [(".requests", f"must be equal to {GPU} limit of 2")], id="less than the limit"
        ),
        pytest.param(
            {GPU: 2}, {GPU: 1}, [(".requests", f"must be equal to {GPU} limit of 1")], id="more than the limit"
        ),
        pytest.param({GPU: 0}, {GPU: 1}, [(".requests", f"must be equal to {GPU} limit of 1")], id="zero of one"),
        pytest.param(
            {GPU: "1500m"},
            {GPU: 2},
            [(f".requests[{GPU}]", INTEGER), (".requests", f"must be equal to {GPU} limit of 2")],
            id="a fraction that differs",
        ),
        pytest.param(
            {GPU: "1500m"},
            {GPU: "1.5"},
            [(f".limits[{GPU}]", INTEGER), (f".requests[{GPU}]", INTEGER)],
            id="equal fractions",
        ),
        pytest.param({GPU: 1, OTHER: 1}, {GPU: 1}, [(".limits", MISSING)], id="another without a limit"),
        pytest.param({"cpu": 2}, {"cpu": 1}, [(".requests", "must be less than or equal to cpu limit of 1")], id="cpu"),
        pytest.param({HUGE: "4Mi"}, {HUGE: "4Mi"}, [("", ALONE)], id="huge pages alone"),
        pytest.param(
            {"cpu": 1},
            {HUGE: "3Mi"},
            [
                (f".{where}[{HUGE}]", f"3Mi is not positive integer multiple of {HUGE}")
                for where in ("limits", "requests")
            ],
            id="a page and a half",
        ),
        pytest.param(
            {"cpu": 1, HUGE: "2Mi"},
            {HUGE: "4Mi"},
            [(".requests", f"must be equal to {HUGE} limit of 4Mi")],
            id="pages differ",
        ),
        pytest.param(
            {"cpu": 1},
            {"hugepages-foo": "4Mi"},
            [
                (f".{where}[hugepages-foo]", "4Mi is not positive integer multiple of hugepages-foo")
                for where in ("limits", "requests")
            ],
            id="an invalid page size",
        ),
    ],
)
def test_invalid_pairs(requests: Json | None, limits: Json | None, expected: list[tuple[str, str]]) -> None:
    assert validate(requests, limits) == expected


def test_init_containers_are_validated_as_containers() -> None:
    problems = validate_pod(pod(container("a"), initContainers=[container("i", None, {GPU: "1500m"})]))
    assert [each.field for each in problems] == [
        f"spec.initContainers[0].resources.{where}[{GPU}]" for where in ("limits", "requests")
    ]


def test_a_template_is_checked_without_defaults() -> None:
    assert validate(None, {GPU: "1500m"}, template=True) == [(f".limits[{GPU}]", INTEGER)]


def test_reasons_and_values_equal_the_api_servers() -> None:
    problems = validate_pod(pod(container("a", {GPU: 1, OTHER: 1}, {GPU: 2})))
    assert list_causes(problems) == [
        f'{AT}.requests: Invalid value: "1": must be equal to {GPU} limit of 2',
        f"{AT}.limits: Required value: {MISSING}",
    ]
    assert [each.reason for each in problems] == [Reason.INVALID, Reason.REQUIRED]


def test_messages_suggest_valid_values() -> None:
    missing, differs = validate_pod(pod(container("a", {OTHER: 4, GPU: 1}, {GPU: 2})))
    assert missing.message.endswith("set the limit to 4")
    assert differs.message.endswith("set both to the same")


@pytest.mark.parametrize(
    ("name", "quantity", "whole"),
    [
        ("hugepages-2Mi", "4Mi", True),
        ("hugepages-2Mi", "2097152", True),
        ("hugepages-2Mi", "2097151999m", True),
        ("hugepages-2Mi", "-2Mi", True),
        ("hugepages-1", "3", True),
        ("hugepages-2Mi", "1", False),
        ("hugepages-1n", "1", False),
        ("hugepages-0", "1", False),
        ("hugepages--2Mi", "4Mi", False),
        ("hugepages-", "4Mi", False),
        ("hugepages-1e999999999", "0", False),
    ],
)
def test_whole_pages(name: str, quantity: str, *, whole: bool) -> None:
    assert is_whole_pages(name, Quantity.parse(quantity)) is whole


@pytest.mark.parametrize(
    ("name", "quantity", "advice"),
    [
        (HUGE, "3Mi", "3Mi is not a whole number of pages of 2Mi: use 2Mi or 4Mi"),
        (HUGE, "1", "1 is not a whole number of pages of 2Mi: use 0 or 2Mi"),
        (HUGE, "-3Mi", "-3Mi is not a whole number of pages of 2Mi: use 0"),
        ("hugepages-foo", "1Mi", "'foo' is not a page size; write one as in hugepages-2Mi"),
    ],
)
def test_the_message_suggests_whole_pages(name: str, quantity: str, advice: str) -> None:
    problems = validate_pod(pod(container("a", {"cpu": 1}, {name: quantity})))
    assert advice in [each.message for each in problems]
