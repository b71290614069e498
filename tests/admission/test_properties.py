"""What holds for any pod and any rule: a patch satisfies its own rule, judging twice says the same, nothing crashes."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.admission.case import change, policies, said
from tests.effort import examples
from webhook.admission.evaluate import evaluate_request
from webhook.admission.request import Phase, ReviewError, Verdict
from webhook.admission.rule_index import RuleIndex

FILLING = RuleIndex(
    policies("""
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
    """A pod or a Deployment of that spec."""
    return {"kind": "Pod", "spec": spec}


def verdict(asks: dict[str, Any], phase: Phase) -> Verdict:
    """What the filling rule says of a creation."""
    return evaluate_request(change(asks), FILLING, None, phase)


def patched(document: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """The document with `add` operations applied (RFC 6902, 4.1)."""
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
def test_a_pod_that_was_patched_is_judged_clean_and_not_patched_again(spec: dict[str, Any]) -> None:
    first = verdict({"object": pod(spec)}, Phase.MUTATING)
    if not first.is_allowed:
        return
    after = patched(pod(spec), said(first).get("patch", []))
    assert said(verdict({"object": after}, Phase.MUTATING)) == {}
    assert said(verdict({"object": after}, Phase.VALIDATING)) == {}


@given(specs)
@settings(max_examples=examples(100))
def test_writing_back_what_is_stored_is_always_allowed(spec: dict[str, Any]) -> None:
    for phase in Phase:
        assert said(verdict({"old": pod(spec), "object": pod(spec)}, phase)) == {}


@given(specs)
@settings(max_examples=examples(100))
def test_a_template_breaks_the_rules_that_its_pods_would_break(spec: dict[str, Any]) -> None:
    bare = said(verdict({"object": pod(spec)}, Phase.VALIDATING)).get("problems", [])
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": spec}}}
    inside = said(verdict({"object": deployment}, Phase.VALIDATING)).get("problems", [])
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
def test_an_object_of_any_shape_is_judged_or_called_none(shape: dict[str, Any], data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["Pod", "Deployment", "CronJob", "Node", "ResourceQuota", "LimitRange"]))
    try:
        found = verdict({"object": {"kind": kind, **shape}}, Phase.VALIDATING)
    except ReviewError as refused:
        assert str(refused).startswith(f"the object is not a {kind}: ")  # noqa: PT017  # either outcome is right
    else:
        assert json.dumps(said(found))
