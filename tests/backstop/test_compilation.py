"""Tests of the comparison of compiled objects with those of a cluster."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tallygate.backstop.compilation import compare_objects, compile_policies
from tallygate.backstop.resource_quotas import ObservedCluster
from tests.admission.case import parse_policies

_POLICIES = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {namespaces: {include: [team-a, team-b]}, hard: {limits.memory: 2048Mi, nvidia.com/gpu: 4}}
"""
_NOW = datetime(2026, 12, 1, tzinfo=UTC)
Object = dict[str, Any]


def compile_quotas() -> list[Object]:
    """Return the quotas of both namespaces."""
    return [*compile_policies(parse_policies(_POLICIES), ObservedCluster(), _NOW).objects]


def store(compiled: list[Object]) -> list[Object]:
    """Return the objects as an API server stores them."""
    stored = copy.deepcopy(compiled)
    for content in stored:
        content["metadata"] |= {"uid": "u", "resourceVersion": "7", "annotations": {"other": "x"}}
        content["metadata"]["labels"]["team"] = "platform"
        content["status"] = {"hard": content["spec"]["hard"], "used": {}}
    return stored


def test_stored_objects_do_not_differ() -> None:
    assert compare_objects(compile_quotas(), store(compile_quotas())) == []


def _change_limit(quota: Object) -> None:
    quota["spec"]["hard"]["requests.nvidia.com/gpu"] = "5"


def _write_otherwise(quota: Object) -> None:
    quota["spec"]["hard"] |= {"limits.memory": "2Gi", "requests.nvidia.com/gpu": "4000m"}
    quota["spec"]["scopes"] = []


def _add_limit(quota: Object) -> None:
    quota["spec"]["hard"]["pods"] = "1"


def _add_scope(quota: Object) -> None:
    quota["spec"]["scopes"] = ["BestEffort"]


def _change_policy(quota: Object) -> None:
    quota["metadata"]["labels"]["tallygate.dev/policy"] = "other"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_write_otherwise, []),
        (_change_limit, ["other: ResourceQuota tallygate-gpus in team-a: spec.hard.requests.nvidia.com/gpu"]),
        (_add_limit, ["other: ResourceQuota tallygate-gpus in team-a: spec.hard.pods"]),
        (_add_scope, ["other: ResourceQuota tallygate-gpus in team-a: spec.scopes"]),
        (_change_policy, ["other: ResourceQuota tallygate-gpus in team-a: metadata.labels"]),
    ],
)
def test_a_changed_object_is_named_with_its_field(change: Callable[[Object], None], expected: list[str]) -> None:
    stored = store(compile_quotas())
    change(stored[0])
    assert list(map(str, compare_objects(compile_quotas(), stored))) == expected


def test_missing_and_surplus_objects_are_named() -> None:
    stored = store(compile_quotas())
    stored[1]["metadata"]["namespace"] = "team-c"
    assert list(map(str, compare_objects(compile_quotas(), stored))) == [
        "missing: ResourceQuota tallygate-gpus in team-b",
        "surplus: ResourceQuota tallygate-gpus in team-c",
    ]


def test_defaults_of_an_api_server_are_no_difference() -> None:
    policy: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "tallygate-whole", "labels": {}},
        "spec": {
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]
            },
            "validations": [{"expression": "true"}],
        },
    }
    stored = copy.deepcopy(policy)
    stored["spec"]["failurePolicy"] = "Fail"
    stored["spec"]["matchConstraints"] |= {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    stored["spec"]["matchConstraints"]["resourceRules"][0]["scope"] = "*"
    assert compare_objects([policy], [stored]) == []
    stored["spec"]["failurePolicy"] = "Ignore"
    (difference,) = compare_objects([policy], [stored])
    assert difference.path == "spec.failurePolicy"
