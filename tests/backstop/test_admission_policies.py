"""Admission policies that are compiled from rules: never stricter than the gate, and never looser without a gap."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tallygate.backstop.admission_policies import create_admission_policies
from tallygate.backstop.compiled_objects import POLICY_NAMES
from tallygate.policy.load import load_policies
from tests.admission.case import parse_policies
from tests.backstop.comparison import compare
from tests.backstop.drawn_questions import compile_documents, list_recorded_questions
from tests.backstop.drawn_rules import DRAWN_REQUESTS, DrawnRequests, Object
from tests.backstop.evaluation import evaluate_policies
from tests.backstop.stored_objects import store
from tests.effort import examples

_POLICIES = Path(__file__).parents[2] / "policies"
_JANE = {"username": "jane", "groups": ["system:authenticated"]}


def _list_differences(question: Object) -> list[str]:
    compiled = compile_documents(question["policies"])
    assert compiled
    policies, objects, gaps = compiled
    request, labels = question["request"], question["namespaceLabels"]
    return [*compare(policies, gaps, labels, request, evaluate_policies(objects, labels, request))]


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[*HealthCheck])
@given(DRAWN_REQUESTS)
def test_compiled_rules_find_what_the_gate_finds(drawn: DrawnRequests) -> None:
    for labels, request in drawn.requests:
        stored = {key: store(value) if key in {"object", "oldObject"} else value for key, value in request.items()}
        question = {"policies": drawn.policies, "namespaceLabels": labels, "request": stored}
        if compile_documents(drawn.policies):
            assert _list_differences(question) == []


def test_compiled_rules_agree_with_the_recorded_cases_of_rules() -> None:
    questions = [*list_recorded_questions()]
    assert len(questions) > 100
    for question in questions:
        request = question["request"]
        readable = {key: store(request[key]) for key in ("object", "oldObject") if key in request}
        if None not in readable.values():
            assert _list_differences({**question, "request": {**request, **readable}}) == []


def _create_pod(containers: list[Object], init_containers: list[Object] | None = None) -> Object:
    spec = {"containers": containers, "initContainers": init_containers or []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}, "spec": spec}


def _create_container(name: str, **amounts: str) -> Object:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in amounts.items()}
    return {"name": name, "resources": {"requests": named, "limits": named}}


def _create(pod: Object, **fields: Any) -> Object:
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {"kind": kind, "resource": "pods", "namespace": "team-a", "name": "p", "operation": "CREATE"}
    return {**request, "userInfo": _JANE, "object": pod, **fields}


_SHAPES = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: shapes, annotations: {tallygate.dev/why: odd shapes fragment the nodes}}
spec: {resources: [nvidia.com/gpu], checks: {perContainer: {oneOf: [1, 2, 4]}, perPod: {max: 4}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: cores}
spec: {resources: [cpu], checks: {perContainer: {multipleOf: 250m}}, enforcement: warn}
"""


def test_a_message_has_every_sentence_with_its_container_and_the_reason() -> None:
    objects, _ = create_admission_policies(parse_policies(_SHAPES), ("kube-system",))
    pod = _create_pod([_create_container("trainer", nvidia_com__gpu="3"), _create_container("a", cpu="300m")])
    pod["spec"]["containers"].append(_create_container("b", nvidia_com__gpu="2"))
    assert evaluate_policies(objects, {}, _create(pod)) == {
        "tallygate-rules-deny": (
            "container trainer: 3 is not an allowed amount of nvidia.com/gpu: request one of 1, 2, 4 (TG107, rule "
            "shapes: odd shapes fragment the nodes); spec: the pod requests 5 nvidia.com/gpu in all, more than the 4 "
            "that one pod may have (TG108, rule shapes: odd shapes fragment the nodes)"
        ),
        "tallygate-rules-warn": (
            "container a: 300m is not a multiple of 250m: request 250m or 500m (TG106, rule cores)"
        ),
    }


