"""The share of the present pods about which the API server would ask, and the policies for which it would."""

from typing import Any

import pytest
from msgspec.structs import replace

from tallygate.cli.doctor import asked_pods
from tallygate.cli.doctor.check_result import CheckStatus
from tallygate.cli.doctor.facts import PodGroup, Unavailable
from tests.admission.case import parse_policies
from tests.cli.doctor.healthy_gate import Object, create_conditioned, create_facts, create_registration, run_check

_POLICIES = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: dongles}
spec: {namespaces: {}, hard: {example.com/dongle: 1}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: pods-of-a}
spec: {namespaces: {include: [team-a]}, hard: {pods: 9}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole}
spec: {resources: [extended]}
"""


def _group(namespace: str, pods: int, **requests: str) -> PodGroup:
    container = {"resources": {"requests": {name.replace("_", "/"): amount for name, amount in requests.items()}}}
    return PodGroup(namespace, {"spec": {"containers": [container]}}, pods)


_GROUPS = (
    _group("team-a", 6, cpu="1"),
    _group("default", 20, cpu="1"),
    _group("default", 2, **{"example.com_dongle": "1"}),
    _group("kube-system", 12, **{"example.com_dongle": "1"}),
)


def _create_facts(**changes: Any) -> Any:
    policies = parse_policies(_POLICIES)
    return create_facts(**({"policies": policies, "pod_groups": _GROUPS} | create_conditioned(policies) | changes))


def test_the_share_has_the_policies_for_which_the_gate_is_asked() -> None:
    """Count the pods in the namespaces of the cap on pods, and those with dongles, but none of kube-system."""
    found = run_check("asked", _create_facts())
    assert found.status is CheckStatus.PASS
    assert found.reason == (
        "about every pod in the namespaces of pods-of-a: whatever a pod requests matters there. "
        "Of 40 present pods that is 8, 20%: pods-of-a 6, whole 2, dongles 2"
    )


def test_a_registration_without_conditions_asks_about_all_but_the_excluded_pods() -> None:
    found = run_check("asked", _create_facts(**create_registration()))
    assert found.reason.endswith(
        "no condition of a policy is registered. Of 40 present pods that is 28, 70%: pods-of-a 6, whole 2, dongles 2"
    )


def test_what_one_configuration_without_webhooks_lists_is_not_asked_about() -> None:
    """Keep its annotation, as a user does who removes the webhooks."""
    conditioned = create_conditioned(parse_policies(_POLICIES))
    emptied = replace(conditioned["validating"], webhooks=())
    found = run_check("asked", _create_facts(**conditioned | {"validating": emptied}))
    assert found.status is CheckStatus.WARN
    assert found.reason.startswith("it is not asked about dongles, pods-of-a, whole yet")


def test_pods_that_are_unknown_have_no_share() -> None:
    for groups in ((), Unavailable("forbidden")):
        assert run_check("asked", _create_facts(pod_groups=groups)).reason.endswith(
            "whatever a pod requests matters there"
        )


def test_a_condition_that_cannot_be_evaluated_is_taken_for_true() -> None:
    def add(_: Object, validating: Object) -> None:
        for expression in ("authorizer.path('/x').check('get').allowed()", "object.spec.absent", "1"):
            validating["webhooks"][0].setdefault("matchConditions", []).append({"name": "x", "expression": expression})

    assert "28, 70%" in run_check("asked", _create_facts(**create_registration(add))).reason


def test_the_policies_of_very_many_pods_are_counted_in_a_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_pods, "_MAX_QUESTIONS", 3)
    assert run_check("asked", _create_facts()).reason.endswith("8, 20%: at least pods-of-a 6")
