"""Workloads of which no pod is made cost nothing: suspended, with 0 replicas, or with a template that nothing starts.

Each known kind passes the gate, `check`, `test` and `audit` under caps, quotas and rules, at its creation and update.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.cli.app import root
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.workload_kinds import FieldPath
from tests.cli.test_known_kinds import KINDS, create_object
from tests.cli.usage.clusters import GPU, namespace, write_snapshot
from tests.gate.gate_fixture import GateFixture, response
from tests.gate.test_quotas import create_fixture as create_quota_fixture
from tests.gate.test_quotas import quota

Object = dict[str, Any]

CAPS = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec: {hard: {nvidia.com/gpu: 0, limits.memory: 1, pods: 0}, workloads: deny}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: warns}
spec:
  hard: {nvidia.com/gpu: 0, gpumem: 0}
  counts: {gpumem: {product: [nvidia.com/gpu, nvidia.com/gpumem]}}
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: whole}
spec: {hard: {nvidia.com/gpu: 0}, admit: whole}
"""
RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: few}
spec: {resources: [nvidia.com/gpu], checks: {perPod: {max: 64}}}
"""
TEMPLATE: Object = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "resources": {"limits": {GPU: 1}}}]}
}
BUILT_IN: list[Object] = [
    {"kind": "Deployment", "apiVersion": "apps/v1", "spec": {"replicas": 2, "template": TEMPLATE}},
    {"kind": "ReplicaSet", "apiVersion": "apps/v1", "spec": {"replicas": 2, "template": TEMPLATE}},
    {"kind": "StatefulSet", "apiVersion": "apps/v1", "spec": {"replicas": 2, "template": TEMPLATE}},
    {"kind": "ReplicationController", "apiVersion": "v1", "spec": {"replicas": 2, "template": TEMPLATE}},
    {"kind": "Job", "apiVersion": "batch/v1", "spec": {"parallelism": 2, "template": TEMPLATE}},
    {
        "kind": "CronJob",
        "apiVersion": "batch/v1",
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
    },
]
SUSPENDED_BUILT_IN: dict[str, list[Sequence[object]]] = {
    "Job": [("spec", "suspend")],
    "CronJob": [("spec", "suspend"), ("spec", "jobTemplate", "spec", "suspend")],
}
DEFINITIONS = {(each.group, each.kind): each for each in KNOWN_KINDS}
COUNT_NAMES = {
    str(field.path.steps[-1])
    for kind in KNOWN_KINDS
    for pods in kind.pod_sets
    for factor in (*pods.counts, *pods.most, *pods.scaled)
    for field in factor
} | {"replicas", "parallelism", "completions", "maxReplicas", "minReplicas"}
UNREACHED: dict[str, Sequence[str]] = {
    "Workflow": ("spec",),
    "WorkflowTemplate": ("spec",),
    "ClusterWorkflowTemplate": ("spec",),
    "CronWorkflow": ("spec", "workflowSpec"),
}


def set_field(body: Object, steps: Sequence[object], value: object) -> None:
    """Set a field of an object; its parents are made where they are missing."""
    *parents, last = map(str, steps)
    for step in parents:
        body = body.setdefault(step, {})
    body[last] = value


def set_counts(value: Any, count: int) -> Any:
    """Return a value with every field that counts pods set to a number, as text where it was one."""
    if isinstance(value, list):
        return [set_counts(each, count) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: type(each)(count) if name in COUNT_NAMES and isinstance(each, (int, str)) else set_counts(each, count)
        for name, each in value.items()
    }


def list_suspensions(body: Object) -> Iterator[tuple[Sequence[object], object]]:
    """Yield the fields that suspend an object, and a value of each."""
    group = body["apiVersion"].rpartition("/")[0]
    definition = DEFINITIONS.get((group, body["kind"]))
    if definition is None:
        yield from ((steps, True) for steps in SUSPENDED_BUILT_IN.get(body["kind"], ()))
        return
    yield from ((path.steps, True if "annotations" not in path.steps else "true") for path in definition.suspended)
    yield from ((each.path.steps, _find_other(each.path)) for each in definition.expected)


def _find_other(path: FieldPath) -> object:
    return False if path.steps[-1] == "active" else "Stop"


def list_variants(body: Object) -> Iterator[Object]:
    """Yield the variants of an object that make no pods, or fewer; the first ones are suspended."""
    for steps, value in list_suspensions(body):
        suspended = copy.deepcopy(body)
        set_field(suspended, steps, value)
        yield suspended
    yield {**body, "spec": set_counts(body["spec"], 0)}
    if path := UNREACHED.get(body["kind"]):
        for entry in ({"name": "m", "steps": []}, {"name": "m", "suspend": {}}, {"name": "m", "dag": {"tasks": []}}):
            unreached = copy.deepcopy(body)
            workflow = unreached[path[0]] if len(path) == 1 else unreached[path[0]][path[1]]
            workflow["entrypoint"] = "m"
            workflow["templates"].append(entry)
            yield unreached


OBJECTS = [create_object(each) for each in KINDS] + [
    {**each, "metadata": {"name": "sample", "namespace": "team-a"}} for each in BUILT_IN
]


def parametrize_kinds() -> pytest.MarkDecorator:
    """Return the mark that runs a test for each kind."""
    return pytest.mark.parametrize("body", OBJECTS, ids=lambda each: f"{each['kind']} of {each['apiVersion']}")


def makes_pods(body: Object) -> bool:
    """Return whether a controller, or an autoscaler, makes pods of an object."""
    group = body["apiVersion"].rpartition("/")[0]
    target = REVIEW_TARGETS[group, body["kind"]]
    views = target.list_pods(target.decode(json.dumps(body).encode()))
    return any(view.replicas.count or view.replicas.most for view in views if view.replicas)


@parametrize_kinds()
def test_what_is_suspended_makes_no_pods(body: Object) -> None:
    for steps, value in list_suspensions(body):
        suspended = copy.deepcopy(body)
        set_field(suspended, steps, value)
        assert not makes_pods(suspended), steps


def admit(fixture: GateFixture, body: Object, old: Object | None) -> list[str]:
    """Return the warnings about an object, with the message of its denial."""
    group = body["apiVersion"].rpartition("/")[0]
    request: Object = {"kind": {"group": group, "kind": body["kind"]}, "name": "sample"}
    with_uid = {**body, "metadata": {**body["metadata"], "uid": "u"}}
    if old is not None:
        request["oldObject"] = {**old, "metadata": {**old["metadata"], "uid": "u"}}
    result = response(fixture.admit(with_uid, **request))
    return [*result.get("warnings", []), *([] if result["allowed"] else [result["status"]["message"]])]


@pytest.mark.parametrize("limits", ["caps", "quotas", "rules"])
@parametrize_kinds()
def test_the_gate_admits_what_makes_no_pods(body: Object, limits: str) -> None:
    for variant in list_variants(body):
        for old in (None, body, variant):
            if limits == "quotas":
                hard = {f"requests.{GPU}": "0", "pods": "0"}
                fixture = create_quota_fixture(quota(hard, dict.fromkeys(hard, "0")))
            else:
                fixture = GateFixture(CAPS if limits == "caps" else RULE)
            messages = admit(fixture, variant, old)
            if not makes_pods(variant):
                assert messages == []
            admit(fixture, body, variant)


def run(folder: Path, *arguments: str, **files: str) -> str:
    """Run a command in a folder with these files, whose names have `_` in place of a dot, and return its output."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    result = CliRunner().invoke(root, [str(folder / each[1:]) if each[:1] == "@" else each for each in arguments])
    assert result.exit_code in {0, 1}, result.output
    return result.stdout


