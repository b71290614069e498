"""The labels of a release, which the chart's objects have and kustomize's do not."""

from copy import deepcopy
from typing import Any

import yaml

from tests.deploy.generate import CHART
from tests.deploy.rendering import RELEASE, Object, Objects

_DESCRIPTION: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))


def list_release_labels(tag: str = "") -> dict[str, str]:
    """Return the labels for a value of `image.tag`."""
    return {
        "helm.sh/chart": f"{_DESCRIPTION['name']}-{_DESCRIPTION['version']}",
        "app.kubernetes.io/instance": RELEASE,
        "app.kubernetes.io/version": tag or _DESCRIPTION["appVersion"],
        "app.kubernetes.io/managed-by": "Helm",
    }


def remove_release_labels(objects: Objects, tag: str = "") -> Objects:
    """Return the objects without these labels, which every object and the gate's pod must have."""
    bare = deepcopy(objects)
    for (kind, name), each in bare.items():
        _remove(each, f"{kind} {name}", list_release_labels(tag))
        if kind == "Deployment":
            _remove(each["spec"]["template"], "the gate's pod", list_release_labels(tag))
    return bare


def _remove(labelled: Object, name: str, expected: dict[str, str]) -> None:
    labels = labelled["metadata"]["labels"]
    assert {key: labels.pop(key, None) for key in expected} == expected, name
