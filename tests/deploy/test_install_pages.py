"""The pages about installing: their commands and their YAML are right."""

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tallygate.admission.self_registration import (
    EXEMPT_ANNOTATION,
    FAILURE_POLICY_ANNOTATION,
    URL_ANNOTATION,
    parse_choices,
)
from tallygate.admission.webhook_configuration import ServiceTarget
from tallygate.cli.app import root
from tests.admission.plain_configurations import create_plain_configurations, to_typed
from tests.deploy.container_settings import get_pod
from tests.deploy.generate import BASE, CHART, COMPONENTS, INSTALLATION, KUSTOMIZE, ROOT
from tests.deploy.manifests import KUSTOMIZATION, get_container, get_pod_template, list_manifests
from tests.deploy.rendering import Objects, compose_objects, create_helm_command, render_overlay, run_kustomize

INSTALL, UPGRADE, DEPLOY, FRONT = (
    ROOT / name for name in ("docs/operate/install.md", "docs/operate/upgrade.md", "deploy/README.md", "README.md")
)
PAGES = [INSTALL, INSTALLATION, UPGRADE, DEPLOY, FRONT]
OPERATE = ROOT / "docs/operate/runbook.md"
STEPS = """\
kubectl apply -k deploy/kustomize/mine
kubectl -n tallygate-system rollout status deployment/tallygate"""


def read_text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def list_commands(page: Path) -> list[str]:
    """Return every command of a page; continued lines are joined, and joined commands are split."""
    blocks = re.findall(r"```console\n(.*?)```", read_text(page).replace("\\\n", " "), re.DOTALL)
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [part.strip() for line in commands for part in re.split(r"&&|\|", line)]


def list_yaml_blocks(page: Path) -> list[dict[str, Any]]:
    """Return every block of YAML in a page."""
    found = re.findall(r"^ *```yaml\n(.*?)```", read_text(page), re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(textwrap.dedent(each)) for each in found]


@pytest.mark.parametrize("page", [INSTALL, DEPLOY, FRONT], ids=lambda page: page.name)
def test_all_pages_install_in_the_same_way(page: Path) -> None:
    assert STEPS in "\n".join(list_commands(page))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_commands_of_tallygate_exist(page: Path) -> None:
    """Parse them with Click; e2e shows that they work."""
    for line in list_commands(page):
        if not line.startswith("tallygate ") or ".yaml" in line or ".json" in line or "check" in line:
            continue  # commands on files that exist only in an example
        context, words = click.Context(root), shlex.split(line)[1:]
        command: click.Command = root
        while isinstance(command, click.Group):
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command = found
        if not command.params or all(not Path(word).suffix for word in words):
            continue
        with command.make_context(line, words):
            pass


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_paths_exist(page: Path) -> None:
    for path in re.findall(r"(?<![\w/])deploy/[\w./-]*\w", "\n".join(list_commands(page))):
        mine = Path(path) == Path("deploy/kustomize/mine") or path == "deploy/wheels"  # the reader's own
        assert mine or (ROOT / path).exists(), path


def test_the_secret_is_the_one_that_the_pod_mounts() -> None:
    mounted = {each["secret"]["secretName"] for each in get_pod_template()["spec"]["volumes"] if "secret" in each}
    made = {found for page in PAGES for found in re.findall(r"create secret \w+ (\S+) ", read_text(page))}
    assert made == mounted


def test_the_selectors_divide_all_objects_into_gate_and_registration() -> None:
    chosen = {found for page in PAGES for found in re.findall(r"apply -k \S+ --selector (\S+)", read_text(page))}
    assert chosen <= {"app.kubernetes.io/component=gate", "app.kubernetes.io/component=registration"}
    for each in list_manifests():
        component = each["metadata"]["labels"]["app.kubernetes.io/component"]
        assert component == ("registration" if each["kind"].endswith("WebhookConfiguration") else "gate")
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    assert generator["options"]["labels"]["app.kubernetes.io/component"] == "gate"


def list_overlays() -> list[dict[str, Any]]:
    """Return the blocks of YAML that are overlays: those with resources."""
    return [each for page in (INSTALL, INSTALLATION, DEPLOY) for each in list_yaml_blocks(page) if "resources" in each]


