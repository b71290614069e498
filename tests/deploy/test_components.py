"""The kustomize components and overlays: arguments that are settings, rights with reasons."""

import json
from pathlib import Path

import pytest
import yaml

from tests.deploy.generate import COMPONENTS, KUSTOMIZE
from tests.deploy.rendered import composed, kustomized
from tests.deploy.started import container, gate_settings, pod
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE
from webhook.state.kubernetes import cap_ledger

OVERLAYS = sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir())
FOLDERS = sorted(path for folder in ("components", "overlays") for path in (KUSTOMIZE / folder).iterdir())
CERTIFICATES = ("", "self-signed", "cert-manager")
SIZES = ("", "cluster-access", "ha")
RIGHTS = [COMPONENTS / name / "rbac.yaml" for name in ("cluster-access", "self-signed", "audit")]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_is_applied(folder: Path) -> None:
    read = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    listed = {each for each in read.get("resources", ()) if each.endswith(".yaml")}
    listed |= {file for each in read.get("configMapGenerator", ()) for file in each["files"]}
    assert {path.name for path in folder.iterdir()} == {*listed, "kustomization.yaml"}
    for other in (*read.get("components", ()), *(each for each in read.get("resources", ()) if each not in listed)):
        assert (folder / other / "kustomization.yaml").exists()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_the_arguments_are_settings_of_the_server(size: str, certificates: str) -> None:
    read = gate_settings(composed(*filter(None, (size, certificates))))
    expected = ("in-cluster", "kubernetes", DEFAULT_NAMESPACE) if size else ("none", "memory", DEFAULT_NAMESPACE)
    assert (read.cluster, read.ledgers, read.namespace) == expected


def test_an_audit_is_asked_for_of_a_gate_that_follows_and_a_token_is_read_from_its_secret() -> None:
    assert gate_settings(composed("ha", "audit")).audit_interval == 3600
    assert gate_settings(composed("token")).token_file == Path("/etc/tallygate/token/token")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_who_calls_the_api_server_has_a_token_and_nobody_else(size: str, certificates: str) -> None:
    objects = composed(*filter(None, (size, certificates)))
    calls = bool(size) or certificates == "self-signed"
    assert pod(objects)["automountServiceAccountToken"] is calls
    assert objects["ServiceAccount", "tallygate"]["automountServiceAccountToken"] is calls
    assert any(kind in {"Role", "ClusterRole"} for kind, _ in objects) is calls


