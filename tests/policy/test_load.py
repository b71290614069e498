"""Policy files on disk, read once: the files that are found, and the findings on unreadable ones."""

import os
from pathlib import Path

import pytest

from tallygate.webhook.policy.lint_findings import Severity
from tallygate.webhook.policy.load import load_policies
from tallygate.webhook.policy.parse import MAX_FILE_BYTES
from tests.policy.files import mount_config_map, rule_text


def test_a_folder_is_read_by_name_and_only_policy_files(tmp_path: Path) -> None:
    (tmp_path / "2.yaml").write_text(rule_text("b"))
    (tmp_path / "1.yml").write_text(rule_text("a"))
    (tmp_path / "3.json").write_text('{"apiVersion": "x"}')
    for other in (".hidden.yaml", "README.md", "policy.yaml.bak", "notes.txt"):
        (tmp_path / other).write_text("not: [a policy")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "x.yaml").write_text("not: [a policy")
    (tmp_path / "folder.yaml").mkdir()
    parsed = load_policies([tmp_path])
    assert [rule.name for rule in parsed.policies.rules] == ["a", "b"]
    assert {finding.file for finding in parsed.findings} == {str(tmp_path / "3.json")}


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
    assert "says no policy" in finding.message
    assert finding.severity is Severity.ERROR
