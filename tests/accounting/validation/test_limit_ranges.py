"""LimitRanges: types, names, bounds, and faults that Kubernetes accepts."""

from typing import Any

import pytest

from tallygate.accounting.validation.limit_ranges import check_limit_range_strictly, validate_limit_range
from tallygate.objects.core import LimitRange
from tests.accounting.objects import Json, limit_range
from tests.accounting.validation.problem_views import (
    EXTENDED,
    FOR_CONTAINERS,
    STANDARD,
    list_causes,
    list_codes,
    list_details,
)

GPU = "example.com/gpu"
AT = "spec.limits[0]"
REQUEST = ".defaultRequest"
RATIO = ".maxLimitRequestRatio"


def validate(item: Json) -> list[str]:
    return [each.removeprefix(AT) for each in list_causes(validate_limit_range(limit_range(item)))]


def bounds(kind: str = "Container", **lists: Any) -> Json:
    """Return an entry with one resource, cpu unless a list has another."""
    return {"type": kind, **{key: value if isinstance(value, dict) else {"cpu": value} for key, value in lists.items()}}


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(bounds(min=1, max=4, default=3, defaultRequest=2), id="in order"),
        pytest.param(bounds(min=1, max=1, default=1, defaultRequest=1, maxLimitRequestRatio=1), id="all equal"),
        pytest.param(bounds(default={GPU: "1500m"}), id="a fractional default"),
        pytest.param(bounds(default={"cpu": -1}), id="a negative default"),
        pytest.param(bounds(max={GPU: 2}), id="defaults of a GPU come from its max"),
        pytest.param(bounds("Pod", max=4, min=1), id="bounds of pods"),
        pytest.param(bounds("Pod", default={}), id="an empty list is not a default"),
        pytest.param(bounds("PersistentVolumeClaim", max={"storage": "1Gi"}), id="bounds of claims"),
        pytest.param(bounds("example.com/foo", max=4), id="a type with a domain"),
        pytest.param(bounds(min=1, max=4, maxLimitRequestRatio=4), id="a ratio that max and min allow"),
        pytest.param(bounds(min=0, max=4, maxLimitRequestRatio=1000), id="a ratio with min zero has no bound"),
        pytest.param(bounds(min=0, max=0, maxLimitRequestRatio=1000), id="a ratio with max and min zero has no bound"),
    ],
)
def test_valid(item: Json) -> None:
    assert validate(item) == []


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            bounds("Pod", min=2, max=1),
            ['.min[cpu]: Invalid value: "2": min value 2 is greater than max value 1'],
            id="min above max",
        ),
        pytest.param(
            bounds(min=2, max=1),
            [
                '.min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
                '.defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1',
                '.default[cpu]: Invalid value: "2": min value 2 is greater than default value 1',
            ],
            id="of a container, whose defaults are filled in first",
        ),
        pytest.param(
            bounds(defaultRequest=3, default=2, max=1),
            [
                '.defaultRequest[cpu]: Invalid value: "3": default request value 3 is greater than max value 1',
                f'{REQUEST}[cpu]: Invalid value: "3": default request value 3 is greater than default limit value 2',
                '.default[cpu]: Invalid value: "1": default value 2 is greater than max value 1',
            ],
            id="defaults above max",
        ),
        pytest.param(
            bounds(default={GPU: 2}, defaultRequest={GPU: 1}),
            [
                f'{REQUEST}[{GPU}]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in {GPU}',
            ],
            id="defaults of a GPU that differ",
        ),
        pytest.param(
            bounds(maxLimitRequestRatio="500m"),
            ['.maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1'],
            id="a ratio below 1",
        ),
        pytest.param(
            bounds(min=2, max=3, maxLimitRequestRatio=2),
            ['.maxLimitRequestRatio[cpu]: Invalid value: "2": ratio 2 is greater than max/min = 1.500000'],
            id="a ratio that can never be exceeded",
        ),
        pytest.param(
            bounds("Pod", min={"memory": 3}, max={"memory": "1Mi"}, maxLimitRequestRatio={"memory": "1Gi"}),
            [
                f'{RATIO}[memory]: Invalid value: "1Gi": ratio 1Gi is greater than max/min = 349525.333333',
            ],
            id="its bound is printed with six decimals",
        ),
        pytest.param(
            bounds("Pod", min=0, max=-1, maxLimitRequestRatio=2),
            [
                '.min[cpu]: Invalid value: "0": min value 0 is greater than max value -1',
                '.maxLimitRequestRatio[cpu]: Invalid value: "2": ratio 2 is greater than max/min = -Inf',
            ],
            id="minus infinity",
        ),
        pytest.param(
            bounds("Pod", default=1, defaultRequest=1),
            [
                ".default: Forbidden: may not be specified when `type` is 'Pod'",
                ".defaultRequest: Forbidden: may not be specified when `type` is 'Pod'",
            ],
            id="defaults of a pod",
        ),
        pytest.param(
            bounds("PersistentVolumeClaim", max=1),
            [".limits: Required value: either minimum or maximum storage value is required, but neither was provided"],
            id="claims without storage",
        ),
        pytest.param(
            bounds("foo", max=1),
            ['.type: Invalid value: "foo": must be a standard limit type or fully qualified'],
            id="a type",
        ),
    ],
)
def test_invalid(item: Json, expected: list[str]) -> None:
    assert validate(item) == expected


