"""The manifests of deploy/kustomize/base, read."""

from typing import Any

import yaml

from tests.deploy.generate import BASE

KUSTOMIZATION: dict[str, Any] = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))


def manifests() -> list[dict[str, Any]]:
    """Every object of the files that the kustomization lists."""
    return [
        document
        for name in KUSTOMIZATION["resources"]
        for document in yaml.safe_load_all((BASE / name).read_text(encoding="utf-8"))
    ]


def manifest(kind: str) -> dict[str, Any]:
    """The one object of this kind."""
    (found,) = (each for each in manifests() if each["kind"] == kind)
    return found


def pod_template() -> dict[str, Any]:
    """The template of the gate's pod."""
    template: dict[str, Any] = manifest("Deployment")["spec"]["template"]
    return template


def container() -> dict[str, Any]:
    """Its one container."""
    (found,) = pod_template()["spec"]["containers"]
    return dict(found)


def port(name: str) -> int:
    """The container's port of this name."""
    (found,) = (each for each in container()["ports"] if each["name"] == name)
    return int(found["containerPort"])
