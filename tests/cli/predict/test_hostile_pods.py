"""Hostile pods, nodes and snapshots: every file gives a verdict or one sentence, and never a crash."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallygate.cli.app import root
from tests.cli.usage.clusters import Object, write_snapshot
from tests.effort import examples

_SCALARS: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", "a/b/c", "1", "1500m", "10E", "-1", "1e999999999", 0, 1, -5, 2**70, 1.5, True]
)
_VALUES = st.recursive(
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
        "matchLabels": st.just({"app": "x"}) | _VALUES,
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
        "nodeSelector": _VALUES,
        "tolerations": st.lists(st.fixed_dictionaries({}, optional={"key": _SCALARS, "operator": _SCALARS})) | _VALUES,
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
                "nodeAffinity": _VALUES
                | st.fixed_dictionaries({_MUST: st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_SELECTOR)})}),
            },
        ),
        "schedulingGates": st.just([{"name": "g"}]),
        "priorityClassName": st.sampled_from(["x", "system-node-critical"]),
        "priority": st.sampled_from([0, 2**40, -1]),
        "volumes": st.lists(st.fixed_dictionaries({"name": st.just("v"), "persistentVolumeClaim": _VALUES})),
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
    optional={"spec": _VALUES},
)
_SETTINGS = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _run(*arguments: str) -> Result:
    result = CliRunner().invoke(root, arguments, prog_name="tallygate")
    assert result.exit_code in (0, 1, 2), result.output
    assert "fault of tallygate" not in result.stderr
    return result


@given(items=st.lists(_NODE | _POD, max_size=5), candidate=_POD)
@_SETTINGS
def test_no_pod_and_no_snapshot_crashes_the_commands(tmp_path: Path, items: list[Object], candidate: Object) -> None:
    """Run predict as a table and as data, and headroom."""
    snapshot, manifest = str(write_snapshot(tmp_path, items)), tmp_path / "pod.json"
    manifest.write_text(json.dumps(candidate))
    source = ("-f", str(manifest), "--snapshot", snapshot)
    table = _run("predict", *source, "-v", "--replicas", "2")
    data = _run("predict", *source, "-o", "json", "--replicas", "2")
    assert table.exit_code == data.exit_code
    _run("headroom", *source)


@given(
    write_snapshot=st.text(max_size=30) | st.builds("{} x {{cpu: {}}}".format, st.integers(-1, 3), st.text(max_size=5))
)
@_SETTINGS
def test_no_text_for_nodes_crashes_the_command(tmp_path: Path, write_snapshot: str) -> None:
    """Pass the text as an added node and as a scoring strategy."""
    (tmp_path / "snapshot.json").write_text('{"kind": "List", "apiVersion": "v1", "items": []}')
    (tmp_path / "pod.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}')
    source = ("predict", "-f", str(tmp_path / "pod.json"), "--snapshot", str(tmp_path / "snapshot.json"))
    _run(*source, f"--add={write_snapshot}")
    _run(*source, f"--scoring={write_snapshot}")
