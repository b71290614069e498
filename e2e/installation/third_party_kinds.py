"""Kinds of other projects: definitions of cert-manager and the Prometheus operator, from their modules.

They are installed without what would act on them: it is about what an API server makes of our objects.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.command_output import run_kubectl
from e2e.definitions import apply_definitions
from e2e.errors import BuildError
from e2e.ports import Cluster

CERT_MANAGER_MODULE: Final = "github.com/cert-manager/cert-manager@v1.21.2"
"""The version that e2e/cert_manager/go.mod names too."""

_PROMETHEUS: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_FILES: Final = {
    CERT_MANAGER_MODULE: ("deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"),
    _PROMETHEUS: tuple(
        f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}.yaml"
        for kind in ("servicemonitors", "prometheusrules")
    ),
}


@contextmanager
def install_foreign_kinds(cluster: Cluster) -> Iterator[None]:
    """Install them for as long as the block runs.

    Raises:
        BuildError: if there is no Go here, or a module cannot be had.
        ClusterError: if the API server refuses one; the text is kubectl's.
    """
    with install_kinds(cluster, [module_folder(module) / name for module, names in _FILES.items() for name in names]):
        yield


@contextmanager
def install_kinds(cluster: Cluster, definitions: Iterable[Path]) -> Iterator[None]:
    """Install what these files define for as long as the block runs.

    Raises:
        ClusterError: if the API server refuses one; the text is kubectl's.
    """
    files = [*definitions]
    try:
        apply_definitions(cluster, files, "--server-side")
        yield
    finally:
        run_kubectl(cluster, "delete", "--ignore-not-found", *(f"--filename={file}" for file in files))


def module_folder(module: str) -> Path:
    """Return the folder of a Go module of a version on this machine.

    Raises:
        BuildError: if there is no Go here, or it cannot be had.
    """
    go = shutil.which("go")
    if go is None:
        raise BuildError("the kinds of cert-manager come from its Go module, and there is no `go` on PATH")
    done = subprocess.run([go, "mod", "download", "-json", module], capture_output=True, text=True, check=False)  # noqa: S603  no shell
    if done.returncode:
        raise BuildError(f"{module} cannot be had; Go says: {(done.stdout + done.stderr).strip()}")
    return Path(json.loads(done.stdout)["Dir"])
