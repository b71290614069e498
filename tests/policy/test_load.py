"""Policy files on disk, read once: the files that are found, and the findings on unreadable ones."""

import os
from pathlib import Path

import pytest

from tallygate.policy import load
from tallygate.policy.lint_findings import Severity
from tallygate.policy.load import load_policies
from tallygate.policy.parse import MAX_FILE_BYTES
from tallygate.policy.schema import read_schema_text
from tests.policy.files import mount_config_map, rule_text


def test_a_folder_is_read_by_name_and_only_policy_files(tmp_path: Path) -> None:
    (tmp_path / "2.yaml").write_text(rule_text("b"))
    (tmp_path / "1.yml").write_text(rule_text("a"))
    (tmp_path / "3.json").write_text('{"apiVersion": "x"}')
    for other in (".hidden.yaml", "README.md", "policy.yaml.bak", "notes.txt"):
        (tmp_path / other).write_text("not: [a policy")
    (tmp_path / "folder.yaml").mkdir()
    parsed = load_policies([tmp_path])
    assert [rule.name for rule in parsed.policies.rules] == ["a", "b"]
    assert {finding.file for finding in parsed.findings} == {str(tmp_path / "3.json")}


def test_folders_are_read_at_any_depth_but_for_hidden_ones(tmp_path: Path) -> None:
    for name in ("z.yaml", "teams/b.yaml", "teams/vision/a.json", ".git/x.yaml", "teams/.old/x.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("not: [a policy" if "x." in name else rule_text(path.stem))
    parsed = load_policies([tmp_path])
    assert parsed.findings == ()
    assert [rule.name for rule in parsed.policies.rules] == ["z", "b", "a"]


def test_a_broken_file_in_a_nested_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(rule_text("a"))
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams" / "2.yaml").write_text("not: [a policy")
    parsed = load_policies([tmp_path])
    assert {finding.file for finding in parsed.findings} == {str(tmp_path / "teams" / "2.yaml")}
    assert not parsed.is_usable


def test_a_linked_folder_is_read_once_and_a_circle_ends(tmp_path: Path) -> None:
    """Follow links as the kubelet writes them, where a key of a ConfigMap is mounted below a folder."""
    (tmp_path / "..data" / "teams").mkdir(parents=True)
    (tmp_path / "..data" / "teams" / "a.yaml").write_text(rule_text("a"))
    (tmp_path / "teams").symlink_to(tmp_path / "..data" / "teams")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "..data" / "teams")
    parsed = load_policies([tmp_path])
    assert (parsed.findings, len(parsed.policies.rules)) == ((), 1)


def test_more_folders_than_the_limit_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MAX_FOLDERS", 2)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (finding,) = load_policies([tmp_path]).findings
    assert (finding.file, "more than 2 folders" in finding.message) == (str(tmp_path), True)


SCENARIO = "name: one\nsteps: [{wait: 1s}]\n"


def test_scenarios_beside_policies_are_skipped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b.yaml").write_text(f"{SCENARIO}---\n{SCENARIO}")
    parsed = load_policies([tmp_path])
    assert (parsed.findings, parsed.scenario_count) == ((), 2)


def test_a_document_that_is_no_policy_is_an_error_beside_policies(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nsteps: []\n")
    assert {finding.file for finding in load_policies([tmp_path]).findings} == {str(tmp_path / "pod.yaml")}


_FOREIGN = {
    "a JSON schema": ("schema.json", read_schema_text()),
    "a kustomization": ("kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"),
    "a kustomization that its tool completes": ("kustomization.yaml", "resources: [rule.yaml]\n"),
    "values with anchors and a duplicate key": ("values.yaml", "a: &a {b: 1}\nc: *a\na: 2\n"),
    "a list": ("values.json", '[{"name": "a"}]'),
}


@pytest.mark.parametrize("name", _FOREIGN)
def test_documents_of_other_tools_in_a_folder_are_skipped_and_counted(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    file_name, text = _FOREIGN[name]
    (tmp_path / file_name).write_text(text)
    parsed = load_policies([tmp_path])
    assert (parsed.findings, [each.file for each in parsed.foreign]) == ((), [str(tmp_path / file_name)])
    assert not load_policies([tmp_path, tmp_path / file_name]).is_usable, "a file that is named is read"


_MISTAKEN = {
    "neither apiVersion nor kind": "metadata: {name: b}\nspec: {hard: {pods: 1}}\n",
    "a misspelt group without a kind": "apiVersion: tallygates.dev/v1alpha1\nmetadata: {name: b}\n",
    "a misspelt kind without an apiVersion": "kind: NamespaceCaps\nmetadata: {name: b}\n",
    "the group of another API": "apiVersion: example.com/v1alpha1\nkind: NamespaceCap\nmetadata: {name: b}\n",
    "an empty mapping": "{}\n",
    "a policy in a list": "- {apiVersion: tallygate.dev/v1alpha1, kind: NamespaceCap}\n",
    "a text": "hello\n",
    "a mistake of YAML": "{\n",
}


@pytest.mark.parametrize("name", _MISTAKEN)
def test_what_may_be_meant_as_a_policy_is_never_skipped(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a"))
    (tmp_path / "b.yaml").write_text(_MISTAKEN[name])
    parsed = load_policies([tmp_path])
    assert (parsed.is_usable, parsed.foreign) == (False, ())


def test_a_policy_beside_a_document_of_another_tool_in_one_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"resources: []\n---\n{rule_text('a')}")
    parsed = load_policies([tmp_path])
    assert (parsed.findings, len(parsed.policies.rules), len(parsed.foreign)) == ((), 1, 1)


def test_documents_of_other_tools_alone_are_no_policies(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(read_schema_text())
    (finding,) = load_policies([tmp_path]).findings
    assert "it has no policy" in finding.message


def test_scenarios_alone_are_no_policies(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(SCENARIO)
    (finding,) = load_policies([tmp_path]).findings
    assert "it has no policy" in finding.message


def test_a_file_that_is_passed_by_path_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text(rule_text("a"))
    assert [rule.name for rule in load_policies([tmp_path / "rules.txt"]).policies.rules] == ["a"]


def test_a_file_with_two_names_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "1.yaml").write_text(rule_text("a"))
    (tmp_path / "2.yaml").symlink_to(tmp_path / "1.yaml")
    assert load_policies([tmp_path, tmp_path / "1.yaml", tmp_path]).findings == ()


def test_a_configmap_mount_is_read_once(tmp_path: Path) -> None:
    mount_config_map(tmp_path, "v1", {"a.yaml": rule_text("a"), "b.yaml": rule_text("b")})
    parsed = load_policies([tmp_path])
    assert parsed.findings == ()
    assert parsed.policies.files == (str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"))


def test_loading_lints_the_policies(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(rule_text("a", '"!a.b/c"'))
    parsed = load_policies([tmp_path])
    assert [finding.code for finding in parsed.findings] == ["TG330"]
    assert not parsed.is_usable


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    (finding,) = load_policies([tmp_path / "missing"]).findings
    assert finding.code == "TG301"
    assert "No such file or directory" in finding.message


def test_a_folder_without_policies_is_an_error(tmp_path: Path) -> None:
    (finding,) = load_policies([tmp_path]).findings
    assert finding.file == str(tmp_path)
    assert "no policy file here" in finding.message


def test_a_pipe_is_rejected_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (finding,) = load_policies([tmp_path]).findings
    assert "not a regular file" in finding.message


def test_a_broken_link_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "missing")
    (finding,) = load_policies([tmp_path]).findings
    assert (finding.file, finding.code) == (str(tmp_path / "a.yaml"), "TG301")


def test_a_huge_file_is_read_only_up_to_the_limit(tmp_path: Path) -> None:
    with (tmp_path / "a.yaml").open("wb") as file:
        file.truncate(5 << 30)  # five gigabytes that take no space on disk
    (finding,) = load_policies([tmp_path]).findings
    assert finding.code == "TG302"


def test_files_beyond_the_total_limit_are_not_read(tmp_path: Path) -> None:
    for at in range(12):
        (tmp_path / f"{at:02}.yaml").write_bytes(b"#" * MAX_FILE_BYTES)
    parsed = load_policies([tmp_path])
    assert [finding.code for finding in parsed.findings] == ["TG302"]
    assert len(parsed.policies.files) == 9


@pytest.mark.parametrize("content", ["", "# to be written\n", "---\n---\n"])
def test_a_set_without_any_policy_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "empty.yaml").write_text(content)
    (finding,) = load_policies([tmp_path]).findings
    assert "it has no policy" in finding.message
    assert finding.severity is Severity.ERROR


def test_a_file_with_shapes_alone_has_policies(tmp_path: Path) -> None:
    file = tmp_path / "shapes.yaml"
    file.write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: NodeShape\nmetadata: {name: a}\nspec: {allocatable: {cpu: 2}}\n"
    )
    loaded = load_policies([file])
    assert (loaded.findings, [each.name for each in loaded.policies.node_shapes]) == ((), ["a"])


def test_a_file_with_kinds_alone_has_policies(tmp_path: Path) -> None:
    file = tmp_path / "kinds.yaml"
    file.write_text(
        "apiVersion: tallygate.dev/v1alpha1\nkind: WorkloadKind\nmetadata: {name: a}\nspec: {group: a.b, kind: C, "
        "resource: cs, versions: [v1], pods: [{template: spec.template}]}\n"
    )
    loaded = load_policies([file])
    assert (loaded.findings, [each.kind for each in loaded.policies.workload_kinds]) == ((), ["C"])
