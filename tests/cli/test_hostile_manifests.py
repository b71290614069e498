"""Hostile manifests: for any content, check prints findings or nothing, and never crashes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.cli.app import root
from tests.cli.terminal import run_in_terminal
from tests.effort import examples

QUANTITIES: st.SearchStrategy[Any] = st.sampled_from(
    ["1", 2, 1.5, "1500m", "-1", "10E", "x", "", None, True, [], {}, "1e999999999", 1e300, "٣"]
)
NAMES = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "Bad_Name!", "a/b/c", "", "requests.x/y"])
LISTS: st.SearchStrategy[Any] = st.dictionaries(NAMES, QUANTITIES, max_size=3) | st.sampled_from([None, [], "x"])
RESOURCES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {}, optional={"requests": LISTS, "limits": LISTS, "claims": st.sampled_from([None, [{}]])}
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"name": st.just("a"), "resources": RESOURCES, "restartPolicy": st.just("Always")}
    ),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "ephemeralContainers": CONTAINERS,
        "overhead": LISTS,
        "resources": RESOURCES,
        "replicas": st.integers(-1, 3),
        "hard": LISTS,
        "limits": st.lists(
            st.fixed_dictionaries({}, optional={"type": st.just("Container"), "max": LISTS}), max_size=2
        ),
    },
)
PODS = st.fixed_dictionaries(
    {}, optional={"metadata": st.sampled_from([None, {}, {"labels": {"a": "b"}}]), "spec": SPECS}
)
BODIES: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.sampled_from([None, {}, {"name": "n", "namespace": "a"}, {"name": 3}, []]),
        "spec": SPECS | st.builds(lambda pod: {"template": pod}, PODS) | st.none(),
        "template": PODS,
        "status": st.fixed_dictionaries({}, optional={"capacity": LISTS, "allocatable": LISTS}),
    },
)
CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: all}
spec:
  namespaces: {include: ["*"]}
  hard: {nvidia.com/gpu: 3, cpu: 2, limits.memory: 1Gi, pods: 2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a cap and an empty snapshot."""
    made = tmp_path_factory.mktemp("hostile")
    (made / "cap.yaml").write_text(CAP)
    (made / "snapshot.json").write_text('{"kind": "List", "items": []}')
    return made


def check(folder: Path, data: bytes) -> int:
    """Return the exit code of a check with all policies, after its output was parsed as JSON."""
    arguments = ["check", "-o", "json", "--snapshot", str(folder / "snapshot.json"), "-"]
    for policies in (folder / "cap.yaml", Path(__file__).parents[2] / "policies" / "default.yaml"):
        arguments += ["--policies", str(policies)]
    result = CliRunner().invoke(root, arguments, input=data)
    assert result.exit_code in {0, 1, 2}, result.stderr
    json.loads(result.stdout)
    return result.exit_code


@given(st.sampled_from(sorted(REVIEW_TARGETS)), BODIES)
@example(("apps", "DaemonSet"), {"spec": {"template": {"spec": {"resources": {"requests": {"cpu": "x"}}}}}})
@example(("", "Pod"), {"spec": {"resources": {"limits": {"cpu": "x"}}, "containers": [{"name": "c"}]}})
@settings(max_examples=examples(250), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_object_of_a_known_kind_is_checked(folder: Path, target: tuple[str, str], body: dict[str, Any]) -> None:
    group, kind = target
    manifest = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, **body}
    assert check(folder, json.dumps(manifest).encode()) in {0, 1}


@given(st.sampled_from(["Pod", "PodTemplate"]), PODS)
@settings(max_examples=examples(100), deadline=None)
def test_every_pod_is_explained_or_rejected(kind: str, pod: dict[str, Any]) -> None:
    """Print the sum, or the reason for an error."""
    body = pod if kind == "Pod" else {"template": pod}
    manifest = json.dumps({"apiVersion": "v1", "kind": kind, **body})
    result = CliRunner().invoke(root, ["explain", "pod", "-f", "-"], input=manifest)
    assert result.exit_code in {0, 2}, result.stderr
    assert bool(result.stdout) == (result.exit_code == 0)


@given(st.binary(max_size=80) | st.text(alphabet="{}[]:,-&*!|>'\"#% \nabyn0~.<", max_size=60).map(str.encode))
@settings(max_examples=examples(150), deadline=None)
def test_every_byte_string_is_read_or_rejected(folder: Path, data: bytes) -> None:
    """Exit with another code than that of internal errors."""
    check(folder, data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\\ud800"}}', id="half a character"),
        pytest.param(b'{"\\udfff": 1, "apiVersion": "v1", "kind": "Pod"}', id="half a character as a key"),
        pytest.param(b'apiVersion: v1\nkind: "Pod\\e[31m"\n', id="a terminal's escape"),
        pytest.param(b"apiVersion: v1\nkind: Pod\nspec: {containers: [null]}", id="nothing in a list"),
        pytest.param(b"apiVersion: v1\nkind: Pod\nspec: {nodeSelector: {1: 2}}", id="numbers in labels"),
        pytest.param(b"apiVersion: v1\nkind: Deployment\n", id="a kind of another group"),
        pytest.param(b"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 1e300}", id="too many replicas"),
        pytest.param(b"apiVersion: v1\nkind: Pod\nmetadata: {creationTimestamp: 2020-01-01}", id="a date"),
        pytest.param(b'{"apiVersion": "v1", "kind": "Pod", "spec": ' + b'{"a":' * 150 + b"1" + b"}" * 151, id="deep"),
        pytest.param(b"x: " + b"9" * 500_000, id="endless digits"),
    ],
)
def test_unusual_inputs_are_read_or_rejected(folder: Path, data: bytes) -> None:
    """Check inputs that a generator rarely creates."""
    check(folder, data)


def test_a_terminal_gets_no_control_characters(tmp_path: Path) -> None:
    """Replace the control characters of a manifest."""
    manifest = 'apiVersion: v1\nkind: Pod\nmetadata: {name: "a\\e[31m\\ab"}\nspec: {containers: []}\n' + "x: 1\nx: 2\n"
    (tmp_path / "pod.yaml").write_text(manifest)
    for arguments in (["check", "pod.yaml"], ["explain", "pod", "-f", "pod.yaml"]):
        text = re.sub(r"\x1b\[[0-9;]*m", "", run_in_terminal(arguments, 200, tmp_path, NO_COLOR="1"))
        assert "a\ufffd[31m\ufffdb" in text
        assert not {"\x1b", "\x07"} & set(text)


def test_an_undecodable_file_name_is_printed(tmp_path: Path) -> None:
    """Print it escaped, since Linux allows any bytes in names."""
    path = tmp_path / "odd-\udcff.yaml"
    path.write_text("a: [")
    for output in ("table", "json", "yaml", "github", "sarif"):
        result = CliRunner().invoke(root, ["check", "-o", output, str(tmp_path)])
        assert result.exit_code == 2
        assert "odd-" in result.stdout


def test_of_an_object_with_many_findings_the_first_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    limits = {f"A_/{number:06}": "1" for number in range(3_000)}
    container = {"name": "c", "image": "a", "resources": {"limits": limits}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    result = CliRunner().invoke(root, ["check", "-o", "json", str(tmp_path / "pod.json")])
    assert result.exit_code == 1
    messages = [each["message"] for each in json.loads(result.stdout)["findings"]]
    assert "and 4000 more findings of this object, after the first 1000" in messages
    assert len(messages) == 1_001
