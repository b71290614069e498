"""The pages about installing: what they tell people to type and to write is right."""

import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tests.deploy.generate import BASE, CHART, COMPONENTS, KUSTOMIZE, ROOT
from tests.deploy.manifests import KUSTOMIZATION, container, manifest, manifests, pod_template
from tests.deploy.rendered import Objects, composed, helm_template, kustomized
from tests.deploy.started import pod
from webhook.cli.app import root

INSTALL, UPGRADE, DEPLOY, FRONT = PAGES = [
    ROOT / name for name in ("docs/install.md", "docs/upgrade.md", "deploy/README.md", "README.md")
]
OPERATE = ROOT / "docs/operate.md"
STEPS = """\
kubectl apply -f deploy/kustomize/base/namespace.yaml
kubectl apply -k deploy/kustomize/mine --selector app.kubernetes.io/component=gate
kubectl -n tallygate-system rollout status deployment/tallygate
kubectl apply -k deploy/kustomize/mine"""


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def lines(page: Path) -> list[str]:
    """Every command in a page, continued lines put together and joined ones taken apart."""
    blocks = re.findall(r"```console\n(.*?)```", text(page).replace("\\\n", " "), re.DOTALL)
    shown = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [part.strip() for line in shown for part in re.split(r"&&|\|", line)]


def shown(page: Path) -> list[dict[str, Any]]:
    """Every piece of YAML in a page."""
    found = re.findall(r"^ *```yaml\n(.*?)```", text(page), re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(textwrap.dedent(each)) for each in found]


@pytest.mark.parametrize("page", [INSTALL, DEPLOY, FRONT], ids=lambda page: page.name)
def test_all_pages_install_in_the_same_way(page: Path) -> None:
    assert STEPS in "\n".join(lines(page))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_commands_of_tallygate_are_ones(page: Path) -> None:
    """Click takes them; that they do what they say is shown in e2e."""
    for line in lines(page):
        if not line.startswith("tallygate ") or ".yaml" in line or ".json" in line or "check" in line:
            continue  # those of files that are only there in an example
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
def test_the_paths_are_there(page: Path) -> None:
    for path in re.findall(r"(?<![\w/])deploy/[\w./-]*\w", "\n".join(lines(page))):
        mine = Path(path) == Path("deploy/kustomize/mine") or path == "deploy/wheels"  # the reader's own
        assert mine or (ROOT / path).exists(), path


def test_the_secret_is_the_one_that_the_pod_mounts() -> None:
    mounted = {each["secret"]["secretName"] for each in pod_template()["spec"]["volumes"] if "secret" in each}
    made = {found for page in PAGES for found in re.findall(r"create secret \w+ (\S+) ", text(page))}
    assert made == mounted


def test_what_the_selectors_choose_is_everything_but_the_registration() -> None:
    chosen = {found for page in PAGES for found in re.findall(r"apply -k \S+ --selector (\S+)", text(page))}
    assert chosen == {"app.kubernetes.io/component=gate", "app.kubernetes.io/component=registration"}
    for each in manifests():
        component = each["metadata"]["labels"]["app.kubernetes.io/component"]
        assert component == ("registration" if each["kind"].endswith("WebhookConfiguration") else "gate")
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    assert generator["options"]["labels"]["app.kubernetes.io/component"] == "gate"


def overlays() -> list[dict[str, Any]]:
    """What is shown of overlays: those that begin with resources."""
    return [each for page in (INSTALL, DEPLOY) for each in shown(page) if "resources" in each]


@pytest.mark.parametrize("overlay", overlays(), ids=lambda overlay: str(overlay["resources"]))
def test_an_overlay_of_a_page_renders(overlay: dict[str, Any], tmp_path: Path) -> None:
    """As it stands, in a folder of its own beside the others."""
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
    objects = kustomized(mine)
    for made in pod(objects)["containers"]:
        assert made["image"] == "registry.example.com/tallygate:0.1.0"
    for each in overlay.get("configMapGenerator", ()):
        assert sorted(objects["ConfigMap", each["name"]]["data"]) == sorted(each["files"])