def list_named_variants(body: Object) -> list[Object]:
    """Return the variants that make no pods, each under another name."""
    variants = [each for each in list_variants(body) if not makes_pods(each)]
    return [
        {**each, "metadata": {**each["metadata"], "name": f"sample-{index}"}} for index, each in enumerate(variants)
    ]


@pytest.mark.parametrize(
    "body",
    [each for each in OBJECTS if list_named_variants(each)],
    ids=lambda each: f"{each['kind']} of {each['apiVersion']}",
)
def test_commands_report_nothing_about_what_makes_no_pods(tmp_path: Path, body: Object) -> None:
    variants = list_named_variants(body)
    files = {"caps_yaml": CAPS + "---" + RULE, "objects_yaml": yaml.safe_dump_all(variants)}
    checked = json.loads(run(tmp_path, "check", "--policies", "@caps.yaml", "-o", "json", "@objects.yaml", **files))
    assert [each for each in checked["findings"] if each["by"].startswith("cap ")] == []
    stored = [
        {**each, "metadata": {**each["metadata"], "uid": f"u{index}", "resourceVersion": "7"}}
        for index, each in enumerate(variants)
    ]
    snapshot = write_snapshot(tmp_path, [namespace("team-a"), *stored])
    audited = run(tmp_path, "audit", "--policies", "@caps.yaml", "-o", "json", "--snapshot", str(snapshot))
    assert [each for each in json.loads(audited)["findings"] if each["object"]["kind"] == body["kind"]] == []
    no_pods = {"verdict": "allowed", "warnings": []}
    steps = [{"create": {"manifest": each}, "expect": no_pods} for each in variants]
    scenario = {"name": "s", "policies": [*yaml.safe_load_all(CAPS)], "namespaces": {"team-a": {}}, "steps": steps}
    assert " failed" not in run(tmp_path, "test", "@scenario.yaml", scenario_yaml=json.dumps(scenario))


NAMES = st.sampled_from(["a", "b", "c", "d"])
COUNTS = st.sampled_from([None, 0, 1, 3])
STEPS = st.fixed_dictionaries(
    {"name": NAMES, "template": NAMES},
    optional={
        "withSequence": st.fixed_dictionaries({"count": COUNTS}),
        "withItems": st.lists(st.integers(), max_size=2),
    },
)
TEMPLATES = st.one_of(
    st.fixed_dictionaries({"name": NAMES, "container": st.just(TEMPLATE["spec"]["containers"][0])}),
    st.fixed_dictionaries({"name": NAMES, "steps": st.lists(st.lists(STEPS, max_size=2), max_size=2)}),
    st.fixed_dictionaries({"name": NAMES, "suspend": st.just({})}),
)
WORKFLOWS = st.fixed_dictionaries(
    {"templates": st.lists(TEMPLATES, max_size=4)},
    optional={"entrypoint": NAMES, "parallelism": COUNTS, "suspend": st.booleans(), "onExit": NAMES},
)


@given(spec=WORKFLOWS, old=st.none() | WORKFLOWS)
def test_every_workflow_has_an_answer(spec: Object, old: Object | None) -> None:
    metadata = {"name": "sample", "namespace": "team-a"}
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": metadata, "spec": spec}
    messages = admit(GateFixture(CAPS), body, {**body, "spec": old} if old is not None else None)
    if not makes_pods(body):
        assert messages == []
