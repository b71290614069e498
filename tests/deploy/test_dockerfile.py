"""The Dockerfile fits the Deployment and the wheel. That it builds and runs is shown in e2e, where an engine is."""

import json
import tomllib

from tests.deploy.generate import ROOT
from tests.deploy.manifests import container, pod_template

LINES = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def instructions(name: str) -> list[str]:
    """What follows each instruction of this name."""
    return [line.removeprefix(f"{name} ").strip() for line in LINES if line.startswith(f"{name} ")]


def test_it_runs_the_command_of_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (entry,) = instructions("ENTRYPOINT")
    (command,) = instructions("CMD")
    assert list(project["scripts"]) == json.loads(entry)
    assert container()["args"][:1] == json.loads(command)


def test_it_runs_as_the_deployments_user() -> None:
    (user,) = instructions("USER")
    context = pod_template()["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["fsGroup"] == context["runAsGroup"]


def test_it_tells_the_ports() -> None:
    (ports,) = instructions("EXPOSE")
    assert [int(each) for each in ports.split()] == [each["containerPort"] for each in container()["ports"]]


def test_it_fetches_nothing() -> None:
    """Any base can be named, and packages come from the folder of wheels alone."""
    bases = instructions("FROM")
    assert all(base.startswith("${BASE}") for base in bases)
    assert len(bases) == 2
    installs = [line for line in instructions("RUN") if "install" in line]
    assert installs
    assert all("--no-index --find-links /wheels" in line for line in installs)


def test_it_needs_nothing_but_the_classic_builder() -> None:
    assert not any(line.startswith("# syntax") or " <<" in line or "--mount" in line for line in LINES)
    assert not any(line.startswith("ADD") for line in LINES)


def test_the_kubelet_alone_asks_whether_it_is_well() -> None:
    assert instructions("HEALTHCHECK") == ["NONE"]


def test_it_says_what_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (labels,) = instructions("LABEL")
    assert f'org.opencontainers.image.title="{project["name"]}"' in labels
    assert f'org.opencontainers.image.description="{project["description"]}"' in labels
    assert f'org.opencontainers.image.licenses="{project["license"]}"' in labels
