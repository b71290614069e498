"""The objects that a user would apply, rendered from deploy/ by kustomize (in kubectl) and Helm."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import yaml

from e2e.helm.build import find_built_helm
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tests.deploy.generate import BASE, CHART, COMPONENTS

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]
"""By kind and name."""

KUBERNETES: Final = "1.36.0"  # what the chart is rendered for
RELEASE: Final = "any"


def run_kustomize(folder: Path) -> Objects:
    """Return the objects of a kustomization."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not on PATH; it has the kustomize that renders deploy/kustomize (e2e renders it too)")
    return _parse_objects(_run([program, "kustomize", str(folder)]))


@cache
def compose_objects(*components: str) -> Objects:
    """Return the objects of the base with these components, through an overlay as a user would write it."""
    return render_overlay({"components": list(components)})


def render_overlay(fields: Mapping[str, Any]) -> Objects:
    """Return the objects of an overlay of the base with these fields; components are given by name."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        overlay = {
            **fields,
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(BASE, folder)],  # kustomize takes no absolute path
            "components": [os.path.relpath(COMPONENTS / each, folder) for each in fields.get("components", ())],
        }
        (folder / "kustomization.yaml").write_text(json.dumps(overlay))  # JSON is YAML too
        return run_kustomize(folder)


def render_chart(values: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE) -> Objects:
    """Return the objects that the chart installs with these values."""
    return _parse_objects(_run_helm(*create_helm_command(values, namespace), "--no-hooks"))


def render_chart_test(values: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE) -> Objects:
    """Return the objects of `helm test` with these values."""
    shown = [f"--show-only=templates/tests/{name}.yaml" for name in ("doctor", "rbac")]
    return _parse_objects(_run_helm(*create_helm_command(values, namespace), *shown))


def render_notes(values: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE) -> str:
    """Return the notes of the chart after an installation: in a copy whose notes are an object, which Helm prints."""
    with TemporaryDirectory() as name:
        chart = Path(name) / CHART.name
        shutil.copytree(CHART, chart)
        notes = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
        template = (
            f'{{{{ define "notes" }}}}{notes}{{{{ end }}}}\nkind: Notes\ntext: {{{{ include "notes" . | quote }}}}\n'
        )
        (chart / "templates" / "notes.yaml").write_text(template, encoding="utf-8")
        output = _run([*create_helm_command(values, namespace, chart), "--show-only=templates/notes.yaml"])
        return str(yaml.safe_load(output)["text"])


def create_helm_command(
    values: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE, chart: Path = CHART
) -> list[str]:
    """Return the command that renders the chart."""
    given = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    own = f"--namespace={namespace}", f"--kube-version={KUBERNETES}"
    return [find_helm(), "template", RELEASE, str(chart), *own, *given]


def find_helm() -> str:
    """Return the path of Helm; skip the test without one."""
    own = find_built_helm()
    program = shutil.which("helm") if own is None else str(own)
    if program is None:
        pytest.skip("Helm is neither built here (python -m e2e.build_programs does) nor on PATH")
    return program


@cache
def _run_helm(*command: str) -> str:
    """Return the output for the chart, whose files do not change meanwhile."""
    return _run(command)


def _parse_objects(text: str) -> Objects:
    read = [each for each in yaml.safe_load_all(text) if each is not None]
    made = {(each["kind"], each["metadata"]["name"]): each for each in read}
    assert len(made) == len(read), "an object occurs twice"
    return made


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  found on PATH or built, no shell
    assert done.returncode == 0, done.stderr
    return done.stdout
