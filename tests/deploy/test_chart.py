"""deploy/helm: the chart and the kustomize components render the same objects, and invalid values are rejected."""

import itertools
import subprocess
from typing import Any

import pytest
import yaml

from tests.deploy.generate import CHART, KUSTOMIZE
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
SIZES = {"standalone": [], "cluster": ["cluster-access"], "ha": ["ha"]}
CERTIFICATES = {"by-hand": [], "self-signed": ["self-signed"], "cert-manager": ["cert-manager"]}
EXTRAS = {"network": "network", "flowControl": "flow-control", "monitoring": "monitoring", "dashboard": "dashboard"}
BARE: dict[str, Any] = dict.fromkeys(EXTRAS, False)
OVERLAYS: dict[str, dict[str, Any]] = {
    "standalone": BARE | {"size": "standalone"},
    "cluster": BARE | {"size": "cluster", "certificates": "by-hand"},
    "ha": {},
    "cert-manager": {"certificates": "cert-manager"},
}
TOKEN = "0123456789abcdef"  # noqa: S105  an example


def assert_equal_objects(chart: Objects, kustomize: Objects) -> None:
    """Compare object by object, so that a failure shows the difference."""
    expected = {key: each for key, each in kustomize.items() if key != NAMESPACE}
    assert sorted(chart) == sorted(expected)
    for key, each in expected.items():
        assert chart[key] == each


def test_every_overlay_has_its_values() -> None:
    assert {path.name for path in (KUSTOMIZE / "overlays").iterdir()} == set(OVERLAYS)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_renders_the_objects_of_an_overlay(overlay: str) -> None:
    assert_equal_objects(render_chart(OVERLAYS[overlay]), run_kustomize(KUSTOMIZE / "overlays" / overlay))


@pytest.mark.parametrize(("size", "certificates"), list(itertools.product(SIZES, CERTIFICATES)))
def test_sizes_and_certificates_combine_freely(size: str, certificates: str) -> None:
    chart = render_chart(BARE | {"size": size, "certificates": certificates})
    assert_equal_objects(chart, compose_objects(*SIZES[size], *CERTIFICATES[certificates]))


@pytest.mark.parametrize(("size", "certificates"), list(itertools.product(SIZES, CERTIFICATES)))
def test_a_relay_combines_with_each_of_them_and_with_every_extra(size: str, certificates: str) -> None:
    selected = {"size": size, "certificates": certificates, "relay": True}
    components = [*SIZES[size], *CERTIFICATES[certificates]]
    assert_equal_objects(render_chart(BARE | selected), compose_objects(*components, "relay"))
    assert_equal_objects(
        render_chart(dict.fromkeys(EXTRAS, True) | selected), compose_objects(*components, *EXTRAS.values(), "relay")
    )


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_the_component_of_its_name(extra: str) -> None:
    chart = render_chart(BARE | {"size": "standalone", "certificates": "by-hand", extra: True})
    assert_equal_objects(chart, compose_objects(EXTRAS[extra]))


def test_an_audit_is_the_component_of_its_name_on_top_of_cluster_access() -> None:
    chart = render_chart(BARE | {"size": "cluster", "certificates": "by-hand", "auditInterval": "1h"})
    assert_equal_objects(chart, compose_objects("cluster-access", "audit"))


def test_a_token_is_in_the_paths_and_in_its_secret() -> None:
    phases = {"MutatingWebhookConfiguration": "mutate", "ValidatingWebhookConfiguration": "validate"}
    patches = [
        {
            "target": {"kind": kind},
            "patch": yaml.safe_dump(
                [
                    {
                        "op": "replace",
                        "path": f"/webhooks/{index}/clientConfig/service/path",
                        "value": f"/v1/admit/{TOKEN}/{phase}",
                    }
                    for index in range(len(compose_objects()[kind, "tallygate"]["webhooks"]))
                ]
            ),
        }
        for kind, phase in phases.items()
    ]
    secret = {
        "name": "tallygate-token",
        "namespace": NAMESPACE[1],
        "literals": [f"token={TOKEN}"],
        "options": {
            "disableNameSuffixHash": True,
            "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"},
        },
    }
    overlay = render_overlay({"components": ["token"], "secretGenerator": [secret], "patches": patches})
    assert_equal_objects(
        render_chart(BARE | {"size": "standalone", "certificates": "by-hand", "token": TOKEN}), overlay
    )


