"""Hostile scenarios: every file gives a report or a sentence, and never a crash."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.cli.app import root
from tests.cli.test_hostile_manifests import BODIES
from tests.effort import examples

TEXTS = {
    "no text": b"\xff\xfe\x00",
    "a control character": b"name: a\x00b\n",
    "deep": b"[" * 5000,
    "deep mappings": b"name: " + b"{a: " * 200,
    "a tag": b"name: !!python/object/apply:os.system [true]\nsteps: []\n",
    "aliases that grow": b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + b"".join(b"%c: &%c [%b]\n" % (98 + i, 98 + i, b",".join([b"*%c" % (97 + i)] * 10)) for i in range(9)),
    "an alias in itself": b"name: &a [*a]\n",
    "a merge key": b"<<: {name: a}\nsteps: [{wait: 1s}]\n",
    "no documents": b"---\n---\n",
    "too many bytes": b"#" * (2 << 20),
    "too many lines": b"\n" * 100_000,
    "too many steps": b"name: a\nsteps: [" + b"{wait: 1s}," * 501 + b"]\n",
    "a number of many digits": b"name: a\nsteps: [{scale: {deployment: a, replicas: " + b"9" * 10_000 + b"}}]\n",
    "an exponent": b"name: a\nsteps: [{create: {pod: a, resources: {nvidia.com/gpu: 1e999999999}}}]\n",
    "a path of NUL": b'name: a\npolicies: ["a\\0b"]\nsteps: [{create: {file: "a\\0b"}}]\n',
    "no end": b'name: "a',
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_gives_a_message(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(TEXTS[name])
    result = CliRunner().invoke(root, ["test", str(tmp_path / "a.yaml")])
    assert result.exit_code == (1 if name == "an exponent" else 2), result.output
    assert result.output


METADATA: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"])},
    optional={
        "ownerReferences": st.sampled_from([None, [], [{}], [{"controller": True, "kind": [], "uid": {}}]]),
        "labels": st.sampled_from([None, {}, {"a": "b"}, {"a": 1}, []]),
        "namespace": st.sampled_from(["default", "missing", "kube-system"]),
    },
)
OBJECTS = st.tuples(
    st.sampled_from([*REVIEW_TARGETS, ("", "Namespace"), ("x.org", "Pod"), ("", "Service")]), BODIES, METADATA
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(objects=st.lists(OBJECTS, min_size=1, max_size=2), by_file=st.booleans())
def test_every_object_gives_a_report(tmp_path: Path, objects: list[Any], *, by_file: bool) -> None:
    """Create, label, scale, resize and delete each object."""
    steps: list[Any] = []
    for number, ((group, kind), body, metadata) in enumerate(objects):
        manifest = {**body, "apiVersion": f"{group}/v1".removeprefix("/"), "kind": kind, "metadata": metadata}
        if by_file:
            (tmp_path / f"{number}.json").write_text(json.dumps(manifest))
        steps.append({"create": {"file": f"{number}.json"} if by_file else {"manifest": manifest}})
        steps += [{"wait": "2s"}, {"update": steps[-1]["create"]}, {"scale": {"deployment": "a", "replicas": 2}}]
        steps += [{"label": {"pod": "a", "labels": {"x": "y"}}}, {"resize": {"pod": "a", "resources": {"cpu": 1}}}]
        steps += [{"finish": {"pod": "a"}}, {"delete": {"daemonset": "a"}}]
    whole = {"name": "x", "nodes": {"n": {}}, "steps": steps}
    for _ in range(len(steps) + 1):  # an unexpected result ends a run, so that the next run expects it
        (tmp_path / "a.yaml").write_text(json.dumps(whole))
        result = CliRunner().invoke(root, ["test", "-o", "json", str(tmp_path / "a.yaml")])
        assert result.exit_code in {0, 1, 2}, result.output
        if result.exit_code != 1:
            break
        last = json.loads(result.stdout)["scenarios"][0]["steps"][-1]
        steps[last["step"] - 1]["expect"] = {"verdict": last["verdict"]}
