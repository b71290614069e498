"""The command `tallygate migrate opaque-resources` on snapshots and files."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tallygate.cli.app import root

OLD = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
_SNAPSHOT = str(Path(__file__).with_name("fruit.json"))
_DOMAIN = ("--domain", "example.com")
_LIMITS = f"containers[0].resources.limits[{OLD}]"


def run(*arguments: str, stdin: str = "") -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(root, ["migrate", "opaque-resources", *arguments], input=stdin)


def test_each_use_is_listed_with_its_step_except_in_what_has_ended() -> None:
    result = run("--snapshot", _SNAPSHOT, *_DOMAIN, "-o", "json")
    read = json.loads(result.stdout)
    uncounted = "Kubernetes did not count the old name here, and counts the new one"
    assert (result.exit_code, read["kind"]) == (1, "OpaqueNameUseList")
    assert [(each["object"], each["field"], each["step"], each["note"]) for each in read["items"]] == [
        ("Node n", f"status.capacity[{OLD}]", 2, ""),
        ("Node n", f"status.allocatable[{OLD}]", 2, ""),
        ("ResourceQuota a/fruit", f"spec.hard[requests.{OLD}]", 1, uncounted),
        ("LimitRange a/fruit", f"spec.limits[0].max[{OLD}]", 4, ""),
        ("Deployment a/peel", f"spec.template.spec.{_LIMITS}", 3, ""),
        ("Pod a/peel-1", f"spec.{_LIMITS}", 3, "follows ReplicaSet peel-new"),
        ("Pod a/alone", "spec.containers[0].args[0]", None, "edit it by hand"),
        ("Pod a/alone", f"spec.{_LIMITS}", 3, "cannot be changed: let it end, or recreate it"),
    ]
    assert "2 ended pods and jobs, and old ReplicaSets, keep the old name" in result.stderr
    assert "next: step 1, accept both" in result.stderr
    unread = "the snapshot has no ReplicationController, PodTemplate, StatefulSet, DaemonSet, CronJob, Job"
    assert read["unread"] == [f"{unread}: if the cluster has any, they were not read"]


def test_the_steps_have_patches_with_their_commands(tmp_path: Path) -> None:
    result = run("--snapshot", _SNAPSHOT, *_DOMAIN, "--write", str(tmp_path / "steps"))
    assert result.exit_code == 1, result.output
    parts = (path.relative_to(tmp_path / "steps").parts[:2] for path in (tmp_path / "steps").rglob("*.*"))
    written = {f"{part[0][0]} {part[1]}" for part in parts if len(part) > 1}
    scripts = {f"{step} {name}" for step in range(1, 6) for name in ("apply.sh", "back.sh", "patches", "back")}
    recreated_files = {f"{step} {name}" for step in (3, 4) for name in ("recreate.sh", "recreate")}
    assert written == scripts | recreated_files | {"4 pods-left.gotmpl", "5 pods-left.gotmpl"}
    for script in ("4-request-new/apply.sh", "4-request-new/recreate.sh", "5-withdraw-old/apply.sh"):
        lines = (tmp_path / "steps" / script).read_text().splitlines()
        assert lines[4].startswith('left=$(kubectl "$@" get pods --all-namespaces -o go-template-file=')
    nodes = (tmp_path / "steps/2-advertise-both/apply.sh").read_text().splitlines()[-1]
    assert nodes.startswith('kubectl "$@" patch Node n --subresource=status --type=json --patch-file=patches/node-n-')
    last = (tmp_path / "steps/4-request-new/apply.sh").read_text().splitlines()[-2:]
    assert [line.split()[3] for line in last] == ["LimitRange", "Deployment.v1.apps"]
    (recreated,) = (tmp_path / "steps/3-request-both/recreate").iterdir()
    pod = json.loads(recreated.read_text())
    assert pod["metadata"] == {"name": "alone", "namespace": "a"}
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {OLD: "1", "example.com/bananas": "1"}
    assert "nodeName" not in pod["spec"]
    assert "status" not in pod


def _file(folder: Path, text: str) -> str:
    path = folder / "in.yaml"
    path.write_text(text.replace("OLD", OLD))
    return str(path)


_RULE = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: r}\nspec:\n  resources: [%s]\n"


@pytest.mark.parametrize(
    ("resources", "step"),
    [
        pytest.param("OLD", 1, id="the name itself"),
        pytest.param("OLD, example.com/bananas", 5, id="both names"),
        pytest.param("'pod.alpha.kubernetes.io/opaque-int-resource-*'", None, id="a glob"),
        pytest.param("opaque", None, id="the family of opaque names alone"),
    ],
)
def test_the_resources_of_a_rule_are_found(tmp_path: Path, resources: str, step: int | None) -> None:
    result = run("-f", _file(tmp_path, _RULE % resources), *_DOMAIN, "-o", "json")
    (item,) = json.loads(result.stdout)["items"]
    assert item["step"] == step
    assert item["location"].endswith("in.yaml:5:15")


@pytest.mark.parametrize("resources", ["opaque, extended", "example.com/bananas"])
def test_nothing_is_left_of_what_accepts_the_new_names(tmp_path: Path, resources: str) -> None:
    result = run("-f", _file(tmp_path, _RULE % resources))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no use of an opaque name is left" in result.stderr


def test_amounts_that_differ_are_reported(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus:\n  capacity: {OLD: 3, example.com/bananas: 2}\n"
    (item,) = json.loads(run("-f", _file(tmp_path, text), *_DOMAIN, "-o", "json").stdout)["items"]
    assert item["note"] == "the amounts differ: 3 by the old name, 2 by the new one"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--write", "x"), "--write needs the new names: add --domain example.com, or --name OLD=NEW"),
        (
            ("--name", "kiwis=example.com/kiwi", "--write", "x"),
            f"{OLD} has no new name: add --name bananas=example.com/",
        ),
        (("--name", "bananas"), "--name bananas is not OLD=NEW, as in --name bananas=example.com/banana"),
        (("--name", "bananas=banana"), "banana is not the name of an extended resource"),
        (("--domain", "fruit.kubernetes.io"), "fruit.kubernetes.io/x is not the name of an extended resource"),
        (("--domain", "a b"), "a b/x is not a qualified name"),
        (("--name", "a=b.io/c", "--name", "a=b.io/d"), "--name a is given twice, with b.io/c and b.io/d: keep one"),
    ],
)
def test_misuse_is_one_clear_error(arguments: tuple[str, ...], message: str) -> None:
    result = run("--snapshot", _SNAPSHOT, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_two_old_names_get_two_new_ones(tmp_path: Path) -> None:
    name = _file(tmp_path, _RULE % "OLD, OLD-2")
    names = ("--name", "bananas=b.io/c", "--name", "bananas-2=b.io/c")
    result = run("-f", name, *names, "--write", str(tmp_path / "steps"))
    assert f"{OLD} and {OLD}-2 both become b.io/c: give one of them another name with --name" in result.stderr


def test_a_folder_of_another_run_is_left_as_it_is(tmp_path: Path) -> None:
    name = _file(tmp_path, _RULE % "OLD")
    result = run("-f", name, *_DOMAIN, "--write", str(tmp_path))
    assert result.exit_code == 2
    assert "is not empty: name a new folder" in result.stderr


def test_a_layout_that_is_not_known_is_reported_at_its_place(tmp_path: Path) -> None:
    name = _file(tmp_path, _RULE % "&a OLD, *a")
    result = run("-f", name, *_DOMAIN, "--write", str(tmp_path / "steps"))
    assert result.exit_code == 2
    assert "in.yaml:5:15: an old name beside a tag, an anchor or an escape is not edited" in result.stderr
    assert not (tmp_path / "steps").exists()


def test_a_file_that_cannot_be_read_is_not_reported_as_fine() -> None:
    result = run("-f", "-", stdin="a: [")
    assert result.exit_code == 2
    assert "this is not YAML" in result.stderr


def _plan(content: dict[str, Any], folder: Path) -> Result:
    return run("-f", "-", *_DOMAIN, "--write", str(folder), stdin=json.dumps(content))


def test_a_rerun_after_each_step_shows_what_is_left(tmp_path: Path) -> None:
    content: dict[str, Any] = json.loads(Path(_SNAPSHOT).read_text())
    content["items"] = content["items"][:4]
    left, step = [], 0
    while (result := _plan(content, tmp_path / str(step))).exit_code == 1:
        left.append(result.stderr.split("next: ")[1].split(",")[0])
        first = min((tmp_path / str(step)).iterdir())
        content = json.loads((first / "files/stdin.yaml").read_text())
        step += 1
    assert result.exit_code == 0
    assert left == ["step 1", "step 2", "step 3", "step 4", "step 5"]
    assert content["items"][0]["status"]["capacity"] == {"cpu": "8", "pods": "10", "example.com/bananas": "4"}


def test_a_job_is_created_again_without_the_labels_of_its_controller(tmp_path: Path) -> None:
    own = {"batch.kubernetes.io/controller-uid": "1", "controller-uid": "1", "job-name": "peel"}
    spec = {"containers": [{"name": "main", "resources": {"limits": {OLD: "1"}}}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "peel", "namespace": "a", "uid": "1", "labels": own},
        "spec": {"selector": {"matchLabels": own}, "template": {"metadata": {"labels": own}, "spec": spec}},
        "status": {"active": 1},
    }
    ended = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    snapshot = tmp_path / "now.json"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [job, ended]}))
    assert run("--snapshot", str(snapshot), *_DOMAIN, "--write", str(tmp_path / "steps")).exit_code == 1
    (recreated,) = (tmp_path / "steps/4-request-new/recreate").iterdir()
    content = json.loads(recreated.read_text())
    assert content["metadata"] == {"name": "peel", "namespace": "a", "labels": {"job-name": "peel"}}
    assert content["spec"]["template"]["metadata"] == {"labels": {"job-name": "peel"}}
    assert content["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"example.com/bananas": "1"}}
    assert {*content} == {"apiVersion", "kind", "metadata", "spec"}
    assert "selector" not in content["spec"]


def test_the_definition_of_its_own_selector_is_kept(tmp_path: Path) -> None:
    spec = {"containers": [{"name": "main", "resources": {"limits": {OLD: "1"}}}]}
    selector = {"matchLabels": {"app": "peel"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "peel", "namespace": "a"},
        "spec": {"manualSelector": True, "selector": selector, "template": {"spec": spec}},
    }
    snapshot = tmp_path / "now.json"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [job]}))
    assert run("--snapshot", str(snapshot), *_DOMAIN, "--write", str(tmp_path / "steps")).exit_code == 1
    (recreated,) = (tmp_path / "steps/4-request-new/recreate").iterdir()
    assert json.loads(recreated.read_text())["spec"]["selector"] == selector
