"""The gate and kinds that policies define: rules, caps and changes of the policies."""

from typing import Any

import pytest

from tallygate.admission.request import Phase
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import GPU, GateFixture, response

GANG = {"group": "batch.example.com", "version": "v1", "kind": "GangJob"}
KIND = """
---
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: gangs}
spec:
  group: batch.example.com
  kind: GangJob
  resource: gangjobs
  versions: [v1]
  pods: [{template: "spec.groups[*].template", count: ["spec.groups[*].replicas"], noun: workers}]
"""
CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {hard: {nvidia.com/gpu: 4}, workloads: deny}
"""
RULE = """
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: pairs}
spec: {resources: [nvidia.com/gpu], checks: {perPod: {multipleOf: 2}, requestsEqualLimits: fill}}
"""


def create_gang(*groups: tuple[int, int | str]) -> dict[str, Any]:
    """Return a GangJob with groups of this many pods with this many GPUs."""
    return {
        "kind": "GangJob",
        "metadata": {"name": "g"},
        "spec": {
            "groups": [
                {
                    "replicas": replicas,
                    "template": {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: gpus}}}]}},
                }
                for replicas, gpus in groups
            ]
        },
    }


@pytest.mark.parametrize(
    ("groups", "verdict", "part"),
    [
        pytest.param([(2, 2)], "allowed", "", id="a gang that fits is allowed"),
        pytest.param([(1, 2), (1, 3)], "denied", "spec.groups[1].template.spec: ", id="a rule checks every group"),
        pytest.param([(1, 2), (2, 2)], "denied", "6 nvidia.com/gpu", id="a cap counts all groups together"),
    ],
)
def test_a_gang_is_judged_as_a_whole(groups: list[tuple[int, int]], verdict: str, part: str) -> None:
    decision = GateFixture(CAP + KIND + RULE).admit(create_gang(*groups), kind=GANG)
    answer = response(decision)
    assert answer["allowed"] is (verdict == "allowed")
    assert part in answer.get("status", {}).get("message", "")


def test_limits_are_filled_in_the_templates_of_a_gang() -> None:
    gang = create_gang((1, 2))
    container = gang["spec"]["groups"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {GPU: 2}}
    decision = GateFixture(CAP + KIND + RULE).admit(gang, Phase.MUTATING, kind=GANG)
    assert "patch" in response(decision)


def test_pods_with_an_invalid_quantity_count_nothing() -> None:
    """Leave the pods to the API server, which rejects each of them: it has stored the object that it cannot read."""
    fixture = GateFixture(CAP + KIND)
    answer = response(fixture.admit(create_gang((9, "many"), (2, 2)), kind=GANG))
    assert answer["allowed"]
    (warning,) = answer["warnings"]
    assert warning.startswith("the pods of spec.groups[0].template were compared with no limit")
    too_many = response(fixture.admit(create_gang((9, "many"), (3, 2)), kind=GANG))
    assert not too_many["allowed"]
    assert "6 nvidia.com/gpu" in too_many["status"]["message"]


@pytest.mark.parametrize(("gpus", "is_allowed"), [(2, True), (5, False)])
def test_an_invalid_quantity_can_be_corrected(gpus: int, *, is_allowed: bool) -> None:
    old = create_gang((1, "many"))
    answer = response(GateFixture(CAP + KIND).admit(create_gang((1, gpus)), kind=GANG, oldObject=old))
    assert answer["allowed"] is is_allowed
    assert "warnings" not in answer


def test_an_object_of_the_same_kind_in_another_group_is_not_read() -> None:
    decision = GateFixture(CAP + KIND + RULE).admit(create_gang((9, 3)), kind={**GANG, "group": "other.example.com"})
    assert response(decision)["allowed"] is True


def test_a_definition_applies_from_the_next_review_on() -> None:
    fixture = GateFixture(CAP + RULE)
    assert response(fixture.admit(create_gang((1, 3)), kind=GANG))["allowed"] is True
    fixture.policies = parse_policies(CAP + KIND + RULE)
    assert response(fixture.admit(create_gang((1, 3)), kind=GANG))["allowed"] is False
    fixture.policies = parse_policies(CAP + RULE)
    assert response(fixture.admit(create_gang((1, 3)), kind=GANG))["allowed"] is True


def test_an_update_is_judged_by_its_increase() -> None:
    fixture = GateFixture(CAP + KIND)
    old = create_gang((3, 2))
    allowed = response(fixture.admit(create_gang((3, 2)), kind=GANG, oldObject=old))
    grown = response(fixture.admit(create_gang((5, 2)), kind=GANG, oldObject=old))
    assert (allowed["allowed"], grown["allowed"]) == (True, False)
