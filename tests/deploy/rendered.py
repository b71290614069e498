"""What deploy/ comes to: kustomize (in kubectl) and Helm as they are, asked for the objects that a user would apply."""

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

from e2e.helm.build import built
from tests.deploy.generate import BASE, CHART, COMPONENTS
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]
"""By kind and name."""

KUBERNETES: Final = "1.36.0"  # what the chart is rendered for


def kustomized(folder: Path) -> Objects:
    """The objects of a kustomization."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not on PATH; it has the kustomize that renders deploy/kustomize (e2e renders it too)")
    return _objects(_said([program, "kustomize", str(folder)]))


@cache
def composed(*components: str) -> Objects:
    """The objects of the base with these components, through an overlay as a user would write it."""
    return overlaid({"components": list(components)})


def overlaid(more: Mapping[str, Any]) -> Objects:
    """The objects of an overlay over the base; `more` is what it says, with components by name."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        own = {
            **more,
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(BASE, folder)],  # kustomize takes no absolute path
            "components": [os.path.relpath(COMPONENTS / each, folder) for each in more.get("components", ())],
        }
        (folder / "kustomization.yaml").write_text(json.dumps(own))  # JSON is YAML too
        return kustomized(folder)


def charted(values: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE) -> Objects:
    """The objects of the chart with these values."""
    return _objects(_said(helm_template(values, namespace)))


def helm_template(values: Mapping[str, Any], namespace: str = DEFAULT_NAMESPACE) -> list[str]:
    """The command that renders the chart."""
    own = built()
    program = shutil.which("helm") if own is None else str(own)
    if program is None:
        pytest.skip("Helm is neither built here (python -m e2e.built does) nor on PATH")
    given = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    return [program, "template", "any", str(CHART), f"--namespace={namespace}", f"--kube-version={KUBERNETES}", *given]


def _objects(text: str) -> Objects:
    read = [each for each in yaml.safe_load_all(text) if each is not None]
    made = {(each["kind"], each["metadata"]["name"]): each for each in read}
    assert len(made) == len(read), "an object is there twice"
    return made


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  found on PATH or built, no shell
    assert done.returncode == 0, done.stderr
    return done.stdout
