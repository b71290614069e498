"""The order of the steps: a node is never overcommitted, and every pod that runs fits again by its next template.

The patches of the steps are applied as an API server applies them; node_fit decides which pods fit.
"""

import json
from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.node_fit import find_shortfalls
from tallygate.cli.migrate.old_name_uses import MigrationStep, list_uses
from tallygate.cli.migrate.renames import Renames
from tallygate.cli.migrate.step_edits import Operation, create_step_patch, list_edits
from tallygate.objects.core import Node, Pod

OLD = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
NEW = "example.com/bananas"
_RENAMES = Renames("example.com")
Content = dict[str, Any]


def _find_parent(content: Any, pointer: str) -> tuple[Any, Any]:
    *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for step in steps:
        content = content[int(step)] if isinstance(content, list) else content[step]
    return content, int(last) if isinstance(content, list) else last


def apply(content: Content, operations: tuple[Operation, ...]) -> Content:
    """Return an object after a JSON patch (RFC 6902), of which every test must pass."""
    changed = deepcopy(content)
    for each in operations:
        parent, last = _find_parent(changed, each["path"])
        match each["op"]:
            case "test":
                assert parent[last] == each["value"]
            case "add" if isinstance(parent, list):
                parent.insert(last, each["value"])
            case "add" | "replace":
                parent[last] = each["value"]
            case "remove":
                del parent[last]
    return changed


def _migrate(content: Content, step: MigrationStep) -> Content:
    """Apply a step there, back, and there again."""
    patch = create_step_patch(content, list_edits(content, step, _RENAMES.replace))
    after = apply(content, patch.forward)
    assert after == patch.content
    assert apply(after, patch.back) == content
    return after


def _create_node(amount: int) -> Content:
    resources = {OLD: str(amount), "pods": "100"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"capacity": resources, "allocatable": dict(resources)},
    }


def _create_pod(amount: int) -> Content:
    container = {"name": "main", "resources": {"requests": {OLD: str(amount)}, "limits": {OLD: str(amount)}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}


def _fits(pod: Content, node: Content, others: list[Content]) -> bool:
    decode = msgspec.json.decode
    pods = [decode(json.dumps(each), type=Pod) for each in others]
    return not find_shortfalls(decode(json.dumps(pod), type=Pod), decode(json.dumps(node), type=Node), pods)


def _count_units(pods: list[Content]) -> int:
    """Return the units that pods use in fact, by whichever name they request them."""
    requests = [each["spec"]["containers"][0]["resources"]["requests"] for each in pods]
    return sum(int(each.get(OLD) or each[NEW]) for each in requests)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(0, 3), st.randoms())
def test_no_step_overcommits_a_node_or_takes_the_place_of_a_pod(amounts: list[int], free: int, random: Any) -> None:
    node, running = _create_node(sum(amounts) + free), [_create_pod(each) for each in amounts]
    templates = [_create_pod(each) for each in amounts]

    def check_next_pod(template: Content) -> None:
        """Check that one more pod fits exactly if the units are free in fact."""
        assert _fits(template, node, running) == (_count_units([*running, template]) <= sum(amounts) + free)

    for step in MigrationStep:
        before = [*templates]
        node, templates = _migrate(node, step), [_migrate(each, step) for each in templates]
        order = [*range(len(amounts))]
        random.shuffle(order)
        for index in order:
            check_next_pod(before[index])
            check_next_pod(templates[index])
            del running[index]
            assert _fits(templates[index], node, running)
            running.insert(index, templates[index])
    assert not any(list_uses(each) for each in (node, *running))
    assert node["status"]["allocatable"] == {NEW: str(sum(amounts) + free), "pods": "100"}
    assert [_count_units([each]) for each in running] == amounts


def test_without_the_step_of_both_requests_a_node_would_be_overcommitted() -> None:
    node, old = _migrate(_create_node(4), MigrationStep.ADVERTISE), _create_pod(4)
    new = _migrate(_migrate(old, MigrationStep.REQUEST_BOTH), MigrationStep.REQUEST_NEW)
    assert _fits(new, node, [old])
    assert _count_units([old, new]) == 8


def test_a_sum_of_a_cap_is_renamed_when_every_pod_has_both_names() -> None:
    """Check the keys after each step: with both names in the sum, a pod would count twice."""
    spec = {"hard": {OLD: 8, "fruit": 3}, "counts": {"fruit": {OLD: 2}}}
    after: Content = {"apiVersion": "tallygate.dev/v1alpha1", "kind": "NamespaceCap", "spec": spec}
    seen = []
    for step in MigrationStep:
        after = create_step_patch(after, list_edits(after, step, _RENAMES.replace)).content
        seen.append(({*after["spec"]["hard"]} - {"fruit"}, *after["spec"]["counts"]["fruit"]))
    assert seen == [({OLD, NEW}, OLD), ({OLD, NEW}, OLD), ({OLD, NEW}, OLD), ({OLD, NEW}, NEW), ({NEW}, NEW)]
    assert after["spec"] == {"hard": {NEW: 8, "fruit": 3}, "counts": {"fruit": {NEW: 2}}}
