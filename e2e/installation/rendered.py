"""Overlays and the chart as objects: what `kubectl apply -k` and `helm install` would send."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from e2e.errors import ClusterError
from e2e.helm.build import helm
from e2e.ports import Cluster

Object = dict[str, Any]

KUSTOMIZE: Final = Path(__file__).parents[2] / "deploy" / "kustomize"
CHART: Final = KUSTOMIZE.parent / "helm" / "tallygate"
OVERLAYS: Final = tuple(sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir()))

_HELM_WITHIN = 600.0  # seconds; it waits for pods, and a busy machine is slow
_REGISTRATIONS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})


def render_overlay(cluster: Cluster, name: str) -> list[Object]:
    """Return the objects of an overlay.

    Raises:
        ClusterError: if it cannot be rendered; the text is kubectl's.
    """
    return _run_kustomize(cluster, KUSTOMIZE / "overlays" / name)


def render_own_overlay(
    cluster: Cluster, resource: Path, more: Mapping[str, Any], components: Iterable[str] = ()
) -> list[Object]:
    """Return the objects of an overlay as a user would write it over `resource`, with components by name.

    Raises:
        ClusterError: if it cannot be rendered; the text is kubectl's.
    """
    with TemporaryDirectory(prefix="tallygate-overlay-") as name:
        folder = Path(name).resolve()
        own = {
            **more,
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(resource, folder)],  # kustomize takes no absolute path
            "components": [os.path.relpath(KUSTOMIZE / "components" / each, folder) for each in components],
        }
        (folder / "kustomization.yaml").write_text(json.dumps(own))  # JSON is YAML too
        return _run_kustomize(cluster, folder)


def run_helm(cluster: Cluster, *args: str) -> str:
    """Run Helm as administrator, and return what it prints.

    Raises:
        BuildError: if there is no Helm here, and it cannot be built.
        ClusterError: if it fails; the text is its own.
    """
    environment = {**os.environ, **cluster.environment, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(  # noqa: S603  built from its module, and no shell
        [str(helm()), *args], capture_output=True, text=True, check=False, timeout=_HELM_WITHIN, env=environment
    )
    if done.returncode:
        raise ClusterError(f"helm {args[0]}: {done.stderr.strip()}")
    return done.stdout


def is_registration(each: Object) -> bool:
    """Return whether it is one of the two webhook configurations."""
    return each["kind"] in _REGISTRATIONS


def to_list(objects: Iterable[Object]) -> str:
    """Return the objects as one manifest."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def _run_kustomize(cluster: Cluster, folder: Path) -> list[Object]:
    done = cluster.kubectl("kustomize", str(folder))
    if done.returncode:
        raise ClusterError(f"kubectl kustomize: {done.stderr.strip()}")
    return [each for each in yaml.safe_load_all(done.stdout) if each is not None]