def test_a_binding_has_the_action_of_its_rules_and_excludes_namespaces() -> None:
    objects, _ = create_admission_policies(parse_policies(_SHAPES), ("tallygate-system", "kube-system"))
    bindings = [content["spec"] for content in objects if content["kind"].endswith("Binding")]
    excluded = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "tallygate-system"],
    }
    assert [binding["validationActions"] for binding in bindings] == [["Deny"], ["Warn"]]
    for binding in bindings:
        assert binding["matchResources"]["namespaceSelector"]["matchExpressions"] == [excluded]


def test_every_policy_has_a_binding_and_lets_pass_what_it_cannot_evaluate() -> None:
    objects, _ = create_admission_policies(parse_policies(_SHAPES), ())
    for policy, binding in zip(objects[::2], objects[1::2], strict=True):
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        assert policy["spec"]["failurePolicy"] == "Ignore"


def test_a_stored_violation_does_not_prevent_a_change() -> None:
    objects, _ = create_admission_policies(parse_policies(_SHAPES), ())
    old = _create_pod([_create_container("a", nvidia_com__gpu="3"), _create_container("b", cpu="1")])
    new = _create_pod([_create_container("a", nvidia_com__gpu="3"), _create_container("b", cpu="2")])
    resize: Object = {"operation": "UPDATE", "subResource": "resize", "oldObject": old}
    assert evaluate_policies(objects, {}, _create(new, **resize)) == {}
    new["spec"]["containers"][1] = _create_container("b", nvidia_com__gpu="1")
    assert "in all" not in str(evaluate_policies(objects, {}, _create(new, **resize)))
    new["spec"]["containers"][1] = _create_container("b", nvidia_com__gpu="5")
    assert "8 nvidia.com/gpu in all" in str(evaluate_policies(objects, {}, _create(new, **resize)))


def test_nothing_is_compiled_without_rules() -> None:
    objects, gaps = create_admission_policies(parse_policies(""), ("kube-system",))
    assert (objects, gaps) == ((), ())


@pytest.mark.parametrize("folder", ["", "examples"])
def test_each_rule_of_the_shipped_files_is_compiled(folder: str) -> None:
    """Compile every file on its own: each rule has its sentences, or a gap that says why it has none."""
    for path in sorted((_POLICIES / folder).glob("*.yaml")):
        policies = load_policies([path]).policies
        objects, gaps = create_admission_policies(policies, ("kube-system",))
        text = json.dumps(objects)
        for rule in policies.rules:
            own = [gap for gap in gaps if gap.policy == f"rule {rule.name}"]
            is_gap = any(gap.subject == "checks.wellFormedName" or not gap.is_looser for gap in own)
            assert f"rule {rule.name}" in text or is_gap, (path, rule.name)


_FULL = {
    "perContainer": {"min": 5000, "max": 1, "multipleOf": 7, "oneOf": [*range(2, 102)]},
    "perPod": {"min": 5000, "max": 1, "multipleOf": 7, "oneOf": [*range(2, 102)]},
    "wholeQuantity": True,
    "requestsEqualLimits": True,
}


def _create_rule(number: int, resources: list[str], checks: Object) -> Object:
    metadata = {"name": f"rule-{number}"}
    return {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "ResourceRule",
        "metadata": metadata,
        "spec": {"resources": resources, "checks": checks},
    }


def _create_hostile_pod(containers: int, init_containers: int, names: int) -> Object:
    lists = [
        {f"{'x' * 113}.io/n{number:03d}"[-128:]: amount for number in range(names)} for amount in ("1500m", "1501m")
    ]
    resources = {"requests": lists[0], "limits": lists[1]}
    listed = [{"name": f"c{number}".ljust(63, "z"), "resources": resources} for number in range(containers)]
    init = [
        {
            "name": f"i{number}".ljust(63, "z"),
            "resources": resources,
            **({} if number % 2 else {"restartPolicy": "Always"}),
        }
        for number in range(init_containers)
    ]
    return _create_pod(listed, init)


