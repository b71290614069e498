"""The pods in objects of kinds that policies define: any definition with its objects, and hostile objects."""

import json
import re
from math import prod
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.admission.kinds import decode_object, list_review_targets
from tallygate.admission.object_values import MAX_ITEMS, TooManyItemsError
from tallygate.admission.pod_sets import CustomWorkload, read_custom_workload
from tallygate.admission.request import CREATE, AdmissionRequest, ReviewError
from tallygate.policy.parse import parse
from tallygate.policy.workload_kinds import PathStep, Wildcard, WorkloadKind
from tests.admission.case import parse_policies

GROUP = "batch.example.com"
FIELDS = ("a", "b", "x.y/z", "0")
NUMBERS = st.integers(-3, 5)


class Count(NamedTuple):
    """A count: the number of steps of the template's path before it, its name, its default and what is subtracted."""

    depth: int
    name: str
    default: int | None
    minus: int


class Case(NamedTuple):
    """A definition, an object of its kind, and the marks and numbers of the pods that it contains."""

    kind: WorkloadKind
    body: dict[str, Any]
    pods: list[tuple[str, int]]


def write_path(steps: list[PathStep]) -> str:
    """Return the text of a path."""
    text = ""
    for step in steps:
        if isinstance(step, Wildcard):
            text += step
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def define_kind(pod_set: dict[str, Any]) -> WorkloadKind:
    """Return the kind of a policy with this pod set."""
    spec = {"group": GROUP, "kind": "Gang", "resource": "gangs", "versions": ["v1"], "pods": [pod_set]}
    document = {"apiVersion": "tallygate.dev/v1alpha1", "kind": "WorkloadKind", "metadata": {"name": "a"}, "spec": spec}
    parsed = parse([("kind.json", json.dumps(document).encode())])
    assert parsed.findings == ()
    (kind,) = parsed.policies.workload_kinds
    return kind


def define_count(count: Count, steps: list[PathStep]) -> Any:
    """Return the written form of a count: the path alone if nothing differs from what that means."""
    path = write_path([*steps[: count.depth], count.name])
    if count.default is None and not count.minus:
        return path
    default = {} if count.default is None else {"default": count.default}
    return {"field": path, "minus": count.minus, **default}


@st.composite
def draw_case(draw: st.DrawFn) -> Case:
    """Draw a path, counts on the way, and an object with templates and numbers at some of the places of the path."""
    middle = draw(st.lists(st.one_of(st.sampled_from(FIELDS), st.sampled_from(Wildcard)), max_size=4))
    steps: list[PathStep] = ["spec", *middle, "template"]
    depths = [index for index, step in enumerate(steps) if index and not isinstance(step, Wildcard)]
    counts = [
        Count(draw(st.sampled_from(depths)), f"n{index}", draw(st.none() | st.integers(0, 3)), draw(st.integers(0, 2)))
        for index in range(draw(st.integers(0, 3)))
    ]
    pods: list[tuple[str, int]] = []

    def build(index: int, written: dict[str, int]) -> Any:
        """Return the value at a step, and add the pods below it; `written` are the numbers on the way to it."""
        if index == len(steps):
            mark = f"pod-{len(pods)}"
            numbers = [
                max(written.get(each.name, 1 if each.default is None else each.default) - each.minus, 0)
                for each in counts
            ]
            pods.append((mark, prod(numbers)))
            return {"metadata": {"labels": {"mark": mark}}}
        step = steps[index]
        if step is Wildcard.ITEMS:
            return [build(index + 1, written) for _ in range(draw(st.integers(0, 3)))]
        if step is Wildcard.VALUES:
            return {key: build(index + 1, written) for key in draw(st.sets(st.sampled_from(FIELDS)))}
        here = {each.name: draw(NUMBERS) for each in counts if each.depth == index and draw(st.booleans())}
        below = {str(step): build(index + 1, written | here)} if draw(st.integers(0, 4)) else {str(step): None}
        return {"other": [1], **here, **below}

    body = build(0, {})
    pod_set = {"template": write_path(steps), "count": [define_count(each, steps) for each in counts]}
    return Case(define_kind(pod_set), body, pods)


@given(draw_case())
def test_the_templates_and_numbers_of_an_object_are_found(case: Case) -> None:
    workload = read_custom_workload(case.kind, json.dumps(case.body).encode())
    found = [
        (view.pod.metadata.labels["mark"], view.replicas.count)
        for view in workload.pod_sets
        if view.pod.metadata and view.pod.metadata.labels and view.replicas
    ]
    assert found == case.pods
    assert len({view.path for view in workload.pod_sets}) == len(case.pods)


