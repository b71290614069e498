"""Capacity and allocatable of nodes: Kubernetes' checks, and stricter ones."""

from typing import Any

import pytest

from tallygate.accounting.validation.node_and_quota import check_node_strictly, validate_node
from tallygate.objects.core import Node
from tests.accounting.objects import node
from tests.accounting.validation.problem_views import INTEGER, NEGATIVE, list_causes, list_codes, list_details

GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("capacity", "allocatable", "expected"),
    [
        pytest.param({GPU: "3500m"}, {}, [(f"status.capacity.{GPU}", INTEGER)], id="a fraction"),
        pytest.param({}, {GPU: "3500m"}, [(f"status.allocatable.{GPU}", INTEGER)], id="a fraction in allocatable"),
        pytest.param(
            {GPU: -1},
            None,
            [(f"status.capacity.{GPU}", NEGATIVE), (f"status.allocatable.{GPU}", NEGATIVE)],
            id="absent allocatable defaults to capacity",
        ),
        pytest.param(
            {GPU: -1}, {}, [(f"status.capacity.{GPU}", NEGATIVE)], id="empty allocatable does not default to capacity"
        ),
        pytest.param({"pods": "1500m"}, {}, [("status.capacity.pods", INTEGER)], id="pods are whole"),
        pytest.param({"": -1}, {}, [("status.capacity[]", NEGATIVE)], id="an empty name is an index"),
        pytest.param({"cpu": "1500m", "kubernetes.io/x": "500m"}, None, [], id="native names may have fractions"),
        pytest.param({"": 1, "a b c": 1, "gpu": 1, "a/b/c": 1, "Bad_Name!": "5500m"}, None, [], id="any name at all"),
        pytest.param({GPU: 1}, {GPU: 2}, [], id="allocatable above capacity"),
        pytest.param(None, None, [], id="no lists"),
    ],
)
def test_the_errors_of_the_api_server(capacity: Any, allocatable: Any, expected: list[tuple[str, str]]) -> None:
    assert list_details(validate_node(node(capacity, allocatable))) == expected


def test_a_node_without_a_status_is_valid() -> None:
    assert validate_node(Node()) == check_node_strictly(Node()) == []


def test_the_message_shows_the_value() -> None:
    assert list_causes(validate_node(node({GPU: "3.5"}, {}))) == [
        f'status.capacity.{GPU}: Invalid value: "3500m": must be an integer'
    ]


def test_an_unreadable_quantity_is_reported_with_the_other_problems() -> None:
    assert list_codes(validate_node(node({"cpu": "4x", GPU: "0.5"}, {}))) == [
        ("status.capacity[cpu]", "TG004"),
        (f"status.capacity.{GPU}", "TG006"),
    ]


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        pytest.param({"pod.alpha.kubernetes.io/opaque-int-resource-foo": "5500m"}, ["TG060"], id="half an opaque one"),
        pytest.param({"notkubernetes.io/gpu": "1500m"}, ["TG060"], id="a name that contains kubernetes.io/"),
        pytest.param({"Bad_Name!": 5}, ["TG063", "TG063"], id="a malformed name"),
        pytest.param({"gpu": 5}, ["TG063", "TG063"], id="a name without a domain"),
        pytest.param({f"requests.{GPU}": 5}, ["TG063"], id="a quota's name"),
        pytest.param(
            {"cpu": "1500m", "memory": 1, "pods": 1, "ephemeral-storage": 1, "hugepages-2Mi": 0, GPU: 1},
            [],
            id="usual names of nodes",
        ),
        pytest.param({"attachable-volumes-aws-ebs": 39, "kubernetes.io/x": 1}, [], id="volumes and whole native ones"),
        pytest.param({GPU: "1500m"}, [], id="a fraction that Kubernetes rejects itself"),
    ],
)
def test_faults_that_kubernetes_accepts(capacity: Any, expected: list[str]) -> None:
    found = check_node_strictly(node(capacity, {}))
    assert [each.code for each in found] == expected
    assert all(each.detail == "" and each.field.startswith("status.capacity") for each in found)


def test_a_malformed_name_is_reported_for_allocatable() -> None:
    found = check_node_strictly(node({"Bad_Name!": 5}))
    assert {each.field for each in found} == {"status.capacity.Bad_Name!", "status.allocatable.Bad_Name!"}
