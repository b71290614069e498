"""Helm as a program: built once from `e2e/helm/go.mod`, and kept where the control plane is (`e2e.local.build`)."""

import re
from pathlib import Path
from typing import Final

from e2e.go_program import GoProgram

_SOURCE: Final = Path(__file__).parent
_MODULE: Final = "helm.sh/helm/v3"


def find_built_helm() -> Path | None:
    """Return its path, if it was built from these versions before."""
    return _helm().find_built()


def helm() -> Path:
    """Return the path of the program; build it if it is missing: some minutes on a cold machine.

    Raises:
        BuildError: if there is no Go here, or the build fails.
    """
    return _helm().program()


def _helm() -> GoProgram:
    """Return the program with the Kubernetes version that it assumes without a cluster (Helm's Makefile, v3.22)."""
    found = re.search(r"k8s\.io/client-go v0\.(\d+)\.", (_SOURCE / "go.mod").read_text())
    minor = "" if found is None else found[1]
    packages = (f"{_MODULE}/pkg/chartutil", f"{_MODULE}/pkg/lint/rules")
    version = {"k8sVersionMajor": "1", "k8sVersionMinor": minor}
    values = tuple((f"{package}.{name}", value) for package in packages for name, value in version.items())
    return GoProgram("helm", "Helm", f"{_MODULE}/cmd/helm", _SOURCE, values=values)
