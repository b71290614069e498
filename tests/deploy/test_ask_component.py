"""The server of asks in deploy/: its component of kustomize, its values of the chart, its rights and its address."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.cli.serve.ask_command import serve_ask
from tallygate.cluster.kinds import CREATOR_RESOURCES, KINDS, POD_GROUP_RESOURCE, POD_GROUPS
from tallygate.kube.client import ClientConfig
from tallygate.server.controllers.ask_address_controller import parse_ask_host
from tallygate.server.controllers.asked_cluster import AskedCluster
from tallygate.server.lifecycle import REQUEST_TIMES
from tallygate.server.settings.sources import load_settings
from tallygate.server.settings.table import Settings
from tallygate.state.kubernetes import cap_ledger
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tallygate_certs.certificate_names import create_service_names
from tests.deploy.container_settings import get_container, read_gate_settings
from tests.deploy.generate import COMPONENTS, ROOT
from tests.deploy.rendering import Object, Objects, compose_objects, render_chart
from tests.deploy.test_chart import DEFAULTS, assert_equal_objects, enable
from tests.deploy.test_chart_values import read_errors

NAMESPACE = "tallygate-system"
QUICK_START = ROOT / "docs" / "start" / "kind.md"
WITH_ASK = DEFAULTS | {"ask.enabled": True}


def get_ask_pod(objects: Objects) -> Object:
    """Return the pod of the server of asks."""
    pod: Object = objects["Deployment", ASK_NAME]["spec"]["template"]["spec"]
    return pod


def read_ask_settings(objects: Objects) -> Settings:
    """Return the settings of the server of asks, from the arguments of its container."""
    (container,) = get_ask_pod(objects)["containers"]
    name, *arguments = container["args"]
    assert name == serve_ask.name
    params = dict(serve_ask.make_context(name, list(arguments)).params)
    return load_settings(params, {}, params.pop("config"))


@pytest.mark.parametrize("certificates", ["self-signed", "cert-manager"])
def test_the_value_is_the_component_on_top_of_an_overlay(certificates: str) -> None:
    composed = compose_objects("ha", certificates, "network", "flow-control", "ask")
    assert_equal_objects(WITH_ASK | {"certificates": certificates}, composed)


def test_the_pages_are_a_component_on_top_of_it_and_a_value() -> None:
    """Expect the pages off without it, and links in denials only where an address is given."""
    composed = compose_objects("ha", "self-signed", "network", "flow-control", "ask", "pages")
    assert_equal_objects(WITH_ASK | {"ask.page": True}, composed)
    assert read_ask_settings(composed).page == "on"
    assert read_ask_settings(compose_objects("ha", "ask")).page == "off"
    assert read_gate_settings(composed).page_url == ""
    linked = render_chart(WITH_ASK | {"ask.page": True, "ask.pageURL": "https://gate.example.com"})
    assert read_gate_settings(linked).page_url == "https://gate.example.com"


def test_front_proxies_are_values_with_the_secret_of_their_ca() -> None:
    """Expect the Secret's `ca.crt` in the container, and not the key that may lie beside it."""
    values = {"ask.proxy.caSecret": "front-tls", "ask.proxy.names": ["front", "other"], "ask.proxy.groupLists": True}
    chart = render_chart(WITH_ASK | values)
    settings, pod = read_ask_settings(chart), get_ask_pod(chart)
    (volume,) = [each for each in pod["volumes"] if each["name"] == "proxy-ca"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "proxy-ca"]
    assert volume["secret"] == {"secretName": "front-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    assert settings.proxy_ca_file == Path(mount["mountPath"]) / "ca.crt"
    assert (settings.proxy_names, settings.proxy_group_lists) == (("front", "other"), "on")
    assert "proxy-ca" not in {each["name"] for each in get_ask_pod(render_chart(WITH_ASK))["volumes"]}
    assert "ask.proxy.names" in read_errors(WITH_ASK | {"ask.proxy.names": ["front"]})


def test_the_quick_start_on_kind_installs_the_pages() -> None:
    install = QUICK_START.read_text(encoding="utf-8").partition("helm install")[2].partition("kubectl")[0]
    given = re.findall(r"([\w.]+)=([\w.]+)", install)
    rendered = render_chart({name: value == "true" if value in {"true", "false"} else value for name, value in given})
    assert read_ask_settings(rendered).page == "on"
    assert read_gate_settings(rendered).ask_url


def test_it_combines_with_every_extra_and_the_relay() -> None:
    extras = ("network", "flow-control", "monitoring", "dashboard")
    values = enable(*extras) | {"ask.enabled": True, "relay.enabled": True, "certificates": "by-hand"}
    assert_equal_objects(values, compose_objects("ha", *extras, "ask", "relay"))


def test_without_a_network_policy_the_chart_has_none_for_it_either() -> None:
    with_policy, without = (
        render_chart({"ask.enabled": True, "networkPolicy.enabled": enabled}) for enabled in (True, False)
    )
    assert set(with_policy) - set(without) == {("NetworkPolicy", "tallygate"), ("NetworkPolicy", ASK_NAME)}


def test_in_another_namespace_no_object_names_the_usual_one() -> None:
    for certificates in ("self-signed", "cert-manager"):
        chart = render_chart(WITH_ASK | {"certificates": certificates}, namespace="elsewhere")
        shown = [each for key, each in chart.items() if key != ("ConfigMap", "tallygate-policies")]
        assert NAMESPACE not in yaml.safe_dump(shown)


def test_it_has_the_policies_and_the_certificate_of_the_gate_and_no_other_key() -> None:
    objects = compose_objects("ha", "self-signed", "ask")
    settings = read_ask_settings(objects)
    volumes = {each["name"]: each for each in get_ask_pod(objects)["volumes"]}
    (container,) = get_ask_pod(objects)["containers"]
    mounted = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
    (policies,) = settings.policies
    gate = {each["name"]: each for each in objects["Deployment", "tallygate"]["spec"]["template"]["spec"]["volumes"]}
    assert mounted[str(policies)] == gate["policies"]
    assert (settings.cluster, settings.tls_cert, settings.tls_key) == (
        "in-cluster",
        Path("/etc/tallygate/tls/tls.crt"),
        Path("/etc/tallygate/tls/tls.key"),
    )
    secret = mounted["/etc/tallygate/tls"]["secret"]
    namespace, _, name = read_gate_settings(objects).tls_secret.partition("/")
    assert (namespace, secret["secretName"]) == (NAMESPACE, name)
    assert {each["key"]: each["path"] for each in secret["items"]} == {"tls.crt": "tls.crt", "tls.key": "tls.key"}


def test_its_pod_is_as_restricted_and_probed_as_the_gates() -> None:
    objects = compose_objects("ha", "ask")
    pod, gate = get_ask_pod(objects), objects["Deployment", "tallygate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    gate_container = get_container(objects)
    assert pod["securityContext"] == gate["securityContext"]
    for field in ("securityContext", "startupProbe", "readinessProbe", "livenessProbe", "ports"):
        assert container[field] == gate_container[field]
    settings = read_ask_settings(objects)
    assert pod["terminationGracePeriodSeconds"] >= settings.drain_delay + REQUEST_TIMES.drain + 5
    assert pod["enableServiceLinks"] is False
    assert container["resources"]["limits"].keys() == {"cpu", "memory"}


def test_its_service_and_its_network_policy_select_its_pods_and_the_gates_do_not() -> None:
    objects = compose_objects("ha", "network", "ask")
    labels = objects["Deployment", ASK_NAME]["spec"]["template"]["metadata"]["labels"]
    assert objects["Deployment", ASK_NAME]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service", ASK_NAME]["spec"]["selector"] == labels
    policy = objects["NetworkPolicy", ASK_NAME]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert [each["ports"][0]["port"] for each in policy["ingress"]] == ["https"]
    gate = objects["NetworkPolicy", "tallygate"]["spec"]
    to_api_server, to_gate = policy["egress"]
    assert [to_api_server] == gate["egress"]
    assert to_gate["to"] == [{"podSelector": gate["podSelector"]}]
    assert [each["port"] for each in to_gate["ports"]] == ["https", "monitor"]
    assert {"podSelector": policy["podSelector"]} in gate["ingress"][1]["from"]
    assert [each["port"] for each in gate["ingress"][1]["ports"]] == ["monitor"]
    assert not objects["Service", "tallygate"]["spec"]["selector"].items() <= labels.items()


def test_the_certificate_has_the_names_of_the_published_address() -> None:
    objects = compose_objects("ha", "cert-manager", "ask")
    names = objects["Certificate", "tallygate"]["spec"]["dnsNames"]
    assert {name for name in create_service_names(ASK_NAME, NAMESPACE).dns if ".svc" in name} <= set(names)
    host = parse_ask_host(read_gate_settings(objects).ask_url)
    assert host in names
    port = objects["Service", ASK_NAME]["spec"]["ports"][0]["port"]
    assert read_gate_settings(objects).ask_url == f"https://{host}:{port}"


def test_it_may_only_read_what_answers_need_and_create_reviews_that_are_never_stored() -> None:
    rules = compose_objects("ha", "ask")["ClusterRole", ASK_NAME]["rules"]
    reviews = [(each["apiGroups"], each["resources"]) for each in rules if each["verbs"] == ["create"]]
    assert reviews == [
        (["authentication.k8s.io"], ["tokenreviews"]),
        (["authorization.k8s.io"], ["subjectaccessreviews"]),
    ]
    read = {
        (group, name, *each["verbs"], *each.get("resourceNames", ()))
        for each in rules[2:]
        for group in each["apiGroups"]
        for name in each["resources"]
    }
    mutating, validating = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
    versions = [*((kind.version, kind.resource) for kind in KINDS.values()), POD_GROUP_RESOURCE[:2]]
    watched = [(version.rpartition("/")[0], resource) for version, resource in versions]
    live = [(version.rpartition("/")[0], resource) for version, resource, _ in CREATOR_RESOURCES]
    assert read == {
        *((*resource, "list", "watch") for resource in (*watched, (cap_ledger.GROUP, cap_ledger.PLURAL))),
        *((*resource, "list") for resource in live),
        *(("admissionregistration.k8s.io", name, "get", CONFIGURATION_NAME) for name in (mutating, validating)),
        ("admissionregistration.k8s.io", mutating, "list"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "get", f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}"),
    }


def test_it_may_read_the_authorities_of_users_by_the_role_of_kubernetes() -> None:
    binding = compose_objects("ha", "ask")["RoleBinding", "tallygate-ask-authentication"]
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == (
        "kube-system",
        "extension-apiserver-authentication-reader",
    )
    assert [each["name"] for each in binding["subjects"]] == [ASK_NAME]


def test_it_may_read_what_the_checks_of_the_gate_need_in_the_namespace_that_it_reads() -> None:
    for objects in (compose_objects("ha", "ask"), render_chart(WITH_ASK, namespace="elsewhere")):
        role, binding = (objects[kind, "tallygate-ask-gate"] for kind in ("Role", "RoleBinding"))
        assert {(*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {
            ("coordination.k8s.io", "leases", "get", "list"),
            ("apps", "deployments", "get"),
            ("", "serviceaccounts", "get"),
            ("policy", "poddisruptionbudgets", "list"),
            ("networking.k8s.io", "networkpolicies", "list"),
        }
        assert [each["name"] for each in binding["subjects"]] == [ASK_NAME]
        (container,) = get_ask_pod(objects)["containers"]
        (variable,) = container["env"]
        assert variable["name"] == "TALLYGATE_NAMESPACE"
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
        gate = objects["Deployment", "tallygate"]["metadata"]["namespace"]
        assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {gate}


def test_its_rights_are_those_of_its_watches() -> None:
    config = ClientConfig("https://127.0.0.1", object(), str)  # type: ignore[arg-type]  # never called
    watches = AskedCluster(config).list_watches()
    assert {status.name for status in watches} == {*(kind.resource for kind in KINDS.values()), POD_GROUPS}


def test_every_permission_has_a_comment_with_its_reason_and_none_a_wildcard() -> None:
    for name in ("rbac.yaml", "address.yaml", "address-rbac.yaml"):
        text = (COMPONENTS / "ask" / name).read_text(encoding="utf-8")
        lines = text.splitlines()
        verbs = [index for index, line in enumerate(lines) if line.lstrip().startswith("verbs:")]
        assert verbs
        assert all(lines[index - 1].lstrip().startswith("# ") for index in verbs)
        assert "*" not in text


def test_every_user_may_read_the_address_and_the_gate_alone_may_write_it() -> None:
    objects = compose_objects("ha", "ask")
    assert "data" not in objects["ConfigMap", ASK_NAME]
    found: dict[str, Any] = {}
    for (kind, name), each in objects.items():
        if kind == "RoleBinding" and name.startswith(ASK_NAME) and each["metadata"]["namespace"] == NAMESPACE:
            if each["roleRef"]["name"] == "tallygate-ask-gate":
                continue
            (rule,) = objects["Role", each["roleRef"]["name"]]["rules"]
            assert (rule["resources"], rule["resourceNames"]) == (["configmaps"], [ASK_NAME])
            (subject,) = each["subjects"]
            found[subject["name"]] = (subject["kind"], rule["verbs"])
    assert found == {
        "system:authenticated": ("Group", ["get"]),
        "tallygate": ("ServiceAccount", ["get", "patch"]),
    }


def test_its_account_keeps_its_name_where_the_gates_has_another_one() -> None:
    chart = render_chart(WITH_ASK | {"serviceAccount.name": "mine"})
    subjects = {key: each["subjects"] for key, each in chart.items() if key[0].endswith("Binding") and "ask" in key[1]}
    assert subjects["ClusterRoleBinding", ASK_NAME][0]["name"] == ASK_NAME
    assert subjects["RoleBinding", "tallygate-ask-address"][0]["name"] == "mine"
    assert subjects["RoleBinding", "tallygate-ask-reader"][0]["name"] == "system:authenticated"


def test_the_values_change_its_objects() -> None:
    resources = {"requests": {"cpu": "1"}}
    values = {
        "ask": {
            "enabled": True,
            "url": "https://ask.example.com",
            "replicas": 3,
            "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
            "extraArgs": ["--threads=32"],
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": "low",
            "resources": resources,
        },
        "image": {"repository": "registry.example.com/t", "tag": "2"},
        "imagePullSecrets": [{"name": "pull"}],
        "podSecurityContext.runAsUser": None,
    }
    chart = render_chart(values)
    pod, service = get_ask_pod(chart), chart["Service", ASK_NAME]
    (container,) = pod["containers"]
    assert read_gate_settings(chart).ask_url == "https://ask.example.com"
    assert read_ask_settings(chart).threads == 32
    assert chart["Deployment", ASK_NAME]["spec"]["replicas"] == 3
    assert (service["spec"]["type"], service["metadata"]["annotations"]) == ("LoadBalancer", {"a": "b"})
    assert (pod["tolerations"], pod["priorityClassName"]) == ([{"operator": "Exists"}], "low")
    assert (container["image"], container["resources"]["requests"]["cpu"]) == ("registry.example.com/t:2", "1")
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert "runAsUser" not in pod["securityContext"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ledgers": "memory", "replicas": 1}, "ask.enabled: a gate with ledgers=memory does not watch the cluster"),
        ({"ask.url": "http://ask"}, "at '/ask/url'"),
        ({"ask.url": "https://ask/path"}, "at '/ask/url'"),
        ({"ask.service.type": "ExternalName"}, "at '/ask/service/type'"),
        ({"ask.port": 1}, "additional properties 'port' not allowed"),
    ],
    ids=str,
)
def test_an_invalid_value_is_rejected_by_its_name(values: dict[str, Any], message: str) -> None:
    assert message in read_errors({"ask.enabled": True} | values)


def test_values_of_a_release_without_it_still_render() -> None:
    """Render the values of `helm upgrade --reuse-values`, which come without the defaults of a newer chart."""
    assert render_chart({"ask": None}) == render_chart({})