def test_the_overlay_speaks_of_what_the_base_has() -> None:
    first = overlays()[0]
    (generator,), (own,) = KUSTOMIZATION["configMapGenerator"], first["configMapGenerator"]
    assert first["images"][0]["name"] == container()["image"].partition(":")[0]
    assert (own["name"], own["namespace"]) == (generator["name"], generator["namespace"])


def test_the_patches_meet_the_webhooks_for_objects() -> None:
    """By their place in the list, as kustomize has it."""
    (overlay,) = (each for each in shown(INSTALL) if "patches" in each and "resources" not in each)
    (patch,) = overlay["patches"]
    operations = yaml.safe_load(patch["patch"])
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found: Any = manifest(kind)
        assert found["apiVersion"].startswith(f"{patch['target']['group']}/")
        failing = [index for index, each in enumerate(found["webhooks"]) if each["failurePolicy"] == "Fail"]
        assert {f"/webhooks/{index}/failurePolicy" for index in failing} == mentioned(text(INSTALL))
        assert {f"/webhooks/{index}/failurePolicy" for index in failing} == mentioned(text(OPERATE))
        met = {operation["path"].removesuffix("/-"): at(found, operation["path"]) for operation in operations}
        assert met == {
            f"/webhooks/{index}/namespaceSelector/matchExpressions/0/values": ["kube-system", "tallygate-system"]
            for index in failing
        }


def mentioned(page: str) -> set[str]:
    """The paths of failurePolicy that a page names."""
    return set(re.findall(r"/webhooks/\d+/failurePolicy", page))


def at(found: Any, path: str) -> Any:
    """What a JSON patch that adds to a list adds to."""
    *steps, last = path.strip("/").split("/")
    assert last == "-"
    for step in steps:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def rows(page: Path, head: str) -> list[str]:
    """The first cell of each row of the table that begins so."""
    _, _, rest = text(page).partition(head)
    table = rest.split("\n\n")[0].splitlines()[2:]
    return [line.split("|")[1].strip() for line in table]


def test_the_tables_name_every_overlay_and_every_component() -> None:
    named = {re.sub(r".*`(\S+)`.*", r"\1", each) for each in rows(INSTALL, "| overlay |")}
    assert named == {path.name for path in (KUSTOMIZE / "overlays").iterdir()} | {BASE.name}
    named = {each.strip("`") for each in rows(INSTALL, "| component |")}
    assert named == {path.name for path in COMPONENTS.iterdir()}


def replicas(objects: Objects) -> int:
    number: int = objects["Deployment", "tallygate"]["spec"]["replicas"]
    return number


def test_the_table_of_overlays_says_how_many_replicas_and_where_caps_are_kept() -> None:
    _, _, rest = text(INSTALL).partition("| overlay |")
    for line in rest.split("\n\n")[0].splitlines()[2:]:
        name, number, kept = (each.strip() for each in line.split("|")[1:4])
        path = KUSTOMIZE / "overlays" / re.sub(r".*`(\S+)`.*", r"\1", name)
        objects = kustomized(path) if path.exists() else composed()
        assert int(number[0]) == replicas(objects)
        assert ("--ledgers=kubernetes" in pod(objects)["containers"][0]["args"]) is (kept == "in the cluster")


def test_the_chart_is_called_by_values_that_it_has() -> None:
    given = {
        assignment.partition("=")[0].split(".")[0]
        for page in (INSTALL, UPGRADE)
        for found in re.findall(r"--set (\S+)", text(page))
        for assignment in found.strip("`").split(",")
    }
    assert given == {"registration", "image"}
    assert given <= set(yaml.safe_load((CHART / "values.yaml").read_text()))
    assert helm_template({})
