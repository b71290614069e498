"""Properties for any pod and any rule: a patch satisfies its rule, verdicts are repeatable, nothing crashes."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.admission.evaluate import evaluate_request
from tallygate.admission.request import Phase, ReviewError, Verdict
from tallygate.admission.rule_index import RuleIndex
from tests.admission.case import create_request, describe_verdict, parse_policies
from tests.effort import examples

FILLING = RuleIndex(
    parse_policies("""
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fill}
spec:
  resources: [extended, opaque, cpu]
  checks: {requestsEqualLimits: fill, perPod: {max: 1000000}}
""")
)
NAMES = ("nvidia.com/gpu", "example.com/a.b", "pod.alpha.kubernetes.io/opaque-int-resource-x", "cpu", "memory", "Bad!")
quantities = st.one_of(st.integers(-1, 9), st.sampled_from(["1", "2", "3Ki", "1500m", "x", "10E", "", "1e3", None]))
lists = st.dictionaries(st.sampled_from(NAMES), quantities, max_size=4)
resources = st.fixed_dictionaries({}, optional={"requests": lists, "limits": lists})
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("abcd")}, optional={"resources": resources}),
    max_size=3,
    unique_by=lambda container: str(container["name"]),
)
specs = st.fixed_dictionaries({}, optional={"containers": containers, "initContainers": containers, "overhead": lists})


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a pod with a spec."""
    return {"kind": "Pod", "spec": spec}


def evaluate(request: dict[str, Any], phase: Phase) -> Verdict:
    """Return the verdict of the filling rule on a request."""
    return evaluate_request(create_request(request), FILLING, None, phase)


def apply_patch(document: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document after `add` operations (RFC 6902, 4.1)."""
    document = copy.deepcopy(document)
    for operation in operations:
        assert operation["op"] == "add"
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at: Any = document
        for parent in parents:
            at = at[int(parent)] if isinstance(at, list) else at[parent]
        assert not at.get(last), "a fill never overwrites"
        at[last] = operation["value"]
    return document


@given(specs)
@settings(max_examples=examples(200))
def test_a_patched_pod_has_no_problems_and_is_not_patched_again(spec: dict[str, Any]) -> None:
    first = evaluate({"object": pod(spec)}, Phase.MUTATING)
    if not first.is_allowed:
        return
    after = apply_patch(pod(spec), describe_verdict(first).get("patch", []))
    assert describe_verdict(evaluate({"object": after}, Phase.MUTATING)) == {}
    assert describe_verdict(evaluate({"object": after}, Phase.VALIDATING)) == {}


@given(specs)
@settings(max_examples=examples(100))
def test_an_update_without_changes_is_always_allowed(spec: dict[str, Any]) -> None:
    for phase in Phase:
        assert describe_verdict(evaluate({"old": pod(spec), "object": pod(spec)}, phase)) == {}


@given(specs)
@settings(max_examples=examples(100))
def test_a_template_violates_the_rules_that_its_pods_would_violate(spec: dict[str, Any]) -> None:
    bare = describe_verdict(evaluate({"object": pod(spec)}, Phase.VALIDATING)).get("problems", [])
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": spec}}}
    inside = describe_verdict(evaluate({"object": deployment}, Phase.VALIDATING)).get("problems", [])
    assert inside == [f"spec.template.{problem}" for problem in bare]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "containers", "resources", "requests", "limits", "metadata", "template", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["spec", "metadata", "status", "template"]), anything, max_size=3), st.data())
@settings(max_examples=examples(200))
def test_an_object_of_any_shape_is_evaluated_or_rejected(shape: dict[str, Any], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["Pod", "Deployment", "CronJob", "Node", "ResourceQuota", "LimitRange"]))
    try:
        found = evaluate({"object": {"kind": kind, **shape}}, Phase.VALIDATING)
    except ReviewError as error:
        assert str(error).startswith(f"the object is not a {kind}: ")  # noqa: PT017  # either outcome is right
    else:
        assert json.dumps(describe_verdict(found))
