"""The Dockerfile fits the Deployment and the wheel; e2e builds and runs it where a container engine exists."""

import json
import tomllib

from tests.deploy.generate import ROOT
from tests.deploy.manifests import get_container, get_pod_template

LINES = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def list_instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of this name."""
    return [line.removeprefix(f"{name} ").strip() for line in LINES if line.startswith(f"{name} ")]


def test_it_runs_the_command_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (entry,) = list_instructions("ENTRYPOINT")
    (command,) = list_instructions("CMD")
    assert list(project["scripts"])[:1] == json.loads(entry)
    assert get_container()["args"][:1] == json.loads(command)


def test_it_runs_as_the_deployments_user() -> None:
    (user,) = list_instructions("USER")
    context = get_pod_template()["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["fsGroup"] == context["runAsGroup"]


def test_it_exposes_the_ports() -> None:
    (ports,) = list_instructions("EXPOSE")
    assert [int(each) for each in ports.split()] == [each["containerPort"] for each in get_container()["ports"]]


def test_it_fetches_nothing() -> None:
    """Accept any base image, and install packages from the folder of wheels only."""
    bases = list_instructions("FROM")
    assert all(base.startswith("${BASE}") for base in bases)
    assert len(bases) == 2
    installs = [line for line in list_instructions("RUN") if "install" in line]
    assert installs
    assert all("--no-index --find-links /wheels" in line for line in installs)
    assert all("'tallygate[server,device-plugin]'" in line for line in installs)


def test_it_needs_nothing_but_the_classic_builder() -> None:
    assert not any(line.startswith("# syntax") or " <<" in line or "--mount" in line for line in LINES)
    assert not any(line.startswith("ADD") for line in LINES)


def test_it_leaves_health_checks_to_the_kubelet() -> None:
    assert list_instructions("HEALTHCHECK") == ["NONE"]


def test_it_has_labels_with_title_description_and_license() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (labels,) = list_instructions("LABEL")
    assert f'org.opencontainers.image.title="{project["name"]}"' in labels
    assert f'org.opencontainers.image.description="{project["description"]}"' in labels
    assert f'org.opencontainers.image.licenses="{project["license"]}"' in labels
