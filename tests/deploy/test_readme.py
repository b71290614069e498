"""deploy/README.md: what it tells people to type and to write is right."""

import re
import shlex

import click
import yaml

from tests.deploy.generate import BASE, ROOT
from tests.deploy.manifests import KUSTOMIZATION, container, manifest, manifests, pod_template
from webhook.cli.app import root

PAGES = [(ROOT / name).read_text(encoding="utf-8") for name in ("deploy/README.md", "README.md")]


def lines(page: str) -> list[str]:
    """Every command in a page, continued lines put together and joined ones taken apart."""
    blocks = re.findall(r"```console\n(.*?)```", page.replace("\\\n", " "), re.DOTALL)
    shown = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [part.strip() for line in shown for part in re.split(r"&&|\|", line)]


def test_both_pages_install_in_the_same_way() -> None:
    steps = lines(PAGES[0])
    first = steps.index("tallygate certs issue certs.d/ --service tallygate-system/tallygate")
    last = steps.index("tallygate certs publish certs.d/", first)
    assert "\n".join(steps[first : last + 1]) in "\n".join(lines(PAGES[1]))


def test_the_commands_of_tallygate_are_ones() -> None:
    """Click takes them; that they do what they say is shown in e2e."""
    typed = [shlex.split(line) for line in lines(PAGES[0]) if line.startswith("tallygate ")]
    assert len(typed) == 4
    for _, group, name, *rest in typed:
        certs = root.get_command(click.Context(root), group)
        assert isinstance(certs, click.Group)
        command = certs.get_command(click.Context(certs), name)
        assert command is not None
        with command.make_context(name, rest):
            pass


def test_the_secret_is_the_one_that_the_pod_mounts() -> None:
    mounted = {each["secret"]["secretName"] for each in pod_template()["spec"]["volumes"] if "secret" in each}
    made = {found for page in PAGES for found in re.findall(r"create secret tls (\S+) ", page)}
    assert made == mounted


def test_what_kubectl_is_given_is_there() -> None:
    (selector,) = {found for page in PAGES for found in re.findall(r"--selector (\S+)", page)}
    key, _, value = selector.partition("=")
    chosen = {each["kind"] for each in manifests() if each["metadata"]["labels"].get(key) == value}
    assert chosen == {each["kind"] for each in manifests() if not each["kind"].endswith("WebhookConfiguration")}
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    assert generator["options"]["labels"][key] == value
    assert f"deployment/{manifest('Deployment')['metadata']['name']}" in PAGES[0]
    assert all((ROOT / path).exists() for path in re.findall(r"apply -f (deploy\S+)", PAGES[0]))


def test_the_overlay_speaks_of_what_the_base_has() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGES[0], re.DOTALL)
    overlay = yaml.safe_load(text)
    (generator,), (own,) = KUSTOMIZATION["configMapGenerator"], overlay["configMapGenerator"]
    assert overlay["resources"] == [f"../{BASE.name}"]
    assert overlay["images"][0]["name"] == container()["image"].partition(":")[0]
    assert (own["name"], own["namespace"]) == (generator["name"], generator["namespace"])
