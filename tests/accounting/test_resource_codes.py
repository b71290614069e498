"""The examples of the codes of problems that Kubernetes reports, or should report."""

import json
from typing import Any

import msgspec
import pytest
import yaml

from tallygate.accounting.problem import Problem
from tallygate.accounting.validation.limit_ranges import check_limit_range_strictly, validate_limit_range
from tallygate.accounting.validation.node_and_quota import (
    check_node_strictly,
    check_quota_strictly,
    validate_node,
    validate_quota,
)
from tallygate.accounting.validation.pods import check_pod_strictly, validate_pod
from tallygate.answers.code_catalog import Code, list_codes
from tallygate.objects.core import LimitRange, Node, Pod, ResourceQuota

# They compare an object with its namespace, with another object, or with all pods: `check` has their examples.
_BESIDE_OTHERS = {"TG024", "TG028", "TG029", "TG069", "TG070"}
_ALONE = [code for code in list_codes() if "TG010" <= code.number <= "TG070" and code.number not in _BESIDE_OTHERS]


@pytest.mark.parametrize("code", _ALONE, ids=lambda code: code.slug)
def test_the_invalid_example_has_this_code_and_the_valid_one_has_none(code: Code) -> None:
    assert code.number in {problem.code for problem in _validate_fragment(code.invalid_example)}
    assert not _validate_fragment(code.valid_example)


def _validate_fragment(fragment: str) -> list[Problem]:
    """Return the problems of a fragment as a part of its kind of object."""
    read = json.loads(json.dumps(yaml.safe_load(fragment)))
    if "status" in read:
        node = _decode(read, Node)
        return validate_node(node) + check_node_strictly(node)
    if "limits" in read:
        limit_range = _decode({"spec": read}, LimitRange)
        return validate_limit_range(limit_range) + check_limit_range_strictly(limit_range)
    if read.keys() & {"hard", "scopes", "scopeSelector"}:
        quota = _decode({"spec": read}, ResourceQuota)
        return validate_quota(quota) + check_quota_strictly(quota)
    pod = _decode({"spec": _create_pod_spec(read)}, Pod)
    return validate_pod(pod) + check_pod_strictly(pod)


def _create_pod_spec(read: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's spec, or a spec around a container's `resources`."""
    if read.keys() == {"resources"}:
        resources = read["resources"]
        names = {claim["name"] for claim in resources.get("claims", ()) if "name" in claim}
        return {"containers": [read], "resourceClaims": [{"name": name} for name in names]}
    return read


def _decode(decoded: Any, object_type: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps(decoded), type=object_type)