@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_every_volume_that_is_mounted_is_there(certificates: str) -> None:
    objects = composed(*filter(None, (certificates, "token")))
    spec = pod(objects)
    assert {each["name"] for each in container(objects)["volumeMounts"]} == {each["name"] for each in spec["volumes"]}
    secrets = {each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    assert secrets == {"tallygate-token", *(() if certificates == "self-signed" else ("tallygate-tls",))}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_everything_is_labelled_so_that_it_is_found_again(overlay: str) -> None:
    for (kind, _), each in kustomized(KUSTOMIZE / "overlays" / overlay).items():
        component = "registration" if kind.endswith("WebhookConfiguration") else "gate"
        labels = {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": component}
        assert labels.items() <= each["metadata"]["labels"].items()


def test_memory_is_never_shared_by_two_replicas() -> None:
    for certificates in CERTIFICATES:
        spec = composed(*filter(None, (certificates,)))["Deployment", "tallygate"]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_a_drain_a_lost_node_or_an_upgrade_leaves_one_replica() -> None:
    objects = composed("ha")
    spec = objects["Deployment", "tallygate"]["spec"]
    budget = objects["PodDisruptionBudget", "tallygate"]["spec"]
    assert spec["replicas"] - budget["maxUnavailable"] >= 1
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert {each["topologyKey"] for each in pod(objects)["topologySpreadConstraints"]} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    labels = spec["template"]["metadata"]["labels"]
    assert budget["selector"]["matchLabels"] == labels
    for each in pod(objects)["topologySpreadConstraints"]:
        assert each["labelSelector"]["matchLabels"] == labels
        assert each["whenUnsatisfiable"] == "ScheduleAnyway"  # one node must do


def test_the_rights_are_given_to_the_gate_and_to_nobody_else() -> None:
    for path in RIGHTS:
        read = {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(path.read_text())}
        bindings = [each for (kind, _), each in read.items() if kind.endswith("Binding")]
        assert len(bindings) == len(read) / 2
        for given in bindings:
            assert given["subjects"] == [
                {"kind": "ServiceAccount", "name": "tallygate", "namespace": DEFAULT_NAMESPACE}
            ]
            assert given["roleRef"]["kind"] == given["kind"].removesuffix("Binding")
            assert (given["roleRef"]["kind"], given["roleRef"]["name"]) in read


def test_every_right_has_its_reason_beside_it() -> None:
    for path in RIGHTS:
        lines = path.read_text().splitlines()
        verbs = [index for index, line in enumerate(lines) if line.lstrip().startswith("verbs:")]
        assert verbs
        assert all(lines[index - 1].lstrip().startswith("# ") for index in verbs)


def test_no_right_is_for_everything_and_secrets_are_read_by_name() -> None:
    for path in RIGHTS:
        for role in yaml.safe_load_all(path.read_text()):
            for rule in role.get("rules", ()):
                assert "*" not in json.dumps(rule)
                if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                    assert rule["resourceNames"] == ["tallygate-tls"]
                    assert role["kind"] == "Role"


def test_what_is_written_is_the_gates_own() -> None:
    """Outside its namespace it writes by what it is registered, events and reports, and nothing else."""
    writes = {"create", "update", "patch", "delete", "deletecollection"}
    for path in RIGHTS:
        for role in yaml.safe_load_all(path.read_text()):
            if role["kind"] != "ClusterRole":
                continue
            for rule in role["rules"]:
                if not writes & set(rule["verbs"]):
                    continue
                (group,) = rule["apiGroups"]
                assert (group, *rule["resources"]) in {
                    ("", "events"),
                    (
                        "admissionregistration.k8s.io",
                        "mutatingwebhookconfigurations",
                        "validatingwebhookconfigurations",
                    ),
                    ("openreports.io", "reports", "clusterreports"),
                    ("wgpolicyk8s.io", "policyreports", "clusterpolicyreports"),
                }
                if group == "admissionregistration.k8s.io":
                    assert rule["resourceNames"] == ["tallygate"]


def test_the_ledgers_are_kept_in_its_own_namespace() -> None:
    rules = composed("cluster-access")["Role", "tallygate"]["rules"]
    assert any((each["apiGroups"], each["resources"]) == ([cap_ledger.GROUP], [cap_ledger.PLURAL]) for each in rules)


def test_the_network_policy_names_ports_that_the_pod_has() -> None:
    objects = composed("network")
    ports = {each["name"] for each in container(objects)["ports"]}
    policy = objects["NetworkPolicy", "tallygate"]["spec"]
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == ports
    assert policy["podSelector"]["matchLabels"] == objects["Deployment", "tallygate"]["spec"]["selector"]["matchLabels"]
    closed = [rule for rule in policy["ingress"] if "from" in rule]
    assert [each["port"] for rule in closed for each in rule["ports"]] == ["monitor"]


def test_the_calls_of_the_gates_own_account_are_set_apart() -> None:
    objects = composed("flow-control")
    schema = objects["FlowSchema", "tallygate"]["spec"]
    assert ("PriorityLevelConfiguration", schema["priorityLevelConfiguration"]["name"]) in objects
    ((subject,),) = (rule["subjects"] for rule in schema["rules"])
    account = objects["ServiceAccount", "tallygate"]["metadata"]
    assert subject["serviceAccount"] == {"name": account["name"], "namespace": account["namespace"]}


def test_the_monitor_scrapes_the_port_of_its_service() -> None:
    objects = composed("monitoring")
    service, monitor = objects["Service", "tallygate-metrics"], objects["ServiceMonitor", "tallygate"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert (
        not monitor["selector"]["matchLabels"].items() <= objects["Service", "tallygate"]["metadata"]["labels"].items()
    )
    assert {each["port"] for each in monitor["endpoints"]} == {each["name"] for each in service["spec"]["ports"]}


def test_cert_manager_makes_what_the_pod_mounts_for_the_name_that_is_called() -> None:
    objects = composed("cert-manager")
    leaf, authority = (objects["Certificate", name]["spec"] for name in ("tallygate", "tallygate-authority"))
    mounted = {each["secret"]["secretName"] for each in pod(objects)["volumes"] if "secret" in each}
    assert mounted == {leaf["secretName"]}
    assert f"tallygate.{DEFAULT_NAMESPACE}.svc" in leaf["dnsNames"]
    assert objects["Issuer", leaf["issuerRef"]["name"]]["spec"]["ca"]["secretName"] == authority["secretName"]
    assert ("Issuer", authority["issuerRef"]["name"]) in objects
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = objects[kind, "tallygate"]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": f"{DEFAULT_NAMESPACE}/tallygate"}
