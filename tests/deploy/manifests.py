"""The manifests of deploy/kustomize/base, read."""

from typing import Any

import yaml

from tests.deploy.generate import BASE

KUSTOMIZATION: dict[str, Any] = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))


def list_manifests() -> list[dict[str, Any]]:
    """Return every object of the files that the kustomization lists."""
    return [
        document
        for name in KUSTOMIZATION["resources"]
        for document in yaml.safe_load_all((BASE / name).read_text(encoding="utf-8"))
    ]


def get_manifest(kind: str) -> dict[str, Any]:
    """Return the one object of this kind."""
    (found,) = (each for each in list_manifests() if each["kind"] == kind)
    return found


def get_pod_template() -> dict[str, Any]:
    """Return the template of the gate's pod."""
    template: dict[str, Any] = get_manifest("Deployment")["spec"]["template"]
    return template


def get_container() -> dict[str, Any]:
    """Return the one container of the gate's pod."""
    (found,) = get_pod_template()["spec"]["containers"]
    return dict(found)


def get_port(name: str) -> int:
    """Return the container's port of this name."""
    (found,) = (each for each in get_container()["ports"] if each["name"] == name)
    return int(found["containerPort"])
