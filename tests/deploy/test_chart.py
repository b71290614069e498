"""deploy/helm: the chart and the kustomize components come to the same objects, and wrong values are refused."""

import itertools
import subprocess
from typing import Any

import pytest
import yaml

from tests.deploy.generate import CHART, KUSTOMIZE
from tests.deploy.rendered import Objects, charted, composed, helm_template, kustomized, overlaid

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
TOKEN = "0123456789abcdef"  # noqa: S105  what a token looks like


def same(chart: Objects, kustomize: Objects) -> None:
    """Object by object, so that what differs is told."""
    expected = {key: each for key, each in kustomize.items() if key != NAMESPACE}
    assert sorted(chart) == sorted(expected)
    for key, each in expected.items():
        assert chart[key] == each


def test_every_overlay_has_its_values() -> None:
    assert {path.name for path in (KUSTOMIZE / "overlays").iterdir()} == set(OVERLAYS)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_comes_to_what_an_overlay_comes_to(overlay: str) -> None:
    same(charted(OVERLAYS[overlay]), kustomized(KUSTOMIZE / "overlays" / overlay))


@pytest.mark.parametrize(("size", "certificates"), list(itertools.product(SIZES, CERTIFICATES)))
def test_sizes_and_certificates_combine_freely(size: str, certificates: str) -> None:
    chart = charted(BARE | {"size": size, "certificates": certificates})
    same(chart, composed(*SIZES[size], *CERTIFICATES[certificates]))


@pytest.mark.parametrize(("size", "certificates"), list(itertools.product(SIZES, CERTIFICATES)))
def test_a_relay_combines_with_each_of_them_and_with_what_leads_to_it(size: str, certificates: str) -> None:
    chosen = {"size": size, "certificates": certificates, "relay": True}
    components = [*SIZES[size], *CERTIFICATES[certificates]]
    same(charted(BARE | chosen), composed(*components, "relay"))
    same(charted(dict.fromkeys(EXTRAS, True) | chosen), composed(*components, *EXTRAS.values(), "relay"))


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_the_component_of_its_name(extra: str) -> None:
    chart = charted(BARE | {"size": "standalone", "certificates": "by-hand", extra: True})
    same(chart, composed(EXTRAS[extra]))


def test_an_audit_is_the_component_of_its_name_on_top_of_a_cluster_that_is_followed() -> None:
    chart = charted(BARE | {"size": "cluster", "certificates": "by-hand", "auditInterval": "1h"})
    same(chart, composed("cluster-access", "audit"))


def test_a_token_stands_in_the_paths_and_in_its_secret() -> None:
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
                    for index in range(len(composed()[kind, "tallygate"]["webhooks"]))
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
    overlay = overlaid({"components": ["token"], "secretGenerator": [secret], "patches": patches})
    same(charted(BARE | {"size": "standalone", "certificates": "by-hand", "token": TOKEN}), overlay)


def test_in_another_namespace_nothing_speaks_of_the_usual_one() -> None:
    everything = {**dict.fromkeys(EXTRAS, True), "relay": True}
    for certificates in CERTIFICATES:
        chart = charted(everything | {"certificates": certificates}, namespace="elsewhere")
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
    chart = charted(values)
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


def test_values_of_a_release_from_before_the_relay_still_render() -> None:
    """`helm upgrade --reuse-values` takes them without the defaults of a newer chart."""
    assert charted({"relay": None}) == charted({})


def test_what_is_not_registered_is_not_there() -> None:
    chart = charted({"registration": False})
    assert not any(kind.endswith("WebhookConfiguration") for kind, _ in chart)
    assert ("Deployment", "tallygate") in chart


@pytest.mark.parametrize(
    ("values", "said"),
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
def test_a_wrong_value_is_refused_by_its_name(values: dict[str, Any], said: str) -> None:
    done = subprocess.run(helm_template(values), capture_output=True, text=True, check=False)  # noqa: S603  built, no shell
    assert done.returncode
    assert said in done.stderr


def test_every_file_of_the_chart_is_used() -> None:
    """Each of `files/` by its name in a template."""
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for path in (CHART / "files").iterdir():
        assert f'"{path.stem}"' in templates or f'"files/{path.name}"' in templates, path.name
