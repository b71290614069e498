"""Further copies of a drawn pod in a drawn cluster, by the command over a snapshot and by the server of asks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from click.testing import CliRunner
from hypothesis import strategies as st

from tallygate.answers.answer_json import VisibleNames, convert_headroom
from tallygate.answers.answer_records import AskHeadroom
from tallygate.answers.asked_headroom import PodCapacityError, answer_headroom
from tallygate.answers.prediction_lines import format_headroom, format_headroom_details
from tallygate.cli.app import root
from tallygate.manifests.kind_manifests import ManifestsError
from tests.agreement.answers import HOME, list_snapshot_items, parse_policies, write_stream
from tests.agreement.asked import name_policies
from tests.agreement.drawn import CASES, GPU, LICENCE, NAMESPACES, DrawnCase, Object
from tests.agreement.namespace_usages import MARK, NODE_MARK, mark_names
from tests.answers.asked_clusters import NOW, build_state, create_context, read_manifests
from tests.answers.test_asked_manifests import describe
from tests.cli.usage.clusters import write_snapshot

_ZONE = "topology.kubernetes.io/zone"
_OTHERS = "|".join((MARK, NODE_MARK, *(name for name in NAMESPACES if name != HOME)))
_SELECTOR = {"labelSelector": {"matchLabels": {"app": "drawn"}}}


def _create_node(number: int, zone: str, gpus: int, taints: list[Object]) -> Object:
    name = f"n{number}-{NODE_MARK}"
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "6", GPU: str(gpus), LICENCE: "9"}
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "5",
            "labels": {_ZONE: zone, "kubernetes.io/hostname": name},
        },
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": {**amounts, GPU: str(gpus + number % 2)}},
    }


_NODES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.integers(0, 16),
        st.sampled_from([[], [], [{"key": "own", "value": "x", "effect": "NoSchedule"}]]),
    ),
    min_size=1,
    max_size=4,
).map(lambda drawn: tuple(_create_node(number, *each) for number, each in enumerate(drawn, 1)))
_CONSTRAINTS: st.SearchStrategy[Object] = st.sampled_from(
    [
        {},
        {},
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeSelector": {_ZONE: "a"}},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", **_SELECTOR}
            ]
        },
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", **_SELECTOR}
                    ]
                }
            }
        },
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": _ZONE} | {"labelSelector": {}, "namespaceSelector": {}}
                    ]
                }
            }
        },
        {"priorityClassName": "none"},
    ]
)
_SHAPES = st.sampled_from(
    [
        [],
        [{"labels": {_ZONE: "a"}, "allocatable": {"cpu": 4, GPU: 2, LICENCE: 1}, "most": 3}],
        [{"allocatable": {"cpu": 100, "memory": "64Gi"}}, {"allocatable": {GPU: 8}}],
    ]
)
_IMPLIED = st.sampled_from([[], [], [{"resource": LICENCE, "match": {"namespaces": {"include": ["team-*"]}}}]])


def _constrain(created: Object, constraints: Object) -> Object:
    """Return an object whose pods have the constraints and the label that these select."""
    made: Object = json.loads(json.dumps(created))
    for owner in _find_pods(made):
        owner.setdefault("metadata", {}).setdefault("labels", {})["app"] = "drawn"
        owner["spec"] |= constraints
    return made


def _find_pods(value: Any) -> Iterator[Object]:
    """Yield each pod or template of pods in plain data."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", ()):
            yield value
        for each in value.values():
            yield from _find_pods(each)


def _create_deployment(requests: Object) -> Object:
    container = {"name": "c", "image": "x:1", "resources": {"requests": requests, "limits": requests}}
    metadata, spec = {"name": "new", "namespace": HOME}, {"containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 3, "selector": _SELECTOR["labelSelector"], "template": {"metadata": {}, "spec": spec}},
    }


_SMALL = st.sampled_from([{}, {"cpu": "1"}, {GPU: "1"}, {GPU: "2", "memory": "1Gi"}, {LICENCE: "2"}]).map(
    _create_deployment
)
HEADROOM_CASES = st.builds(
    lambda case, small, nodes, constraints, shapes, implied: DrawnCase(
        (*case.policies, *name_policies("NodeShape", shapes), *name_policies("ImpliedRequest", implied)),
        (*nodes, *(each for each in case.stored if each["kind"] != "Node")),
        _constrain(small or case.created, constraints),
    ),
    CASES,
    st.none() | _SMALL | _SMALL,
    _NODES,
    _CONSTRAINTS,
    _SHAPES,
    _IMPLIED,
)
"""Cases with nodes, and new objects with constraints on them."""


_VERSION: Final = {"kind": "ClusterVersion", "gitVersion": "v1.37.2"}


def compare_headroom(case: DrawnCase, folder: Path) -> int:
    """Compare the answers; one without rights has the numbers, and no name of others. Return the number of copies."""
    policies, stored = parse_policies(case), [mark_names(each, HOME) for each in case.stored]
    (folder / "policies.yaml").write_text(write_stream(case.policies))
    text = write_stream([case.created])
    (folder / "new.yaml").write_text(text)
    items = [_VERSION, *list_snapshot_items(stored)]
    snapshot = write_snapshot(folder, items)
    words = ["headroom", str(folder / "new.yaml"), "-n", HOME, "--policies", str(folder / "policies.yaml")]
    result = CliRunner().invoke(root, [*words, "--snapshot", str(snapshot), "-o", "json"])
    state = build_state(items)
    before, context = describe(state), create_context(state, policies, HOME)
    try:
        answer, error = answer_headroom(read_manifests(text), context), ""
    except (ManifestsError, PodCapacityError) as found:
        answer, error = None, str(found).splitlines()[0].partition(": ")[2]
    assert describe(state) == before
    if answer is None:
        assert (result.exit_code, error in result.stderr) == (2, True), (result.stderr, error)
        return 0
    shown: Object = json.loads(json.dumps(convert_headroom(answer, state, NOW, VisibleNames())))
    if not shown["items"]:
        assert (result.exit_code, "neither a pod nor a pod template" in result.stderr) == (2, True)
        return 0
    assert result.exit_code == 0, result.output
    assert shown["items"] == json.loads(result.stdout)["items"]
    assert all(remark in result.stderr for remark in shown["remarks"]), (shown["remarks"], result.stderr)
    hidden: Object = json.loads(
        json.dumps(convert_headroom(answer, state, NOW, VisibleNames(frozenset({HOME}), nodes=False)))
    )
    for full, reduced in zip(shown["items"], hidden["items"], strict=True):
        assert {key: full[key] for key in ("copies", "object")} == {key: reduced[key] for key in ("copies", "object")}
        copies = sorted((each["copies"] for each in full["nodes"]), reverse=True)
        assert reduced["nodes"] == [{"node": None, "copies": each} for each in copies]
    records = msgspec.convert(hidden, AskHeadroom).items
    lines = [line for each in records for line in (format_headroom(each), *format_headroom_details(each))]
    for sent in (json.dumps(hidden), "\n".join(lines)):
        assert not re.search(_OTHERS, sent), sent
    return sum(each["copies"] for each in shown["items"])
