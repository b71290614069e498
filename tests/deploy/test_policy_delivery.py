"""The ways by which policy files get into a cluster: each one makes a ConfigMap with the label of policies."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallygate.policy.policy_config_maps import LABEL_VALUE, POLICIES_LABEL
from tests.deploy.generate import KUSTOMIZE, ROOT
from tests.deploy.rendering import find_helm, render_chart, run_kustomize
from tests.deploy.test_install_pages import list_commands, list_overlays, list_yaml_blocks

PAGE = ROOT / "docs" / "concepts" / "why-files.md"
NAME = "tallygate-policies"


def check_config_map(config_map: dict[str, Any], files: list[str]) -> None:
    """Check that a ConfigMap has the label, and these files."""
    assert config_map["metadata"]["labels"][POLICIES_LABEL] == LABEL_VALUE
    assert sorted(config_map["data"]) == sorted(files)


def write_files(folder: Path) -> None:
    """Write the files that the page names."""
    for name in ("default.yaml", "gpus.yaml"):
        (folder / name).write_text("# none\n")


def test_an_overlay_keeps_the_label(tmp_path: Path) -> None:
    """Render the overlay of the page, which is that of the page about installing."""
    (overlay,) = [each for each in list_yaml_blocks(PAGE) if "configMapGenerator" in each]
    assert overlay == list_overlays()[0]
    folder = tmp_path.resolve()
    shown = overlay | {"resources": [os.path.relpath(KUSTOMIZE / "overlays" / "ha", folder)]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(shown))
    write_files(folder)
    check_config_map(run_kustomize(folder)["ConfigMap", NAME], ["default.yaml", "gpus.yaml"])


def test_the_base_and_the_chart_have_the_label() -> None:
    check_config_map(run_kustomize(KUSTOMIZE / "base")["ConfigMap", NAME], ["default.yaml"])
    check_config_map(render_chart({})["ConfigMap", NAME], ["default.yaml"])
    check_config_map(render_chart({"policies": {"own.yaml": "# none\n"}})["ConfigMap", NAME], ["own.yaml"])


def test_the_files_of_the_helm_command_are_in_the_config_map(tmp_path: Path) -> None:
    (line,) = [each for each in list_commands(PAGE) if each.startswith("helm ")]
    _, _, _, release, _, *options = shlex.split(line)
    write_files(tmp_path)
    command = [find_helm(), "template", release, str(ROOT / "deploy" / "helm" / "tallygate"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)  # noqa: S603  no shell
    (config_map,) = [each for each in yaml.safe_load_all(done.stdout) if each and each["metadata"]["name"] == NAME]
    check_config_map(config_map, ["default.yaml", "gpus.yaml"])


def test_the_commands_of_kubectl_make_a_labelled_config_map(tmp_path: Path) -> None:
    """Run the commands but for the last one, which applies what they print."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH")
    (tmp_path / "policies").mkdir()
    write_files(tmp_path / "policies")
    lines = re.findall(r"(kubectl -n tallygate-system create configmap.*?)\n```", PAGE.read_text(), re.DOTALL)
    create, label, _ = (part.strip() for part in lines[0].replace("\\\n", " ").split("|"))
    text = ""
    for part in (create, label):
        words = shlex.split(part)
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=tmp_path, input=text)  # noqa: S603  no shell
        text = done.stdout
    check_config_map(yaml.safe_load(text), ["default.yaml", "gpus.yaml"])


def test_argo_cd_and_flux_apply_the_same_overlay() -> None:
    """Expect the folder of the overlay; e2e/test_delivered_policies.py has the definitions of the objects."""
    kinds = {each["kind"]: each for each in list_yaml_blocks(PAGE) if "kind" in each}
    assert sorted(kinds) == ["Application", "GitRepository", "Kustomization"]
    assert kinds["Application"]["spec"]["source"]["path"] == "deploy/kustomize/mine"
    assert kinds["Kustomization"]["spec"]["path"] == "./deploy/kustomize/mine"
    source = kinds["Kustomization"]["spec"]["sourceRef"]
    assert (source["kind"], source["name"]) == ("GitRepository", kinds["GitRepository"]["metadata"]["name"])