GANG = define_kind(
    {
        "template": "spec.groups[*].template",
        "count": ["spec.groups[*].replicas", {"least": [{"field": "spec.size", "default": 4}, "spec.limit"]}],
        "most": [{"field": "spec.most", "default": 0}],
        "autoscaled": "spec.autoscaled",
    }
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "groups", "template", "replicas", "size", "metadata"]), inner)
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_object_crashes_the_reader(content: Any) -> None:
    """Expect pods, or the error that an object of this kind gets."""
    for body in (content, {"spec": content}, {"spec": {"groups": [content]}}):
        try:
            workload = read_custom_workload(GANG, json.dumps(body).encode())
        except ValueError:
            continue
        assert isinstance(workload, CustomWorkload)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"groups": [{"template": {}}]}, [(4, 0)], id="absent numbers count as their defaults"),
        pytest.param({"groups": [{"template": {}}], "limit": 3}, [(3, 0)], id="the smaller number counts"),
        pytest.param({"groups": [{"template": {}}], "limit": 9}, [(4, 0)], id="the smaller one may be the default"),
        pytest.param({"groups": [{"template": {}, "replicas": -5}]}, [(0, 0)], id="a negative number counts as none"),
        pytest.param({"groups": [{"template": {}, "replicas": "3"}]}, [(12, 0)], id="a text with a number counts"),
        pytest.param({"groups": [{"template": {}, "replicas": [3]}]}, [(4, 0)], id="a list is not a number"),
        pytest.param({"groups": [{"template": {}, "replicas": True}]}, [(4, 0)], id="true is not a number"),
        pytest.param(
            {"groups": [{"template": {}, "replicas": 10**30}]},
            [(4 * (2**31 - 1), 0)],
            id="a number beyond int32 is the largest int32",
        ),
        pytest.param({"groups": [{"template": {}}], "most": 9}, [(4, 0)], id="without the autoscaler most is nothing"),
        pytest.param(
            {"groups": [{"template": {}}], "most": 9, "autoscaled": True}, [(4, 9)], id="with it most is the maximum"
        ),
        pytest.param({"groups": [{}, {"template": None}, None]}, [], id="items without a template are no pods"),
        pytest.param({"groups": None}, [], id="null is an absent list"),
        pytest.param(None, [], id="no spec is no pods"),
    ],
)
def test_numbers_have_defaults_and_bounds(spec: Any, expected: list[tuple[int, int]]) -> None:
    workload = read_custom_workload(GANG, json.dumps({"spec": spec}).encode())
    counts = [view.replicas for view in workload.pod_sets if view.replicas]
    assert [(each.count, each.most) for each in counts] == expected


HOSTILE = {
    "a text in the place of the list": (
        {"spec": {"groups": "x"}},
        "Expected `array`, got `str` - at `$.spec.groups`",
    ),
    "a list in the place of a mapping": (
        {"spec": []},
        "Expected `object`, got `array` - at `$.spec`",
    ),
    "a number in the place of an item": (
        {"spec": {"groups": [{}, 5]}},
        "Expected `object`, got `int` - at `$.spec.groups[1]`",
    ),
    "a template with containers of another type": (
        {"spec": {"groups": [{"template": {"spec": {"containers": [{"name": 3}]}}}]}},
        "Expected `str | null`, got `int` - at `$.spec.groups[0].template.spec.containers[0].name`",
    ),
    "ten thousand templates": (
        {"spec": {"groups": [{"template": {"spec": {}}}] * 10_000}},
        f"spec.groups has 10,000 items; at most {MAX_ITEMS:,} are read of an object",
    ),
    "a million empty items": (
        {"spec": {"groups": [{}] * 1_000_000}},
        f"spec.groups has 1,000,000 items; at most {MAX_ITEMS:,} are read of an object",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_error_names_the_field(case: str) -> None:
    body, message = HOSTILE[case]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        read_custom_workload(GANG, json.dumps(body).encode())


def test_as_many_items_as_the_bound_are_read() -> None:
    body = json.dumps({"spec": {"groups": [{"template": {}}] * MAX_ITEMS}}).encode()
    assert len(read_custom_workload(GANG, body).pod_sets) == MAX_ITEMS


def test_the_bound_is_for_all_lists_of_an_object_together() -> None:
    kind = define_kind({"template": "spec.a[*].b[*].template"})
    inner: dict[str, Any] = {"b": [{}] * (MAX_ITEMS // 2)}
    with pytest.raises(TooManyItemsError, match=r"^spec\.a\[1\]\.b has 1,000 items"):
        read_custom_workload(kind, json.dumps({"spec": {"a": [inner, inner]}}).encode())


@pytest.mark.parametrize("content", [b"[", b'{"a":'])
def test_a_deep_object_is_no_object_of_the_kind(content: bytes) -> None:
    depth = 100_000
    body = b'{"spec":{"groups":' + content * depth + b"1" + (b"]" if content == b"[" else b"}") * depth + b"}}"
    text = """
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {name: gangs}
spec: {group: batch.example.com, kind: Gang, resource: gangs, versions: [v1], pods: [{template: spec.template}]}
"""
    target = list_review_targets(parse_policies(text))[GROUP, "Gang"]
    with pytest.raises(ReviewError, match=r"^the object is not a Gang: "):
        decode_object(target, AdmissionRequest("Gang", CREATE, body, group=GROUP), body)