def test_in_another_namespace_no_object_names_the_usual_one() -> None:
    everything = {**dict.fromkeys(EXTRAS, True), "relay": True}
    for certificates in CERTIFICATES:
        chart = render_chart(everything | {"certificates": certificates}, namespace="elsewhere")
        assert NAMESPACE[1] not in yaml.safe_dump([each for key, each in chart.items() if key[0] != "ConfigMap"])
        deployment = chart["Deployment", "tallygate"]
        assert deployment["metadata"]["namespace"] == "elsewhere"


def test_values_that_change_a_field_change_it() -> None:
    digest = f"sha256:{'0' * 64}"
    values = {
        "image": {"repository": "registry.example.com/tallygate", "digest": digest},
        "imagePullSecrets": [{"name": "pull"}],
        "replicas": 3,
        "failurePolicy": "Ignore",
        "exempt": ["calico-system"],
        "policies": {"own.yaml": "# none\n"},
        "arguments": ["--log-level=debug"],
        "resources": {"requests": {"cpu": "1"}},
        "tolerations": [{"operator": "Exists"}],
        "relay": True,
    }
    chart = render_chart(values)
    spec = chart["Deployment", "tallygate"]["spec"]
    pod = spec["template"]["spec"]
    container, relay = pod["containers"]
    assert (spec["replicas"], container["image"]) == (3, f"registry.example.com/tallygate@{digest}")
    assert relay["image"] == container["image"]
    assert (pod["imagePullSecrets"], pod["tolerations"]) == ([{"name": "pull"}], [{"operator": "Exists"}])
    assert (container["args"][-1], container["resources"]["requests"]["cpu"]) == ("--log-level=debug", "1")
    assert "--log-level=debug" not in relay["args"]
    assert chart["ConfigMap", "tallygate-policies"]["data"] == {"own.yaml": "# none\n"}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in chart[kind, "tallygate"]["webhooks"]:
            assert webhook["failurePolicy"] == "Ignore"
            if "namespaceSelector" in webhook:
                (expression,) = webhook["namespaceSelector"]["matchExpressions"]
                assert expression["values"] == ["kube-system", "tallygate-system", "calico-system"]


def test_values_of_a_release_without_the_relay_still_render() -> None:
    """Render the values of `helm upgrade --reuse-values`, which come without the defaults of a newer chart."""
    assert render_chart({"relay": None}) == render_chart({})


def test_without_registration_there_is_no_webhook_configuration() -> None:
    chart = render_chart({"registration": False})
    assert not any(kind.endswith("WebhookConfiguration") for kind, _ in chart)
    assert ("Deployment", "tallygate") in chart


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"size": "large"}, "size"),
        ({"certificates": "none"}, "certificates"),
        ({"replicas": -1}, "replicas"),
        ({"size": "standalone", "auditInterval": "1h"}, "auditInterval"),
        ({"auditInterval": "hourly"}, "auditInterval"),
        ({"token": "short"}, "token"),
        ({"relay": "yes"}, "relay"),
        ({"exempt": ["Not_A_Name"]}, "exempt"),
        ({"replicaCount": 3}, "replicaCount"),
        ({"image": {"repository": "a", "name": "b"}}, "name"),
        ({"arguments": ["log-level=debug"]}, "arguments"),
    ],
)
def test_an_invalid_value_is_rejected_by_its_name(values: dict[str, Any], field: str) -> None:
    done = subprocess.run(create_helm_command(values), capture_output=True, text=True, check=False)  # noqa: S603  built, no shell
    assert done.returncode
    assert field in done.stderr


def test_every_file_of_the_chart_is_used() -> None:
    """Find each of `files/` by its name in a template."""
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for path in (CHART / "files").iterdir():
        assert f'"{path.stem}"' in templates or f'"files/{path.name}"' in templates, path.name
