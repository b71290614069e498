"""Tests of static manifests."""

import pytest

from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.static_manifests import create_registration_policy, create_static_manifests

_IN_GROUP = "request.userInfo.?groups.orValue([]).exists(group, group in ['g'])"


def create_compiled() -> list[CompiledObject]:
    """Return a policy, its binding and a quota."""
    binding = {"policyName": "tallygate-rules-deny", "validationActions": ["Deny"]}
    return [
        {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "tallygate-rules-deny"}, "spec": {"variables": []}},
        {"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "tallygate-rules-deny"}, "spec": binding},
        {"kind": "ResourceQuota", "metadata": {"name": "tallygate-gpus"}, "spec": {}},
    ]


def test_policies_and_bindings_get_the_reserved_names_and_quotas_are_left_out() -> None:
    compiled = create_compiled()
    policy, binding = create_static_manifests(compiled)
    name = "tallygate-rules-deny.static.k8s.io"
    assert (policy["metadata"]["name"], binding["metadata"]["name"], binding["spec"]["policyName"]) == (name,) * 3
    assert policy["spec"] == compiled[0]["spec"]
    assert compiled == create_compiled()


@pytest.mark.parametrize(
    ("users", "groups", "expression"),
    [
        (["b", "a"], [], "request.userInfo.username in ['a', 'b']"),
        ([], ["g"], _IN_GROUP),
        (
            ["o'neil"],
            ["g"],
            '(request.userInfo.username in ["o\'neil"] || ' + _IN_GROUP + ")",
        ),
    ],
)
def test_the_registration_may_be_changed_by_the_named_users_and_groups(
    users: list[str], groups: list[str], expression: str
) -> None:
    policy, binding = create_registration_policy(users, groups, "1f3a")
    (validation,) = policy["spec"]["validations"]
    assert validation["expression"] == expression
    assert all(name in validation["message"] for name in (*users, *groups))
    assert binding["spec"]["policyName"] == policy["metadata"]["name"] == "tallygate-registration.static.k8s.io"
    assert [rule["operations"] for rule in policy["spec"]["matchConstraints"]["resourceRules"]] == [
        ["UPDATE", "DELETE"]
    ]
