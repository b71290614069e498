"""`tallygate init`: what it writes passes `lint` and `test`, and it replaces no file."""

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from tallygate.cli.app import root
from tests.cli.check_case import change_directory
from tests.cli.terminal import answer_in_terminal
from tests.github.test_workflows import find_actionlint

_ROOT = Path(__file__).parents[2]
_CHOICES = (
    "--for gpus",
    "--for gpus --team-namespaces team-*",
    "--for gpus --team-namespaces ?-gpu --hard 1",
    "--for gpus --team-namespaces research --hard 3",
    "--for gpus --resource amd.com/gpu --amounts 1 --team-label example.com/team --hard 2",
    "--for gpus --team-label true",
    "--for gpus --amounts 16",
    "--for gpus --count slices",
    "--for gpus --count slices --team-namespaces * --amounts 1,2,3 --hard 1000000",
    "--for gpus --count memory",
    "--for gpus --count memory --team-namespaces team-* --hard 1",
    "--for licences",
    "--for licences --resource licences.example.com/cad --hard 1",
    "--for rules",
    "--for rules --resource example.com/fpga --amounts 1",
    "--for rules --amounts 4,2,2",
)
_FILES_OF_GPUS = [
    ".github/workflows/tallygate.yml",
    ".pre-commit-config.yaml",
    ".vscode/settings.json",
    "policies/.schemas/policy.json",
    "policies/.schemas/scenario.json",
    "policies/default.yaml",
    "policies/gpu-caps.yaml",
    "policies/gpu-requests.yaml",
    "policies/tests/gpu-caps.yaml",
    "policies/tests/gpu-requests.yaml",
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    """Run tallygate without a terminal."""
    return CliRunner().invoke(root, arguments, prog_name="tallygate")


def list_files(folder: Path) -> list[str]:
    """Return the paths of all files in a folder, but for those of Git."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if path.parts[0] != ".git")


def read_documents(path: str) -> list[dict[str, Any]]:
    """Return the documents of a YAML file."""
    return list(yaml.safe_load_all(Path(path).read_text(encoding="utf-8")))


@pytest.mark.parametrize("options", _CHOICES)
def test_what_is_written_passes_lint_and_test(options: str) -> None:
    assert run("init", *options.split()).exit_code == 0
    for arguments in (("lint", "--strict", "policies/"), ("test", "policies/tests/")):
        result = run(*arguments)
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize("options", _CHOICES)
def test_every_file_names_a_schema_that_is_there(options: str) -> None:
    run("init", *options.split())
    for path in (path for path in Path("policies").rglob("*.yaml")):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert (path.parent / first.removeprefix("# yaml-language-server: $schema=")).is_file(), path
    assert Path("policies/.schemas/policy.json").read_text() == run("schema").stdout
    assert Path("policies/.schemas/scenario.json").read_text() == run("schema", "scenario").stdout


def test_a_purpose_is_added_to_the_files_of_another(tmp_path: Path) -> None:
    """Keep the shared files as they are, and name them."""
    run("init", "--for", "gpus")
    before = {name: Path(name).read_bytes() for name in list_files(tmp_path)}
    result = run("init", "--for", "licences")
    assert (result.exit_code, result.stderr) == (0, "")
    assert {name: Path(name).read_bytes() for name in before} == before
    assert "\nKept, because they exist already:\n  policies/default.yaml " in result.stdout
    assert "additional_dependencies" not in result.stdout, "the hooks are there"
    assert [run("lint", "--strict", "policies").exit_code, run("test", "policies/tests").exit_code] == [0, 0]


def test_all_files_that_are_there_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    Path("policies/tests").mkdir(parents=True)
    for name in ("policies/gpu-caps.yaml", "policies/tests/gpu-caps.yaml"):
        Path(name).write_text("mine\n")
    Path("policies/gpu-requests.yaml").symlink_to("nowhere.yaml")
    result = run("init", "--for", "gpus")
    names = "policies/gpu-requests.yaml, policies/gpu-caps.yaml, policies/tests/gpu-caps.yaml"
    advice = "replaces no file: nothing has been written; move them, or name another folder"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tallygate: {names}: exists already, and `tallygate init` {advice}\n"
    assert list_files(tmp_path) == ["policies/gpu-caps.yaml", "policies/tests/gpu-caps.yaml"]


_ADDITIONS = {
    ".github/workflows/tallygate.yml": ("GitHub", "steps"),
    ".pre-commit-config.yaml": ("hooks", "repos"),
    ".vscode/settings.json": ("VS Code", "yaml.schemas"),
}


def read_additions(stdout: str) -> dict[str, Any]:
    """Return the printed lines to add, by the file that gets them."""
    shown, _, _ = stdout.partition("Next:\n")
    _, *parts = re.split(r"^For (.+), add to `(.+)` of (.+):\n", shown, flags=re.MULTILINE)
    additions: dict[str, Any] = {}
    for purpose, key, path, lines in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True):
        assert _ADDITIONS[path] == (purpose, key)
        additions[path] = yaml.safe_load("{" + lines + "}" if path.endswith(".json") else lines)
    return additions


def test_hooks_and_settings_of_the_user_are_kept(tmp_path: Path) -> None:
    """Print what to add to each."""
    for name in _ADDITIONS:
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text("# mine\n")
    result = run("init", "--for", "rules")
    assert result.exit_code == 0
    assert {Path(name).read_text() for name in _ADDITIONS} == {"# mine\n"}
    steps, (entry,), schemas = read_additions(result.stdout).values()
    assert [step["run"].split()[1] for step in steps] == ["lint", "test"]
    assert [hook["id"] for hook in entry["hooks"]] == ["tallygate-lint", "tallygate-test"]
    assert schemas["./policies/.schemas/policy.json"] == ["policies/*.yaml"]
    assert "policies/requests.yaml" in list_files(tmp_path)


def test_a_second_folder_of_policies_is_added_to_files_that_do_not_name_it() -> None:
    Path(".git").mkdir()
    assert read_additions(run("init", "--for", "gpus").stdout) == {}
    assert read_additions(run("init", "--for", "licences").stdout) == {}
    assert list(read_additions(run("init", "clusters/prod", "--for", "gpus").stdout)) == list(_ADDITIONS)


def test_a_dry_run_prints_the_files_and_writes_nothing(tmp_path: Path) -> None:
    result = run("init", "made", "--for", "gpus", "--dry-run")
    assert (result.exit_code, list_files(tmp_path), Path("made").exists()) == (0, [], False)
    shown = [line[4:-4] for line in result.stdout.splitlines() if line.startswith("==> ")]
    assert sorted(shown) == [f"made/{name}" for name in _FILES_OF_GPUS]
    run("init", "made", "--for", "gpus")
    for name in shown:
        text = Path(name).read_text(encoding="utf-8")
        assert ".schemas" in name or f"==> {name} <==\n{text}\n" in result.stdout


def test_a_dry_run_names_the_files_that_are_there() -> None:
    run("init", "--for", "gpus")
    assert (
        run("init", "--for", "gpus", "--dry-run").exit_code,
        run("init", "--for", "rules", "--dry-run").exit_code,
    ) == (2, 0)


def test_a_part_is_removed_where_a_file_cannot_be_written(tmp_path: Path) -> None:
    """Remove the folders too."""
    Path(".github").write_text("a file where a folder is needed\n")
    result = run("init", "--for", "gpus")
    name, reason, advice = result.stderr.removeprefix("tallygate: ").split(": ")
    assert (result.exit_code, name, reason) == (2, ".github/workflows/tallygate.yml", "cannot be written")
    assert advice.endswith("; nothing has been written\n")
    assert [path.name for path in tmp_path.iterdir()] == [".github"]


def test_files_for_tools_stand_at_the_root_of_the_repository(tmp_path: Path) -> None:
    """Name the policies from there."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "deploy").mkdir()
    folder = tmp_path / "clusters" / "gpu prod"
    folder.mkdir(parents=True)
    with change_directory(folder):
        result = run("init", "--for", "gpus", "--manifests", "../../deploy")
        assert result.exit_code == 0, result.output
        assert "\n  ../../.github/workflows/tallygate.yml " in result.stdout
    tools = (".github/", ".pre", ".vscode/")
    assert list_files(tmp_path) == sorted(
        name if name.startswith(tools) else f"clusters/gpu prod/{name}" for name in _FILES_OF_GPUS
    )
    commands = list_workflow_commands()
    assert commands[1:] == [
        "tallygate lint --strict -o github 'clusters/gpu prod/policies/'\n",
        "tallygate test -o github 'clusters/gpu prod/policies/tests/'\n",
        "tallygate check -o github --policies 'clusters/gpu prod/policies/' deploy/\n",
    ]
    settings = json.loads(Path(".vscode/settings.json").read_text())["yaml.schemas"]
    assert all((tmp_path / schema).is_file() for schema in settings)


def list_workflow_commands() -> list[str]:
    """Return the commands of the workflow in this folder."""
    (workflow,) = read_documents(".github/workflows/tallygate.yml")
    return [step["run"] for step in workflow["jobs"]["tallygate"]["steps"] if "run" in step]


def test_the_workflow_runs(tmp_path: Path) -> None:
    """Run what it runs, but for the installation: the manifest passes, and a broken scenario fails."""
    Path("deploy").mkdir()
    (Path("deploy") / "pod.yaml").write_text((_ROOT / "e2e/manifests/one-dongle.yaml").read_text())
    assert run("init", "--for", "gpus", "--manifests", "deploy").exit_code == 0
    install, *commands = list_workflow_commands()
    assert install == "python -m pip install --quiet tallygate==0.1.0\n"
    assert [run(*command.split()[1:]).exit_code for command in commands] == [0, 0, 0]
    caps = tmp_path / "policies" / "gpu-caps.yaml"
    caps.write_text(caps.read_text().replace("hard: {nvidia.com/gpu: 8}", "hard: {nvidia.com/gpu: 9}"))
    assert [run(*command.split()[1:]).exit_code for command in commands] == [0, 1, 0]


def test_actionlint_finds_nothing_in_the_workflow() -> None:
    run("init", "--for", "gpus", "--manifests", ".", "--install", "tallygate @ git+https://git.example.com/t's.git@v1")
    command = (find_actionlint(), "-shellcheck=", "-pyflakes=", ".github/workflows/tallygate.yml")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  found or built, no shell
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_hooks_run() -> None:
    """Run what pre-commit runs, and compare what it installs with the option."""
    requirement = "tallygate @ git+https://git.example.com/t.git@v1"
    run("init", "--for", "licences", "--install", requirement)
    (config,) = read_documents(".pre-commit-config.yaml")
    ((hooks,),) = [[repo["hooks"] for repo in config["repos"] if repo["repo"] == "local"]]
    assert [(hook["id"], hook["files"], hook["pass_filenames"]) for hook in hooks] == [
        ("tallygate-lint", "^policies/", False),
        ("tallygate-test", "^policies/", False),
    ]
    assert {*hooks[0]["additional_dependencies"], *hooks[1]["additional_dependencies"]} == {requirement}
    assert [run(*hook["entry"].split()[1:], *hook["args"]).exit_code for hook in hooks] == [0, 0]


def test_files_may_be_left_out(tmp_path: Path) -> None:
    result = run("init", "--for", "gpus", "--without", "workflow", "--without", "pre-commit", "--without", "editor")
    assert list_files(tmp_path) == [name for name in _FILES_OF_GPUS if name.startswith("policies/")]
    assert "pip" not in result.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--for quotas", "'quotas' is not one of 'gpus', 'licences', 'rules'"),
        ("--resource cpu", '"cpu" belongs to Kubernetes; name a resource with a domain, as in nvidia.com/gpu'),
        ("--resource gpu", "Kubernetes knows no resource 'gpu'; one of your own needs a domain"),
        ("--resource nvidia.com/", "the resource name 'nvidia.com/' has no name"),
        ("--amounts 1,,2", '"1,,2" is not a list of amounts; write whole numbers from 1 to 1,000,000, as in 1,2,4,8'),
        ("--amounts 0.5", '"0.5" is not a list of amounts'),
        ("--amounts 0", '"0" is not a list of amounts'),
        (f"--amounts {','.join(map(str, range(1, 40)))}", "39 amounts are more than 32"),
        ("--hard 0", '"0" is not a count; write a whole number from 1 to 1,000,000'),
        ("--hard many", '"many" is not a count'),
        ("--team-label a/b/c", '"a/b/c" is not a label key'),
        ("--team-namespaces Team", '"Team" can match no name'),
        ("--team-namespaces -*", '"-*" can match no name of a namespace; write it as in team-*'),
        (f"--team-namespaces {'a' * 64}", "can match no name of a namespace"),
        ("--install -rfile", '"-rfile" is nothing that pip installs'),
        ("--manifests nowhere", "Path 'nowhere' does not exist"),
        ("--without hooks", "'hooks' is not one of 'workflow', 'pre-commit', 'editor'"),
        ("--team-label team --team-namespaces team-*", "give one of them"),
        ("--for rules --hard 3", "--hard belongs to --for gpus and --for licences, not to --for rules"),
        ("--for licences --amounts 2", "--amounts belongs to --for gpus and --for rules, not to --for licences"),
        ("--for rules --count slices", "--count belongs to --for gpus, not to --for rules"),
        (
            "--count memory --resource amd.com/gpu",
            "supports only the resource names of NVIDIA: omit",
        ),
        (
            "--amounts 2,4 --hard 1",
            "a team has 1, and a container requests 2 at least: give a team 2 or more (--hard), or allow",
        ),
        ("--manifests /", "--manifests /: the workflow reads what is in "),
    ],
)
def test_a_bad_value_is_one_error(tmp_path: Path, options: str, sentence: str) -> None:
    result = run("init", *options.split())
    assert (result.exit_code, result.stdout, list_files(tmp_path)) == (2, "", [])
    assert sentence in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["-x", "a\nb", "a\x1b[31m", "a\u202eb", "a\udcff", "a${{ github.token }}"], ids=ascii)
