"""deploy/helm: the chart installs the objects of the kustomize components, with the labels of its release."""

import itertools
import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.deploy.generate import CHART, INSTALLATION, KUSTOMIZE
from tests.deploy.release_labels import remove_release_labels
from tests.deploy.rendering import (
    Objects,
    compose_objects,
    create_helm_command,
    render_chart,
    render_overlay,
    run_kustomize,
)

NAMESPACE = (
    "Namespace",
    "tallygate-system",
)  # Helm's user names it: no chart can have the one that it is installed into
TAG = "latest"  # of the image in the base; the chart's own is its appVersion
SIZES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "standalone": ({"replicas": 1, "ledgers": "memory"}, []),
    "one replica": ({"replicas": 1}, ["cluster-access"]),
    "ha": ({}, ["ha"]),
}
CERTIFICATES = {"by-hand": [], "self-signed": ["self-signed"], "cert-manager": ["cert-manager"]}
EXTRAS = {
    "network": ["networkPolicy"],
    "flow-control": ["flowControl"],
    "monitoring": ["serviceMonitor", "prometheusRule"],
    "dashboard": ["dashboard"],
}
"""The values that a component is in the chart."""


def enable(*components: str) -> dict[str, Any]:
    """Return the values of the extras: only these components."""
    return {f"{value}.enabled": name in components for name, values in EXTRAS.items() for value in values}


BARE = enable()
DEFAULTS = enable("network", "flow-control")
SMALLEST = {**BARE, "replicas": 1, "ledgers": "memory", "certificates": "by-hand"}
"""The base of kustomize."""
OVERLAYS: dict[str, dict[str, Any]] = {
    "standalone": BARE | SIZES["standalone"][0],
    "ha": {},
    "available": {"profile": "available"},
    "cert-manager": {"certificates": "cert-manager"},
}
COMBINATIONS = list(itertools.product(SIZES, CERTIFICATES))
TOKEN = "0123456789abcdef"  # noqa: S105  an example


def assert_equal_objects(values: Mapping[str, Any], kustomize: Objects) -> None:
    """Compare the chart with these values object by object, so that a failure shows the difference."""
    chart = remove_release_labels(render_chart({**values, "image.tag": TAG}), TAG)
    expected = {key: each for key, each in kustomize.items() if key != NAMESPACE}
    assert sorted(chart) == sorted(expected)
    for key, each in expected.items():
        assert chart[key] == each


def test_every_overlay_has_its_values() -> None:
    assert {path.name for path in (KUSTOMIZE / "overlays").iterdir()} == set(OVERLAYS)


def test_the_page_has_the_values_of_each_overlay_but_the_default() -> None:
    _, _, rest = INSTALLATION.read_text(encoding="utf-8").partition("| overlay | values |")
    rows = re.findall(r"^\| `(\S+)` \| `(\S+)` \|$", rest.split("\n\n")[0], re.MULTILINE)
    read = {name: dict(each.split("=") for each in values.split(",")) for name, values in rows}
    values = {name: each for name, each in OVERLAYS.items() if each}
    assert set(read) == set(values)
    for name, each in read.items():
        plain = {value: yaml.safe_load(text) for value, text in each.items()}
        assert plain == {value: given for value, given in values[name].items() if given != DEFAULTS.get(value)}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_renders_the_objects_of_an_overlay(overlay: str) -> None:
    assert_equal_objects(OVERLAYS[overlay], run_kustomize(KUSTOMIZE / "overlays" / overlay))


@pytest.mark.parametrize(("size", "certificates"), COMBINATIONS)
def test_replicas_ledgers_and_certificates_combine_freely(size: str, certificates: str) -> None:
    values, components = SIZES[size]
    composed = compose_objects(*components, *CERTIFICATES[certificates])
    assert_equal_objects(BARE | values | {"certificates": certificates}, composed)


@pytest.mark.parametrize(("size", "certificates"), COMBINATIONS)
def test_a_relay_combines_with_each_of_them_and_with_every_extra(size: str, certificates: str) -> None:
    values, components = SIZES[size]
    selected = values | {"certificates": certificates, "relay.enabled": True}
    composed = [*components, *CERTIFICATES[certificates]]
    assert_equal_objects(BARE | selected, compose_objects(*composed, "relay"))
    assert_equal_objects(enable(*EXTRAS) | selected, compose_objects(*composed, *EXTRAS, "relay"))


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_the_component_of_its_name(extra: str) -> None:
    assert_equal_objects(SMALLEST | enable(extra), compose_objects(extra))


def test_an_audit_is_the_component_of_its_name_on_top_of_cluster_access() -> None:
    values = BARE | {"replicas": 1, "certificates": "by-hand", "audit.enabled": True}
    assert_equal_objects(values, compose_objects("cluster-access", "audit"))


def test_a_publisher_is_the_component_of_its_name_on_top_of_cluster_access() -> None:
    values = BARE | {"replicas": 1, "certificates": "by-hand", "publishNodes.enabled": True}
    assert_equal_objects(values, compose_objects("cluster-access", "publish-nodes"))


def test_a_backstop_is_the_component_of_its_name_on_top_of_cluster_access() -> None:
    values = BARE | {"replicas": 1, "certificates": "by-hand", "profile": "available", "failurePolicy": "Fail"}
    assert_equal_objects(values, compose_objects("cluster-access", "backstop"))


