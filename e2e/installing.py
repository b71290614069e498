"""The shipped manifests installed in a cluster, without the registration: cases run without the gate first."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from e2e.command_output import run_kubectl
from e2e.ports import Cluster
from tallygate.admission.webhook_configuration import ServiceTarget

_ROOT = Path(__file__).parents[1]
_BASE = _ROOT / "deploy" / "kustomize" / "base"
_REGISTRATIONS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Installed:
    """What the manifests are called by: the gate's Deployment and its Service, and what its files come from."""

    deployment: str
    service: ServiceTarget
    pods: Mapping[str, str]
    policies: str
    certificates: str

    @property
    def namespace(self) -> str:
        """Where all of it is."""
        return self.service.namespace


def install(cluster: Cluster, image: str) -> Installed:
    """Install them with this image and without a running gate.

    Raises:
        ClusterError: if they cannot be rendered, or the API server refuses them; the text is kubectl's.
    """
    objects = _render(cluster, image)
    run_kubectl(cluster, "apply", "--server-side", "--filename=-", stdin=_list(objects))
    return _find_names(objects)


@contextmanager
def install_temporarily(cluster: Cluster, image: str) -> Iterator[Installed]:
    """Install them for as long as the block runs.

    Raises:
        ClusterError: if they cannot be rendered, or the API server refuses something; the text is kubectl's.
    """
    try:
        yield install(cluster, image)
    finally:
        manifest = _list(_render(cluster, image))
        run_kubectl(cluster, "delete", "--ignore-not-found", "--timeout=120s", "--filename=-", stdin=manifest)


def _list(objects: list[Object]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _render(cluster: Cluster, image: str) -> list[Object]:
    """Return the manifests with this image, through an overlay as a user would write it."""
    with TemporaryDirectory(prefix="tallygate-overlay-") as folder:
        overlay = Path(folder).resolve()
        own = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [os.path.relpath(_BASE, overlay)],  # kustomize takes no absolute path
            "images": [{"name": "tallygate", **image_parts(image)}],
            "replicas": [{"name": "tallygate", "count": 0}],
        }
        (overlay / "kustomization.yaml").write_text(json.dumps(own))  # JSON is YAML too
        text = run_kubectl(cluster, "kustomize", str(overlay))
    return [each for each in yaml.safe_load_all(text) if each["kind"] not in _REGISTRATIONS]


def image_parts(image: str) -> dict[str, str]:
    """Return the parts of an image as kustomize names them; a colon before a slash is a registry's port."""
    name, at, digest = image.partition("@")
    if at:
        return {"newName": name, "digest": digest}
    head, colon, tag = name.rpartition(":")
    return {"newName": head, "newTag": tag} if colon and "/" not in tag else {"newName": name, "newTag": "latest"}


def _find_names(objects: list[Object]) -> Installed:
    deployment, service = _only(objects, "Deployment"), _only(objects, "Service")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (policies,) = (each["configMap"]["name"] for each in volumes if "configMap" in each)
    (certificates,) = (each["secret"]["secretName"] for each in volumes if "secret" in each)
    return Installed(
        deployment=deployment["metadata"]["name"],
        service=ServiceTarget(**{key: service["metadata"][key] for key in ("namespace", "name")}),
        pods=deployment["spec"]["selector"]["matchLabels"],
        policies=policies,
        certificates=certificates,
    )


def _only(objects: list[Object], kind: str) -> Object:
    (one,) = (each for each in objects if each["kind"] == kind)
    return one