def test_a_type_is_unique() -> None:
    twice = limit_range(bounds(max=1), bounds("Pod", max=1), bounds(max=1))
    assert list_causes(validate_limit_range(twice)) == ['spec.limits[2].type: Duplicate value: "Container"']


@pytest.mark.parametrize("kind", ["", "a/b/c", "Bad!"])
def test_a_malformed_type_has_the_errors_of_names(kind: str) -> None:
    problems = validate_limit_range(limit_range({"type": kind}))
    assert {each.field for each in problems} == {"spec.limits[0].type"}
    assert all("must be a standard limit type" not in each.detail for each in problems)


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("Container", "gpu", [STANDARD, FOR_CONTAINERS]),
        ("Pod", "storage", [FOR_CONTAINERS]),
        ("Pod", f"requests.{GPU}", [EXTENDED]),
        ("PersistentVolumeClaim", "pods", []),
        ("PersistentVolumeClaim", f"requests.{GPU}", []),
        ("example.com/foo", "gpu", [STANDARD]),
    ],
)
def test_valid_names_depend_on_the_type(kind: str, name: str, expected: list[str]) -> None:
    item = {"type": kind, "max": {name: 1, **({"storage": 1} if kind.startswith("Persistent") else {})}}
    problems = [each for each in validate_limit_range(limit_range(item)) if each.field == f"{AT}.max[{name}]"]
    assert [each.detail for each in problems] == expected


def test_a_malformed_name_is_reported_in_every_defaulted_list() -> None:
    assert [
        field for field, _ in list_details(validate_limit_range(limit_range({"type": "Container", "max": {"gpu": 1}})))
    ] == [f"{AT}.{key}[gpu]" for key in ("max", "default", "defaultRequest") for _ in range(2)]


def test_an_unreadable_value_is_reported_with_the_other_problems() -> None:
    item = {"type": "Pod", "max": {"cpu": "x", "memory": 1}, "min": {"memory": 2}, "maxLimitRequestRatio": {"cpu": ""}}
    assert list_codes(validate_limit_range(limit_range(item))) == [
        (f"{AT}.max[cpu]", "TG004"),
        (f"{AT}.maxLimitRequestRatio[cpu]", "TG004"),
        (f"{AT}.min[memory]", "TG044"),
    ]


def test_a_value_beyond_int64_is_reported() -> None:
    assert list_codes(validate_limit_range(limit_range(bounds("Pod", max={GPU: "10E"})))) == [
        (f"{AT}.max[{GPU}]", "TG007")
    ]


def test_an_empty_limit_range_is_valid() -> None:
    assert validate_limit_range(LimitRange()) == check_limit_range_strictly(LimitRange()) == []


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        pytest.param(
            bounds(default={GPU: "1500m"}),
            [(f"{AT}.default[{GPU}]", "TG066"), (f"{AT}.defaultRequest[{GPU}]", "TG066")],
            id="a fractional default, and the default request that it sets",
        ),
        pytest.param(
            bounds("Pod", max={"pod.alpha.kubernetes.io/opaque-int-resource-x": "1500m"}),
            [(f"{AT}.max[pod.alpha.kubernetes.io/opaque-int-resource-x]", "TG066")],
            id="half an opaque one",
        ),
        pytest.param(bounds("Pod", min=-1), [(f"{AT}.min[cpu]", "TG067")], id="a negative bound"),
        pytest.param(bounds("Pod", min=0, max={GPU: 0}), [], id="zero"),
        pytest.param(bounds("Pod", max="500m"), [], id="half a cpu"),
        pytest.param(bounds("Pod", maxLimitRequestRatio={GPU: "1500m"}), [], id="a ratio is not an amount"),
        pytest.param(bounds("Pod", max={GPU: 2}), [], id="whole GPUs"),
    ],
)
def test_faults_that_kubernetes_accepts(item: Json, expected: list[tuple[str, str]]) -> None:
    assert list_codes(check_limit_range_strictly(limit_range(item))) == expected
