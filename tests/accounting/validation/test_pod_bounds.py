"""Pods under LimitRanges, compared with the answers of an API server 1.37.2 (`e2e/test_limit_ranges.py`)."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallygate.accounting.kubernetes_versions.version import DEFAULT_VERSION
from tallygate.accounting.pod_defaults import UNKNOWN_POD_DEFAULTS, create_pod_defaults
from tallygate.accounting.pod_resources import parse_resource_list
from tallygate.accounting.validation.pod_bounds import check_pod_bounds
from tallygate.accounting.validation.pods import validate_pod
from tallygate.objects.core import Container, LimitRange, Pod, ResourceRequirements

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "pods_under_limit_ranges.json").read_text())
PARAMETERS = pytest.mark.parametrize("case", CASES, ids=[each["name"] for each in CASES])


def decode_case(case: dict[str, Any]) -> tuple[list[LimitRange], Pod]:
    """Return the LimitRanges and the pod of a case."""
    limit_ranges = [msgspec.json.decode(json.dumps(each), type=LimitRange) for each in case["limitRanges"]]
    return limit_ranges, msgspec.json.decode(json.dumps({"spec": case["spec"]}), type=Pod)


@PARAMETERS
def test_a_pod_is_rejected_as_by_the_api_server(case: dict[str, Any]) -> None:
    limit_ranges, pod = decode_case(case)
    defaults = create_pod_defaults(limit_ranges, {})
    completed = defaults.complete(pod)
    assert completed.spec is not None
    found = [
        *validate_pod(completed),
        *check_pod_bounds(completed.spec, defaults.bounds, defaults.version, is_complete=defaults.has_limit_ranges),
    ]
    assert bool(found) == (case["answer"]["status"] != 201), (found, case["answer"])


@PARAMETERS
def test_a_pod_is_completed_as_by_the_api_server(case: dict[str, Any]) -> None:
    if case["answer"]["status"] != 201:
        return
    limit_ranges, pod = decode_case(case)
    spec = create_pod_defaults(limit_ranges, {}).complete(pod).spec
    assert spec is not None
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        expected = msgspec.json.decode(
            json.dumps(case["answer"]["resources"][container.name]), type=ResourceRequirements
        )
        assert read_amounts(container) == read_amounts(Container(container.name, expected))


def read_amounts(container: Container) -> dict[str, Any]:
    """Return the limits of a container, and its requests, of which the API server completes those with a limit."""
    resources = container.resources or ResourceRequirements()
    limits = parse_resource_list(resources.limits)
    return {"limits": dict(limits), "requests": {**limits, **parse_resource_list(resources.requests)}}


@PARAMETERS
def test_with_other_limit_ranges_only_what_is_written_is_a_problem(case: dict[str, Any]) -> None:
    limit_ranges, pod = decode_case(case)
    defaults = create_pod_defaults(limit_ranges, {}, has_limit_ranges=False)
    assert pod.spec is not None
    found = check_pod_bounds(pod.spec, defaults.bounds, defaults.version, is_complete=False)
    assert not found or case["answer"]["status"] != 201
    assert not any("has no" in each.message and ", or 0" not in each.message for each in found)
    assert not check_pod_bounds(pod.spec, UNKNOWN_POD_DEFAULTS.bounds, DEFAULT_VERSION, is_complete=False)