def test_published_usage_is_the_component_of_its_name_on_top_of_cluster_access() -> None:
    values = BARE | {"replicas": 1, "certificates": "by-hand", "publishUsage": True}
    expected = compose_objects("cluster-access", "publish-usage")
    assert_equal_objects(values, expected)
    labels = expected["ClusterRole", "tallygate-view"]["metadata"]["labels"]
    assert labels.pop("rbac.authorization.k8s.io/aggregate-to-view") == "true"
    assert_equal_objects(values | {"aggregateToView": False}, expected)


def test_receivers_are_the_component_of_that_name_with_or_without_a_network_policy() -> None:
    receivers = [{"name": "platform", "format": "slack", "urlFile": "slack"}]
    values = BARE | {"replicas": 1, "certificates": "by-hand", "notify.receivers": receivers}
    for further, components in (({}, ()), ({"networkPolicy.enabled": True}, ("network",))):
        chart = remove_release_labels(render_chart({**values, **further, "image.tag": TAG}), TAG)
        composed = compose_objects("cluster-access", *components, "notify")
        hashed = next(key for key in composed if key[1].startswith("tallygate-notify-"))
        expected, made = composed.pop(hashed), chart.pop(("ConfigMap", "tallygate-notify"))
        files = (yaml.safe_load(each["data"]["notify.yaml"]) for each in (expected, made))
        assert next(files) == next(files)
        pods = [each["Deployment", "tallygate"]["spec"]["template"] for each in (composed, chart)]
        assert pods[1]["metadata"].pop("annotations").keys() == {"checksum/notify"}
        sources = [pod["spec"]["volumes"][-1]["projected"]["sources"] for pod in pods]
        assert sources[0][0]["configMap"].pop("name") == hashed[1]
        assert sources[1][0]["configMap"].pop("name") == "tallygate-notify"
        composed.pop(NAMESPACE)
        assert chart == composed
        assert (("NetworkPolicy", "tallygate") in chart) is bool(components)


def test_a_token_is_in_its_secret_and_the_gate_registers_it() -> None:
    secret = {
        "name": "tallygate-token",
        "namespace": NAMESPACE[1],
        "literals": [f"token={TOKEN}"],
        "options": {
            "disableNameSuffixHash": True,
            "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"},
        },
    }
    overlay = render_overlay({"components": ["token"], "secretGenerator": [secret]})
    assert_equal_objects(SMALLEST | {"token": TOKEN}, overlay)


def test_in_another_namespace_no_object_names_the_usual_one() -> None:
    everything = enable(*EXTRAS) | {"relay.enabled": True}
    for certificates in CERTIFICATES:
        chart = render_chart(everything | {"certificates": certificates}, namespace="elsewhere")
        assert NAMESPACE[1] not in yaml.safe_dump([each for key, each in chart.items() if key[0] != "ConfigMap"])
        deployment = chart["Deployment", "tallygate"]
        assert deployment["metadata"]["namespace"] == "elsewhere"


def test_before_anything_else_an_uninstall_replaces_both_configurations_by_ones_that_call_no_gate() -> None:
    shown = _run_helm_with_hooks({"certificates": "cert-manager"})
    of_both = [each for each in yaml.safe_load_all(shown) if each["kind"].endswith("WebhookConfiguration")]
    hooks = [each for each in of_both if "helm.sh/hook" in each["metadata"]["annotations"]]
    assert len(of_both) == 2 * len(hooks) == 4
    for hook in hooks:
        annotations = hook["metadata"]["annotations"]
        assert annotations.pop("helm.sh/hook") == "pre-delete"
        assert annotations.pop("helm.sh/hook-delete-policy") == "before-hook-creation,hook-succeeded"
        assert hook in of_both  # all else is equal: `helm template` piped to kubectl applies it too
        assert "webhooks" not in hook


def _run_helm_with_hooks(values: Mapping[str, Any]) -> str:
    command = [*create_helm_command(values), "--show-only=templates/webhooks.yaml"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603  built, no shell


def test_the_selectors_have_no_label_that_changes_with_a_release() -> None:
    """Compare with the component and the name alone: the selector of a Deployment cannot be changed."""
    own = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"}
    chart = render_chart(enable(*EXTRAS))
    assert chart["Deployment", "tallygate"]["spec"]["selector"] == {"matchLabels": own}
    assert chart["PodDisruptionBudget", "tallygate"]["spec"]["selector"] == {"matchLabels": own}
    assert chart["NetworkPolicy", "tallygate"]["spec"]["podSelector"] == {"matchLabels": own}
    for name in ("tallygate", "tallygate-metrics"):
        assert chart["Service", name]["spec"]["selector"] == own


def test_a_tag_that_is_no_label_value_is_shortened_to_one() -> None:
    tag = f"{'a' * 62}-and-more"
    labels = render_chart({"image.tag": tag})["Deployment", "tallygate"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/version"] == "a" * 62


def test_every_file_of_the_chart_is_used() -> None:
    """Find each of `files/` by its name in a template."""
    templates = "".join(path.read_text() for path in (CHART / "templates").glob("*.*"))
    for path in (CHART / "files").iterdir():
        assert f'"{path.stem}"' in templates or f'"files/{path.name}"' in templates, path.name
