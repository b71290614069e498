"""The manifests fit each other and the settings that the server parses from their arguments."""

from pathlib import Path
from typing import Any

import pytest

from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE, ServiceTarget
from tallygate.cli.serve.command import serve
from tallygate.policy.load import load_policies
from tallygate.server.lifecycle import REQUEST_TIMES
from tallygate.server.settings.sources import load_settings
from tallygate.server.settings.table import Settings
from tallygate_certs.certificate_names import create_service_names
from tests.deploy.generate import BASE
from tests.deploy.manifests import (
    KUSTOMIZATION,
    get_container,
    get_manifest,
    get_pod_template,
    get_port,
    list_manifests,
)

CLUSTER_SCOPED = {
    "Namespace",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}
END_SECONDS = 5  # of the grace that is left when the drain is over


def read_settings() -> Settings:
    """Return the gate's settings: its arguments and variables, parsed by the command line and the settings' parser."""
    command, *arguments = get_container()["args"]
    assert command == serve.name
    flags = serve.make_context(command, list(arguments)).params
    (namespace,) = get_container()["env"]
    assert namespace == {"name": "TALLYGATE_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    environment = {namespace["name"]: get_manifest("Deployment")["metadata"]["namespace"]}
    return load_settings(flags, environment, flags.pop("config"))


def find_volume(path: Path | None) -> tuple[dict[str, Any], str]:
    """Return the volume that contains a path, and the rest of the path."""
    assert path is not None
    for mount in get_container()["volumeMounts"]:
        if path.is_relative_to(mount["mountPath"]):
            (found,) = (each for each in get_pod_template()["spec"]["volumes"] if each["name"] == mount["name"])
            return found, str(path.relative_to(mount["mountPath"]))
    raise AssertionError(f"{path} is not mounted")


def test_every_file_is_applied() -> None:
    listed = {*KUSTOMIZATION["resources"], "kustomization.yaml"}
    listed |= {file for each in KUSTOMIZATION["configMapGenerator"] for file in each["files"]}
    assert {str(path.relative_to(BASE)) for path in BASE.rglob("*") if path.is_file()} == listed


@pytest.mark.parametrize("each", list_manifests(), ids=lambda each: each["kind"])
def test_everything_is_named_labelled_and_in_the_namespace(each: dict[str, Any]) -> None:
    metadata = each["metadata"]
    assert each["apiVersion"]
    assert metadata["name"]
    component = "registration" if each["kind"].endswith("WebhookConfiguration") else "gate"
    assert metadata["labels"]["app.kubernetes.io/name"] == "tallygate"
    assert metadata["labels"]["app.kubernetes.io/component"] == component
    assert metadata.get("namespace") == (None if each["kind"] in CLUSTER_SCOPED else DEFAULT_NAMESPACE)


def test_the_namespace_is_the_one_that_the_webhooks_exclude() -> None:
    assert get_manifest("Namespace")["metadata"]["name"] == DEFAULT_NAMESPACE


def test_the_policies_come_from_the_config_map() -> None:
    (generator,) = KUSTOMIZATION["configMapGenerator"]
    (folder,) = read_settings().policies
    found, rest = find_volume(folder)
    assert (found["configMap"], rest) == ({"name": generator["name"]}, ".")
    assert generator["options"]["disableNameSuffixHash"] is True
    parsed = load_policies([BASE / file for file in generator["files"]])
    assert parsed.is_usable
    assert not parsed.findings


def test_the_certificate_comes_from_a_secret_that_kubectl_makes() -> None:
    for path, key in ((read_settings().tls_cert, "tls.crt"), (read_settings().tls_key, "tls.key")):
        found, rest = find_volume(path)
        assert (found["secret"], rest) == ({"secretName": "tallygate-tls", "defaultMode": 0o440}, key)


def test_the_service_leads_to_the_port_on_which_the_gate_listens() -> None:
    service = get_manifest("Service")
    (offered,) = service["spec"]["ports"]
    assert get_port(offered["targetPort"]) == read_settings().listen.port
    assert service["spec"]["selector"].items() <= get_pod_template()["metadata"]["labels"].items()


def test_the_webhooks_call_the_service_by_a_name_in_its_certificate() -> None:
    metadata = get_manifest("Service")["metadata"]
    (offered,) = get_manifest("Service")["spec"]["ports"]
    assert ServiceTarget() == ServiceTarget(metadata["namespace"], metadata["name"], offered["port"])
    called = f"{metadata['name']}.{metadata['namespace']}.svc"  # apiserver pkg/util/webhook/client.go, v1.36
    assert called in create_service_names(metadata["name"], metadata["namespace"]).dns


def test_the_deployment_selects_its_own_pods() -> None:
    assert get_manifest("Deployment")["spec"]["selector"]["matchLabels"] == get_pod_template()["metadata"]["labels"]


def test_there_are_never_two_gates() -> None:
    """Run one replica: with ledgers in memory, each of two would reserve all that a cap has."""
    spec = get_manifest("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_probes_use_the_port_with_plain_http() -> None:
    probes = {name: get_container()[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {probe["port"] for probe in probes.values()} == {"monitor"}
    assert get_port("monitor") == read_settings().monitor.port
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/healthz",
        "readiness": "/readyz",
        "liveness": "/healthz",
    }


def test_a_drain_ends_within_the_grace_period() -> None:
    grace = get_pod_template()["spec"]["terminationGracePeriodSeconds"]
    assert grace >= read_settings().drain_delay + REQUEST_TIMES.drain + END_SECONDS


def test_the_environment_has_no_variables_of_services() -> None:
    assert get_pod_template()["spec"]["enableServiceLinks"] is False


def test_the_gate_has_no_token_of_the_api_server() -> None:
    account = get_manifest("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    assert get_pod_template()["spec"]["automountServiceAccountToken"] is False
    assert get_pod_template()["spec"]["serviceAccountName"] == account["metadata"]["name"]


def test_the_quota_accepts_the_gates_priority_class() -> None:
    spec = get_manifest("ResourceQuota")["spec"]
    (expression,) = spec["scopeSelector"]["matchExpressions"]
    assert expression["values"] == [get_pod_template()["spec"]["priorityClassName"]]
    assert int(spec["hard"]["pods"]) > get_manifest("Deployment")["spec"]["replicas"]


def test_the_pod_needs_no_privilege() -> None:
    """Meet Pod Security's profile `restricted`, which the namespace enforces."""
    assert get_manifest("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = get_pod_template()["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert get_container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {kind for each in spec["volumes"] for kind in each} == {"name", "configMap", "secret", "emptyDir"}