def test_a_folder_that_no_workflow_can_name_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name).mkdir()
    result = run("init", "--for", "gpus", "--", name)
    assert (result.exit_code, result.stdout, list_files(tmp_path)) == (2, "", [])
    where = f"{f'{name}/policies'!r}: the workflow and the hooks cannot name this folder: "
    assert result.stderr == f"tallygate: {where}name a folder of letters and digits\n"
    assert run("init", "--for", "gpus", "--manifests", f"./{name}").exit_code == 2


def test_the_next_steps_quote_a_folder_with_a_space() -> None:
    assert "  tallygate lint 'gpu prod/policies/' " in run("init", "--for", "gpus", "gpu prod").stdout


def test_an_interrupt_while_files_are_written_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = Path.mkdir

    def interrupt(path: Path, *args: Any, **options: Any) -> None:
        if path.name == ".vscode":
            raise KeyboardInterrupt
        mkdir(path, *args, **options)

    monkeypatch.setattr(Path, "mkdir", interrupt)
    assert run("init", "--for", "gpus").exit_code != 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_and_has_no_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    os.mkfifo(tmp_path / ".github" / "workflows" / "tallygate.yml")
    assert "For GitHub, add to `steps`" in run("init", "--for", "gpus").stdout


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("")
    assert run("init", "here").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "answers", "expected"),
    [
        (
            [],
            {
                "policies limit (gpus, licences, rules) [gpus]": "",
                "GPUs counted": "",
                "Which resource": "cpu",
                "belongs to Kubernetes": "amd.com/gpu",
                "Which numbers of amd.com/gpu": "1,2",
                "team of a namespace": "names",
                "Which names": "lab-*",
                "How many GPUs does a team have [8]": "4",
            },
            {
                "gpu-caps.yaml": {
                    "namespaces": {"include": ["lab-*"]},
                    "hard": {"amd.com/gpu": 4},
                    "soft": {"amd.com/gpu": 3},
                }
            },
        ),
        (
            ["--for", "licences"],
            {"Which resource": "licences.example.com/cad", "How many licences does the site have [20]": "2"},
            {
                "licence-caps.yaml": {
                    "shared": True,
                    "hard": {"licences.example.com/cad": 2},
                    "soft": {"licences.example.com/cad": 1},
                }
            },
        ),
        (
            ["--for", "gpus", "--count", "whole", "--team-label", "squad", "--amounts", "1"],
            {"Which resource": "", "How many GPUs": "1"},
            {"gpu-caps.yaml": {"groupBy": {"label": "squad"}, "hard": {"nvidia.com/gpu": 1}}},
        ),
    ],
    ids=["everything", "a pool", "the rest"],
)
def test_questions_are_asked_for_what_no_option_gives(
    tmp_path: Path, arguments: Sequence[str], answers: dict[str, str], expected: dict[str, Any]
) -> None:
    """Ask again after an invalid answer."""
    code, screen = answer_in_terminal(["init", *arguments], answers, tmp_path)
    assert code == 0, screen
    for name, spec in expected.items():
        assert read_documents(f"policies/{name}")[0]["spec"] == spec
    assert [run("lint", "--strict", "policies").exit_code, run("test", "policies/tests").exit_code] == [0, 0]