@pytest.mark.parametrize("shape", [(1, 39, 2), (1, 1, 40)])
@pytest.mark.parametrize(
    "documents",
    [
        [_create_rule(0, ["*"], _FULL)],
        [_create_rule(number, ["*"], _FULL) for number in range(20)],
        [_create_rule(number, ["*x*"], {"perContainer": {"oneOf": [1, 2, 4, 8]}}) for number in range(40)],
    ],
    ids=["one", "twenty", "many"],
)
def test_no_object_exceeds_the_cost_limits(documents: list[Object], shape: tuple[int, int, int]) -> None:
    """Evaluate the largest objects that rules are evaluated for; half of the budget is for the message."""
    compiled = compile_documents(documents)
    assert compiled
    costs: dict[str, int] = {}
    messages = evaluate_policies(compiled[1], {}, _create(_create_hostile_pod(*shape)), costs)
    assert messages
    assert max(costs.values()) < 4_500_000


def test_a_rule_that_costs_too_much_is_a_gap() -> None:
    globs = [f"*a{number}*b?c{number}*" for number in range(99)]
    compiled = compile_documents([_create_rule(0, globs, _FULL), _create_rule(1, ["*"], {})])
    assert compiled
    _, objects, gaps = compiled
    assert [gap.subject for gap in gaps if gap.policy == "rule rule-0" and not gap.is_looser] == ["checks"]
    assert "rule1_rule_1" not in json.dumps(objects)
    assert "rule0_rule_1" in json.dumps(objects)


def test_rules_beyond_the_last_policy_are_gaps_and_all_names_are_known() -> None:
    """Compile more rules than the policies of one enforcement can have: RBAC names the policies that may be written."""
    documents = [_create_rule(number, ["*x*"], {"perContainer": {"oneOf": [1, 2, 4, 8]}}) for number in range(400)]
    compiled = compile_documents(documents)
    assert compiled
    _, objects, gaps = compiled
    names = {content["metadata"]["name"] for content in objects}
    assert names == {name for name in POLICY_NAMES if name.startswith("tallygate-rules-deny")}
    left_out = {gap.policy for gap in gaps if gap.subject == "checks" and not gap.is_looser}
    texts = json.dumps(objects)
    for number in range(400):
        assert (f'_rule_{number}"' in texts) != (f"rule rule-{number}" in left_out)
    assert left_out


def test_larger_objects_pass_without_an_error() -> None:
    """Evaluate an object that is too large for the rules, which is a gap."""
    compiled = compile_documents([_create_rule(0, ["*"], _FULL)])
    assert compiled
    _, objects, gaps = compiled
    assert evaluate_policies(objects, {}, _create(_create_hostile_pod(41, 0, 1))) == {}
    assert evaluate_policies(objects, {}, _create(_create_hostile_pod(1, 0, 81))) == {}
    assert any(gap.subject == "checks" and gap.is_looser for gap in gaps)


@pytest.mark.parametrize(
    ("checks", "subject", "is_looser"),
    [
        ({"advertised": True}, "checks.advertised", False),
        ({"schedulable": "never"}, "checks.schedulable", False),
        ({"requestsEqualLimits": "fill"}, "checks.requestsEqualLimits", True),
        ({"perContainer": {"multipleOf": "1u"}}, "checks.perContainer.multipleOf", False),
        ({"perContainer": {"multipleOf": 2}}, "checks.perContainer.multipleOf", True),
        ({"perPod": {"max": 2}}, "checks.perPod", True),
        ({"perClaim": {"min": 2}}, "checks.perClaim", True),
        ({"activeDeadlineSeconds": {"max": "1h"}}, "checks.activeDeadlineSeconds", False),
        ({}, "match.kinds", True),
    ],
)
def test_gaps_name_what_no_policy_says(checks: Object, subject: str, *, is_looser: bool) -> None:
    compiled = compile_documents([_create_rule(0, ["*"], checks)])
    assert compiled
    assert (subject, is_looser) in {(gap.subject, gap.is_looser) for gap in compiled[2]}


_IMPLIED = """
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: addresses}
spec: {resource: example.com/ip}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: gangs}
spec: {resources: [example.com/*], match: {kinds: [JobSet]}}
"""


def test_gaps_name_implied_requests_and_kinds_of_other_projects() -> None:
    objects, gaps = create_admission_policies(parse_policies(_IMPLIED), ())
    assert objects == ()
    assert [(gap.policy, gap.subject, gap.is_looser) for gap in gaps] == [
        ("implied request addresses", "resource", False),
        ("rule gangs", "match.kinds", False),
    ]
