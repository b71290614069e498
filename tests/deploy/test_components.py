"""The kustomize components and overlays: arguments that are settings, permissions with reasons."""

import json
from pathlib import Path

import pytest
import yaml

from tallygate.admission.self_registration import RegistrationChoices, is_left_to_gate, parse_choices
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE, ServiceTarget
from tallygate.backstop.compiled_objects import POLICY_NAMES
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.applied_objects import USAGE_ROLE
from tests.admission.plain_configurations import create_plain_configurations, to_typed
from tests.deploy.container_settings import get_container, get_pod, read_gate_settings
from tests.deploy.generate import COMPONENTS, KUSTOMIZE
from tests.deploy.rendering import compose_objects, run_kustomize

OVERLAYS = sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir())
FOLDERS = sorted(path for folder in ("components", "overlays") for path in (KUSTOMIZE / folder).iterdir())
CERTIFICATES = ("", "self-signed", "cert-manager")
SIZES = ("", "cluster-access", "ha")
RBAC_FILES = [
    *(
        COMPONENTS / name / "rbac.yaml"
        for name in ("cluster-access", "self-signed", "audit", "publish-nodes", "backstop", "publish-usage")
    ),
    COMPONENTS / "ask" / "address-rbac.yaml",
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_is_applied(folder: Path) -> None:
    read = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    listed = {each for each in read.get("resources", ()) if each.endswith(".yaml")}
    listed |= {file for each in read.get("configMapGenerator", ()) for file in each["files"]}
    listed |= {each["path"] for each in read.get("patches", ()) if "path" in each}
    assert {path.name for path in folder.iterdir()} == {*listed, "kustomization.yaml"}
    for other in (*read.get("components", ()), *(each for each in read.get("resources", ()) if each not in listed)):
        assert (folder / other / "kustomization.yaml").exists()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_the_arguments_are_settings_of_the_server(size: str, certificates: str) -> None:
    read = read_gate_settings(compose_objects(*filter(None, (size, certificates))))
    expected = ("in-cluster", "kubernetes", DEFAULT_NAMESPACE) if size else ("none", "memory", DEFAULT_NAMESPACE)
    assert (read.cluster, read.ledgers, read.namespace) == expected


def test_an_audit_has_its_interval_and_a_token_is_read_from_its_secret() -> None:
    assert read_gate_settings(compose_objects("ha", "audit")).audit_interval == 3600
    assert read_gate_settings(compose_objects("ha", "publish-nodes")).publish_nodes == "on"
    assert read_gate_settings(compose_objects("ha", "backstop")).backstop == "on"
    assert read_gate_settings(compose_objects("ha", "publish-usage")).publish_usage == "on"
    read = read_gate_settings(compose_objects("ha", "notify"))
    assert read.notify_file == Path("/etc/tallygate/notify/notify.yaml")
    assert read_gate_settings(compose_objects("token")).token_file == Path("/etc/tallygate/token/token")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_only_a_gate_that_calls_the_api_server_has_a_token(size: str, certificates: str) -> None:
    objects = compose_objects(*filter(None, (size, certificates)))
    calls = bool(size) or certificates == "self-signed"
    assert get_pod(objects)["automountServiceAccountToken"] is calls
    assert objects["ServiceAccount", "tallygate"]["automountServiceAccountToken"] is calls
    assert any(kind in {"Role", "ClusterRole"} for kind, _ in objects) is calls


@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_every_mounted_volume_exists(certificates: str) -> None:
    objects = compose_objects(*filter(None, (certificates, "token")))
    spec = get_pod(objects)
    assert {each["name"] for each in get_container(objects)["volumeMounts"]} == {
        each["name"] for each in spec["volumes"]
    }
    secrets = {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    assert secrets == {"tallygate-token", *(() if certificates == "self-signed" else ("tallygate-tls",))}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_has_the_labels_that_select_it(overlay: str) -> None:
    for (kind, _), each in run_kustomize(KUSTOMIZE / "overlays" / overlay).items():
        component = "registration" if kind.endswith("WebhookConfiguration") else "gate"
        labels = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": component}
        assert labels.items() <= each["metadata"]["labels"].items()


def test_a_gate_with_ledgers_in_memory_has_one_replica() -> None:
    for certificates in CERTIFICATES:
        spec = compose_objects(*filter(None, (certificates,)))["Deployment", "tallygate"]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_a_drain_a_lost_node_or_an_upgrade_leaves_one_replica() -> None:
    objects = compose_objects("ha")
    spec = objects["Deployment", "tallygate"]["spec"]
    budget = objects["PodDisruptionBudget", "tallygate"]["spec"]
    assert spec["replicas"] - budget["maxUnavailable"] >= 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert {each["topologyKey"] for each in get_pod(objects)["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    labels = spec["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"] == labels
    for each in get_pod(objects)["topologySpreadConstraints"]:
        assert each["labelSelector"]["matchLabels"] == labels
        assert each["whenUnsatisfiable"] == "ScheduleAnyway"  # one node must do


def test_permissions_are_bound_to_the_gate_only() -> None:
    for path in RBAC_FILES:
        read = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(path.read_text())}
        bindings = [each for (kind, _), each in read.items() if kind.endswith("Binding")]
        assert len(bindings) == len(read) / 2
        for binding in bindings:
            assert binding["subjects"] == [
                {"kind": "ServiceAccount", "name": "tallygate", "namespace": DEFAULT_NAMESPACE}
            ]
            assert binding["roleRef"]["kind"] == binding["kind"].removesuffix("Binding")
            assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in read


def test_every_permission_has_a_comment_with_its_reason() -> None:
    for path in RBAC_FILES:
        lines = path.read_text().splitlines()
        verbs = [index for index, line in enumerate(lines) if line.lstrip().startswith("verbs:")]
        assert verbs
        assert all(lines[index - 1].lstrip().startswith("# ") for index in verbs)


def test_no_permission_has_a_wildcard_and_secrets_are_read_by_name() -> None:
    for path in RBAC_FILES:
        for role in yaml.safe_load_all(path.read_text()):
            for rule in role.get("rules", ()):
                assert "*" not in json.dumps(rule)
                if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                    assert rule["resourceNames"] == ["tallygate-tls"]
                    assert role["kind"] == "Role"


def test_the_gate_writes_no_object_of_others() -> None:
    """Let the gate write only what is its own in other namespaces: events, reports, the backstop, the usage of caps."""
    writes = {"create", "update", "patch", "delete", "deletecollection"}
    for path in RBAC_FILES:
        for role in yaml.safe_load_all(path.read_text()):
            if role["kind"] != "ClusterRole":
                continue
            for rule in role["rules"]:
                if not writes & set(rule["verbs"]):
                    continue
                (group,) = rule["apiGroups"]
                assert (group, *rule["resources"]) in {
                    ("", "events"),
                    ("", "nodes/status"),
                    ("", "resourcequotas"),
                    (
                        "admissionregistration.k8s.io",
                        "validatingadmissionpolicies",
                        "validatingadmissionpolicybindings",
                    ),
                    (
                        "admissionregistration.k8s.io",
                        "mutatingwebhookconfigurations",
                        "validatingwebhookconfigurations",
                    ),
                    ("openreports.io", "reports", "clusterreports"),
                    ("tallygate.dev", "capusages"),
                    ("wgpolicyk8s.io", "policyreports", "clusterpolicyreports"),
                }
                if group == "admissionregistration.k8s.io" and rule["verbs"] != ["list", "create"]:
                    assert rule["resourceNames"] in (["tallygate"], list(POLICY_NAMES))


def test_tenants_read_the_usage_of_caps_and_the_role_of_the_gate_is_another_one() -> None:
    objects = compose_objects("ha", "publish-usage")
    (rule,) = objects["ClusterRole", "tallygate-view"]["rules"]
    assert (rule["resources"], rule["verbs"]) == (["capusages"], ["get", "list", "watch"])
    assert objects["ClusterRoleBinding", USAGE_ROLE]["roleRef"]["name"] == USAGE_ROLE
    assert ("ClusterRoleBinding", "tallygate-view") not in objects


def test_the_ledgers_are_stored_in_the_gates_namespace() -> None:
    rules = compose_objects("cluster-access")["Role", "tallygate"]["rules"]
    assert any((each["apiGroups"], each["resources"]) == ([cap_ledger.GROUP], [cap_ledger.PLURAL]) for each in rules)


def test_the_network_policy_names_ports_that_the_pod_has() -> None:
    objects = compose_objects("network")
    ports = {each["name"] for each in get_container(objects)["ports"]}
    policy = objects["NetworkPolicy", "tallygate"]["spec"]
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == ports
    assert policy["podSelector"]["matchLabels"] == objects["Deployment", "tallygate"]["spec"]["selector"]["matchLabels"]
    closed = [rule for rule in policy["ingress"] if "from" in rule]
    assert [each["port"] for rule in closed for each in rule["ports"]] == ["monitor"]


def test_the_requests_of_the_gates_account_have_a_priority_level() -> None:
    objects = compose_objects("flow-control")
    schema = objects["FlowSchema", "tallygate"]["spec"]
    assert ("PriorityLevelConfiguration", schema["priorityLevelConfiguration"]["name"]) in objects
    ((subject,),) = (rule["subjects"] for rule in schema["rules"])
    account = objects["ServiceAccount", "tallygate"]["metadata"]
    assert subject["serviceAccount"] == {"name": account["name"], "namespace": account["namespace"]}


def test_the_monitor_scrapes_the_port_of_its_service() -> None:
    objects = compose_objects("monitoring")
    service, monitor = objects["Service", "tallygate-metrics"], objects["ServiceMonitor", "tallygate"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (
        not monitor["selector"]["matchLabels"].items() <= objects["Service", "tallygate"]["metadata"]["labels"].items()
    )
    assert {each["port"] for each in monitor["endpoints"]} == {each["name"] for each in service["spec"]["ports"]}


def test_cert_manager_issues_the_mounted_certificate_for_the_name_that_is_called() -> None:
    objects = compose_objects("cert-manager")
    leaf, ca = (objects["Certificate", name]["spec"] for name in ("tallygate", "tallygate-authority"))
    mounted = {each["secret"]["secretName"] for each in get_pod(objects)["volumes"] if "secret" in each}
    assert mounted == {leaf["secretName"]}
    assert f"tallygate.{DEFAULT_NAMESPACE}.svc" in leaf["dnsNames"]
    assert objects["Issuer", leaf["issuerRef"]["name"]]["spec"]["ca"]["secretName"] == ca["secretName"]
    assert ("Issuer", ca["issuerRef"]["name"]) in objects
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = objects[kind, "tallygate"]["metadata"]["annotations"]
        assert annotations["cert-manager.io/inject-ca-from"] == f"{DEFAULT_NAMESPACE}/tallygate"
        assert is_left_to_gate(to_typed(objects[kind, "tallygate"]))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_registers_nothing_leaves_that_to_the_gate_and_is_deleted_from_the_registration_on(
    overlay: str,
) -> None:
    objects = run_kustomize(KUSTOMIZE / "overlays" / overlay)
    assert [kind for kind, _ in objects][:2] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        configuration = objects[kind, "tallygate"]
        assert "webhooks" not in configuration
        assert is_left_to_gate(to_typed(configuration))
        failure_policy = "Ignore" if overlay == "available" else "Fail"
        assert parse_choices(to_typed(configuration)) == RegistrationChoices(failure_policy=failure_policy)


def test_the_component_of_the_full_registration_has_all_webhooks_and_leaves_none_to_the_gate() -> None:
    objects = compose_objects("full-registration")
    for expected in create_plain_configurations(ServiceTarget()):
        configuration = objects[expected["kind"], "tallygate"]
        assert configuration["webhooks"] == expected["webhooks"]
        assert not is_left_to_gate(to_typed(configuration))
