"""deploy/helm as a package: Helm lints it, its description is true, its notes can be typed, and its test can run."""

import shlex
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tallygate.cli.app import root
from tallygate.cli.doctor.command import doctor
from tests.deploy.chart_description import ICON, describe_chart
from tests.deploy.container_settings import get_container, get_pod
from tests.deploy.generate import CHART, ROOT
from tests.deploy.release_labels import list_release_labels
from tests.deploy.rendering import RELEASE, find_helm, render_chart, render_chart_test, render_notes

PROJECT: dict[str, Any] = {
    "name": "tallygate",
    "version": "1.2.3",
    "description": "A gate",
    "license": "Apache-2.0",
    "keywords": ["kubernetes"],
}
URLS = {"Homepage": "https://example.com/", "Source": "https://github.com/example/tallygate", "Issues": "https://a.b/c"}
NOTES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "not registered": {"registration": False},
    "with a certificate by hand": {"certificates": "by-hand", "registration": False},
    "on the network of its nodes": {"hostNetwork": True},
}


def run_helm(*arguments: str) -> str:
    """Run Helm and return what it prints."""
    done = subprocess.run([find_helm(), *arguments], capture_output=True, text=True, check=False)  # noqa: S603  built, no shell
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def list_typed_lines(values: dict[str, Any]) -> list[list[str]]:
    """Return the words of each command in the notes."""
    return [shlex.split(line) for line in render_notes(values, "elsewhere").splitlines() if line.startswith("  ")]


def test_helm_lints_the_chart_strictly() -> None:
    output = run_helm("lint", "--strict", str(CHART))
    assert [line for line in output.splitlines() if line.startswith("[")] == []


def test_the_packaged_chart_has_its_readme_and_its_schema(tmp_path: Path) -> None:
    run_helm("package", str(CHART), f"--destination={tmp_path}")
    (package,) = tmp_path.iterdir()
    assert run_helm("show", "readme", str(package)).startswith("# tallygate\n")
    assert RELEASE in run_helm("template", RELEASE, str(package), "--kube-version=1.36.0")


def test_without_addresses_the_description_has_no_home_and_no_icon() -> None:
    described = describe_chart(PROJECT)
    assert described.keys().isdisjoint({"home", "icon", "sources", "maintainers"})
    assert "artifacthub.io/links" not in described["annotations"]


def test_with_addresses_the_description_has_them_and_the_icon_of_the_site() -> None:
    described = describe_chart({**PROJECT, "urls": URLS, "authors": [{"name": "A"}, {"email": "b@example.com"}]})
    assert described["home"] == "https://example.com"
    assert described["sources"] == ["https://github.com/example/tallygate"]
    assert described["maintainers"] == [{"name": "A"}]
    assert described["icon"] == f"https://example.com/{ICON}"
    assert ET.fromstring((CHART / ICON).read_text()).tag.endswith("svg")  # noqa: S314  # ours
    links = yaml.safe_load(described["annotations"]["artifacthub.io/links"])
    assert links == [{"name": "issues", "url": "https://a.b/c"}]


def test_the_definitions_that_the_description_names_are_installed() -> None:
    (named,) = yaml.safe_load(describe_chart(PROJECT)["annotations"]["artifacthub.io/crds"])
    definition = render_chart({})["CustomResourceDefinition", named["name"]]["spec"]
    assert definition["names"]["kind"] == named["kind"]
    assert named["version"] in [each["name"] for each in definition["versions"]]


@pytest.mark.parametrize("values", NOTES.values(), ids=NOTES)
def test_the_commands_of_the_notes_can_be_typed_as_they_are(values: dict[str, Any]) -> None:
    lines = list_typed_lines(values)
    assert ["helm", "test", RELEASE, "-n", "elsewhere"] in lines
    for program, *words in lines:
        assert program in {"helm", "kubectl", "tallygate"}
        assert not any(character in word for word in words for character in "<>…$")
        for word in words:
            assert not word.startswith("deploy/") or (ROOT / word).exists()
        if program == "tallygate":
            parse_command(words)
        elif program == "kubectl":
            assert "elsewhere" in words or "validatingwebhookconfiguration/tallygate" in words  # which has no namespace


def parse_command(words: list[str]) -> None:
    """Parse a command of tallygate as its command line does."""
    command: click.Command = root
    context = click.Context(root)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    arguments = [str(ROOT) if word.endswith(".d/") else word for word in words]
    with command.make_context("typed", arguments):
        pass


def test_the_notes_name_what_the_values_leave_to_the_user() -> None:
    assert "certs issue" not in render_notes({})
    assert "certs publish certs.d/" in render_notes(NOTES["with a certificate by hand"])
    assert "--set registration=true" in render_notes({"registration": False})
    assert "enforce=privileged" in render_notes({"hostNetwork": True})


def test_the_test_is_deleted_with_its_permissions_and_has_no_label_that_selects_the_gate() -> None:
    objects = render_chart_test({})
    gate = render_chart({})
    assert not set(objects) & set(gate)
    for each in objects.values():
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "test"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
        expected = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "test"}
        assert each["metadata"]["labels"] == expected | list_release_labels()
        assert annotations.get("helm.sh/hook-weight", "0") == ("0" if each["kind"] == "Pod" else "-1")


def test_the_test_runs_doctor_with_the_image_and_the_restrictions_of_the_gate() -> None:
    values = {
        "image.repository": "registry.example.com/tallygate",
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"operator": "Exists"}],
    }
    pod = render_chart_test(values, "elsewhere")["Pod", "tallygate-test"]["spec"]
    (container,) = pod["containers"]
    chart = render_chart(values)
    name, *arguments = container["args"]
    assert name == doctor.name
    params = doctor.make_context(name, arguments).params
    assert (params["in_cluster"], params["namespace"]) == (True, "elsewhere")
    for same in ("image", "imagePullPolicy", "securityContext"):
        assert container[same] == get_container(chart)[same]
    for same in ("imagePullSecrets", "tolerations", "nodeSelector", "securityContext"):
        assert pod[same] == get_pod(chart)[same]


def test_the_permissions_of_the_test_are_bound_to_it_only_and_have_a_reason() -> None:
    objects = render_chart_test({}, "elsewhere")
    account = {"kind": "ServiceAccount", "name": "tallygate-test", "namespace": "elsewhere"}
    bindings = [each for (kind, _), each in objects.items() if kind.endswith("Binding")]
    assert len(bindings) == 3
    for each in bindings:
        assert each["subjects"] == [account]
        assert (each["roleRef"]["kind"], each["roleRef"]["name"]) in objects
    lines = (CHART / "templates" / "tests" / "rbac.yaml").read_text().splitlines()
    verbs = [index for index, line in enumerate(lines) if line.lstrip().startswith("verbs:")]
    assert all(lines[index - 1].lstrip().startswith("# ") for index in verbs)
    writes = [rule for each in objects.values() for rule in each.get("rules", ()) if "create" in rule["verbs"]]
    assert [(rule["resources"], rule["verbs"]) for rule in writes] == [
        (["subjectaccessreviews"], ["create"]),
        (["pods"], ["create"]),
    ]