@pytest.mark.parametrize("overlay", list_overlays(), ids=lambda overlay: str(overlay["resources"]))
def test_an_overlay_of_a_page_renders(overlay: dict[str, Any], tmp_path: Path) -> None:
    """Render the overlay unchanged, in a new folder beside the others."""
    kustomize = tmp_path / "kustomize"
    kustomize.mkdir()
    for folder in ("base", "components", "overlays"):
        for path in (KUSTOMIZE / folder).rglob("*"):
            copied = kustomize / path.relative_to(KUSTOMIZE)
            copied.parent.mkdir(parents=True, exist_ok=True)
            if path.is_file():
                copied.write_bytes(path.read_bytes())
    mine = kustomize / "mine"
    mine.mkdir()
    for name in {"default.yaml", *(file for each in overlay.get("configMapGenerator", ()) for file in each["files"])}:
        (mine / name).write_text("# policies\n")
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    objects = run_kustomize(mine)
    images = {each["name"]: each["image"] for each in get_pod(objects)["containers"]}
    assert images.pop("tallygate") == "registry.example.com/tallygate:0.1.0"
    assert images in ({}, {"relay": "haproxy:2.8"})
    for each in overlay.get("configMapGenerator", ()):
        assert sorted(objects["ConfigMap", each["name"]]["data"]) == sorted(each["files"])


def test_the_overlay_names_objects_of_the_base() -> None:
    first = list_overlays()[0]
    (generator,), (own,) = KUSTOMIZATION["configMapGenerator"], first["configMapGenerator"]
    assert first["images"][0]["name"] == get_container()["image"].partition(":")[0]
    assert (own["name"], own["namespace"]) == (generator["name"], generator["namespace"])


def test_the_patch_of_the_page_excludes_a_namespace() -> None:
    (shown,) = (each for each in list_yaml_blocks(INSTALL) if "patches" in each and "resources" not in each)
    for (kind, _), each in render_overlay(shown).items():
        if kind.endswith("WebhookConfiguration"):
            assert parse_choices(to_typed(each)).exempt_namespaces == ("calico-system",)


def test_the_way_out_of_the_runbook_patches_the_webhooks_that_fail_closed() -> None:
    """Compare with those that the failure policy changes: annotations that set limits fail closed under both."""
    closed, opened = (create_plain_configurations(ServiceTarget(), failure_policy=each) for each in ("Fail", "Ignore"))
    for before, after in zip(closed, opened, strict=True):
        policies = [[each["failurePolicy"] for each in configuration["webhooks"]] for configuration in (before, after)]
        changed = {index for index, (first, second) in enumerate(zip(*policies, strict=True)) if first != second}
        assert {f"/webhooks/{index}/failurePolicy" for index in changed} == find_failure_policy_paths(
            read_text(OPERATE)
        )


def test_the_pages_name_every_annotation_of_the_registration() -> None:
    assert {each.strip("`") for each in read_first_column(INSTALLATION, "| annotation |")} == {
        FAILURE_POLICY_ANNOTATION,
        EXEMPT_ANNOTATION,
        URL_ANNOTATION,
    }


def find_failure_policy_paths(page: str) -> set[str]:
    """Return the paths of failurePolicy that a page names."""
    return set(re.findall(r"/webhooks/\d+/failurePolicy", page))


def read_first_column(page: Path, head: str) -> list[str]:
    """Return the first cell of each row of the table with this head."""
    _, _, rest = read_text(page).partition(head)
    table = rest.split("\n\n")[0].splitlines()[2:]
    return [line.split("|")[1].strip() for line in table]


def test_the_tables_name_every_overlay_and_every_component() -> None:
    named = {re.sub(r".*`(\S+)`.*", r"\1", each) for each in read_first_column(INSTALLATION, "| overlay |")}
    assert named == {path.name for path in (KUSTOMIZE / "overlays").iterdir()} | {BASE.name}
    named = {each.strip("`") for each in read_first_column(INSTALLATION, "| component |")}
    assert named == {path.name for path in COMPONENTS.iterdir()}


def get_replicas(objects: Objects) -> int:
    number: int = objects["Deployment", "tallygate"]["spec"]["replicas"]
    return number


def test_the_table_of_overlays_has_the_replicas_and_the_ledger_store() -> None:
    _, _, rest = read_text(INSTALLATION).partition("| overlay |")
    for line in rest.split("\n\n")[0].splitlines()[2:]:
        name, number, ledgers = (each.strip() for each in line.split("|")[1:4])
        path = KUSTOMIZE / "overlays" / re.sub(r".*`(\S+)`.*", r"\1", name)
        objects = run_kustomize(path) if path.exists() else compose_objects()
        assert int(number[0]) == get_replicas(objects)
        assert ("--ledgers=kubernetes" in get_pod(objects)["containers"][0]["args"]) is (ledgers == "in the cluster")


def test_the_values_of_helm_commands_exist_in_the_chart() -> None:
    given = {
        assignment.partition("=")[0].split(".")[0]
        for page in (INSTALL, INSTALLATION, UPGRADE)
        for found in re.findall(r"--set (\S+)", read_text(page))
        for assignment in found.strip("`").split(",")
    }
    assert given == {"image"}
    assert given <= set(yaml.safe_load((CHART / "values.yaml").read_text()))
    assert create_helm_command({})