def test_a_terminal_asks_nothing_with_yes(tmp_path: Path) -> None:
    code, screen = answer_in_terminal(["init", "--yes"], {}, tmp_path)
    assert (code, list_files(tmp_path)) == (0, _FILES_OF_GPUS), screen


def test_a_file_that_is_there_is_named_before_the_other_questions(tmp_path: Path) -> None:
    run("init", "--for", "gpus")
    code, screen = answer_in_terminal(["init"], {"policies limit": "gpus"}, tmp_path)
    assert (code, "GPUs counted" in screen) == (2, False)
    assert "policies/gpu-caps.yaml" in screen


def test_an_interrupted_question_writes_nothing(tmp_path: Path) -> None:
    code, screen = answer_in_terminal(["init"], {"policies limit": "\x04"}, tmp_path)
    assert (code, list_files(tmp_path)) == (1, []), screen


def test_the_page_that_the_next_steps_name_is_there() -> None:
    _, _, address = run("init", "--for", "rules").stdout.partition("https://tallygate.dev/")
    page, _, anchor = address.splitlines()[0].partition("#")
    headings = (_ROOT / "docs" / page).with_suffix(".md").read_text(encoding="utf-8")
    assert f"\n## {anchor.replace('-', ' ').capitalize()}\n" in headings
