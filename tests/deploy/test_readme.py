"""deploy/README.md: what it tells people to type and to write is right."""

import re
import shlex
import textwrap
from typing import Any

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


def overlays() -> tuple[dict[str, Any], dict[str, Any]]:
    """What is shown of an overlay: the beginning of one, and a patch."""
    begun, patched = (
        yaml.safe_load(textwrap.dedent(text))
        for text in re.findall(r"^ *```yaml\n(.*?)```", PAGES[0], re.DOTALL | re.MULTILINE)
    )
    return begun, patched


def test_the_overlay_speaks_of_what_the_base_has() -> None:
    overlay, _ = overlays()
    (generator,), (own,) = KUSTOMIZATION["configMapGenerator"], overlay["configMapGenerator"]
    assert overlay["resources"] == [f"../{BASE.name}"]
    assert overlay["images"][0]["name"] == container()["image"].partition(":")[0]
    assert (own["name"], own["namespace"]) == (generator["name"], generator["namespace"])


def test_the_patches_meet_the_webhooks_for_objects() -> None:
    """By their place in the list, as kustomize has it."""
    _, overlay = overlays()
    (patch,) = overlay["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert "/webhooks/0/failurePolicy" in PAGES[0]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found: Any = manifest(kind)
        assert found["apiVersion"].startswith(f"{patch['target']['group']}/")
        assert found["webhooks"][0]["failurePolicy"] == "Fail"
        *steps, last = operation["path"].strip("/").split("/")
        for step in steps:
            found = found[int(step)] if isinstance(found, list) else found[step]
        assert (last, found) == ("-", ["kube-system", "tallygate-system"])
