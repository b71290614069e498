"""Hostile pods, nodes and snapshots: whatever is in a file, the answer is a verdict or one sentence, never a crash."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.usage.clusters import Object, written
from tests.effort import examples
from webhook.cli.app import root

_SCALARS: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", "a/b/c", "1", "1500m", "10E", "-1", "1e999999999", 0, 1, -5, 2**70, 1.5, True]
)
_ANYTHING = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["key", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)
_RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "Bad_Name!", ""]), _SCALARS)
_SELECTOR = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.just({"app": "x"}) | _ANYTHING,
        "matchExpressions": st.lists(
            st.fixed_dictionaries(
                {"key": st.sampled_from(["app", "-bad-", ""]), "operator": st.sampled_from(["In", "Gt", "x"])},
                optional={"values": st.lists(st.sampled_from(["1", "-", "x y"]))},
            ),
            max_size=2,
        ),
    },
)
_TERM = st.fixed_dictionaries({"topologyKey": st.sampled_from(["zone", ""]), "labelSelector": _SELECTOR})
_MUST = "requiredDuringSchedulingIgnoredDuringExecution"
_SPEC = st.fixed_dictionaries(
    {"containers": st.lists(st.fixed_dictionaries({"resources": st.fixed_dictionaries({"requests": _RESOURCES})}))},
    optional={
        "nodeName": st.sampled_from(["n1", "", "nowhere"]),
        "nodeSelector": _ANYTHING,
        "tolerations": st.lists(st.fixed_dictionaries({}, optional={"key": _SCALARS, "operator": _SCALARS}))
        | _ANYTHING,
        "topologySpreadConstraints": st.lists(
            st.fixed_dictionaries(
                {
                    "maxSkew": st.integers(-1, 2),
                    "topologyKey": st.sampled_from(["zone", "host"]),
                    "whenUnsatisfiable": st.just("DoNotSchedule"),
                    "labelSelector": _SELECTOR,
                }
            ),
            max_size=2,
        ),
        "affinity": st.fixed_dictionaries(
            {},
            optional={
                "podAffinity": st.fixed_dictionaries({_MUST: st.lists(_TERM, max_size=1)}),
                "podAntiAffinity": st.fixed_dictionaries({_MUST: st.lists(_TERM, max_size=1)}),
                "nodeAffinity": _ANYTHING
                | st.fixed_dictionaries({_MUST: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_SELECTOR)})}),
            },
        ),
        "schedulingGates": st.just([{"name": "g"}]),
        "priorityClassName": st.sampled_from(["x", "system-node-critical"]),
        "priority": st.sampled_from([0, 2**40, -1]),
        "volumes": st.lists(st.fixed_dictionaries({"name": st.just("v"), "persistentVolumeClaim": _ANYTHING})),
    },
)
_POD = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Pod"),
        "metadata": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["p", "q"]),
                "namespace": st.just("default"),
                "uid": st.sampled_from(["u1", "u2"]),
            },
            optional={"labels": st.just({"app": "x"})},
        ),
        "spec": _SPEC,
    }
)
_NODE = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Node"),
        "metadata": st.fixed_dictionaries({"name": st.sampled_from(["n1", "n2"]), "labels": st.just({"zone": "a"})}),
        "status": st.fixed_dictionaries({"allocatable": _RESOURCES}),
    },
    optional={"spec": _ANYTHING},
)
_SETTINGS = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _runs(*arguments: str) -> Result:
    result = CliRunner().invoke(root, arguments, prog_name="tallygate")
    assert result.exit_code in (0, 1, 2), result.output
    assert "fault of tallygate" not in result.stderr
    return result


@given(items=st.lists(_NODE | _POD, max_size=5), asked=_POD)
@_SETTINGS
def test_no_pod_and_no_snapshot_brings_it_down(tmp_path: Path, items: list[Object], asked: Object) -> None:
    """Nor node by node, nor as data, nor where room is counted."""
    snapshot, manifest = str(written(tmp_path, items)), tmp_path / "pod.json"
    manifest.write_text(json.dumps(asked))
    source = ("-f", str(manifest), "--snapshot", snapshot)
    table = _runs("predict", *source, "-v", "-n", "2")
    data = _runs("predict", *source, "-o", "json", "-n", "2")
    assert table.exit_code == data.exit_code
    _runs("headroom", *source)


@given(written=st.text(max_size=30) | st.builds("{} x {{cpu: {}}}".format, st.integers(-1, 3), st.text(max_size=5)))
@_SETTINGS
def test_no_text_for_nodes_brings_it_down(tmp_path: Path, written: str) -> None:
    """Nor for how they are liked."""
    (tmp_path / "snapshot.json").write_text('{"kind": "List", "apiVersion": "v1", "items": []}')
    (tmp_path / "pod.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}')
    source = ("predict", "-f", str(tmp_path / "pod.json"), "--snapshot", str(tmp_path / "snapshot.json"))
    _runs(*source, f"--add={written}")
    _runs(*source, f"--scoring={written}")
