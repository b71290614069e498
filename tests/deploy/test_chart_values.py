"""deploy/helm: each value changes what it is for, and an invalid or contradictory one is rejected with its reason."""

import hashlib
import json
import subprocess
from typing import Any

import pytest
import yaml

from tallygate.admission.self_registration import RegistrationChoices, parse_choices
from tallygate.policy.parse import parse
from tallygate.server.notify.notify_config_reader import read_notify_config
from tests.admission.plain_configurations import to_typed
from tests.deploy.container_settings import get_container, get_pod, read_gate_settings, read_relay_settings
from tests.deploy.generate import CHART
from tests.deploy.rendering import Object, Objects, create_helm_command, render_chart

DIGEST = f"sha256:{'0' * 64}"
PLAIN_FIELDS: dict[str, tuple[Any, str]] = {
    "imagePullSecrets": ([{"name": "pull"}], "imagePullSecrets"),
    "tolerations": ([{"operator": "Exists"}], "tolerations"),
    "nodeSelector": ({"kubernetes.io/os": "linux", "pool": "system"}, "nodeSelector"),
    "affinity": ({"podAffinity": {}}, "affinity"),
    "topologySpreadConstraints": ([{"topologyKey": "rack", "maxSkew": 1}], "topologySpreadConstraints"),
    "priorityClassName": ("system-node-critical", "priorityClassName"),
}
"""A value, and the field of the pod that it is."""
CAP: dict[str, Any] = {
    "apiVersion": "tallygate.dev/v1alpha1",
    "kind": "NamespaceCap",
    "metadata": {"name": "gpus"},
    "spec": {"namespaces": {"include": ["team-*"]}, "hard": {"nvidia.com/gpu": 1000000}},
}
RECEIVER = {"name": "platform", "format": "slack", "urlFile": "slack"}
PORTS = {"ports": {"https": 10443, "monitor": 10090}, "relay.ports": {"upstream": 10444, "monitor": 10091}}


def read_errors(values: dict[str, Any]) -> str:
    """Return what Helm prints of invalid values."""
    done = subprocess.run(create_helm_command(values), capture_output=True, text=True, check=False)  # noqa: S603  built, no shell
    assert done.returncode
    return done.stderr


def list_own_subjects(chart: Objects) -> list[str]:
    """Return the names of the ServiceAccounts that get permissions or a priority level."""
    subjects: list[Object] = [subject for each in chart.values() for subject in each.get("subjects", ())]
    (rule,) = chart["FlowSchema", "tallygate"]["spec"]["rules"]
    return [each["name"] for each in subjects] + [each["serviceAccount"]["name"] for each in rule["subjects"]]


@pytest.mark.parametrize("value", PLAIN_FIELDS)
def test_a_value_that_is_a_field_of_the_pod_is_that_field(value: str) -> None:
    given, field = PLAIN_FIELDS[value]
    assert get_pod(render_chart({value: given}))[field] == given


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, f"tallygate:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}"),
        ({"tag": "7"}, "tallygate:7"),
        ({"repository": "registry.example.com/tallygate"}, "registry.example.com/tallygate:0.1.0"),
        ({"tag": "7", "digest": DIGEST}, f"tallygate@{DIGEST}"),
    ],
)
def test_the_image_is_of_the_digest_else_of_the_tag_else_of_the_charts_version(
    image: dict[str, str], expected: str
) -> None:
    chart = render_chart({f"image.{name}": each for name, each in image.items()} | {"relay.enabled": True})
    assert get_container(chart)["image"] == expected
    assert get_container(chart, "relay")["image"] == "haproxy:2.8"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"tag": "2.8.21"}, "haproxy:2.8.21"),
        ({"repository": "registry.example.com/haproxy"}, "registry.example.com/haproxy:2.8"),
        ({"tag": "2.8.21", "digest": DIGEST}, f"haproxy@{DIGEST}"),
    ],
)
def test_the_image_of_the_relay_is_of_its_own_digest_else_of_its_tag(image: dict[str, str], expected: str) -> None:
    chart = render_chart({f"relay.image.{name}": each for name, each in image.items()} | {"relay.enabled": True})
    assert get_container(chart, "relay")["image"] == expected
    assert get_container(chart)["image"] == get_container(render_chart({}))["image"]


def test_each_container_has_its_own_pull_policy_and_both_have_the_security_context() -> None:
    own = {"image.pullPolicy": "Always", "relay.image.pullPolicy": "Never"}
    chart = render_chart({**own, "securityContext.runAsUser": 7, "relay.enabled": True})
    policies = [get_container(chart, name)["imagePullPolicy"] for name in ("tallygate", "relay")]
    assert policies == ["Always", "Never"]
    for each in get_pod(chart)["containers"]:
        assert each["securityContext"]["runAsUser"] == 7
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_each_container_has_its_own_resources_and_arguments() -> None:
    chart = render_chart(
        {
            "resources": {"requests": {"cpu": "1"}},
            "relay.resources": {"requests": {"cpu": "2"}},
            "relay.enabled": True,
            "extraArgs": ["--log-level=debug"],
        }
    )
    gate, relay = get_container(chart), get_container(chart, "relay")
    assert (gate["resources"]["requests"]["cpu"], relay["resources"]["requests"]["cpu"]) == ("1", "2")
    assert gate["args"][-1] == "--log-level=debug"
    assert "--log-level=debug" not in [*relay["command"], *relay.get("args", ())]


def test_extras_of_a_user_come_beside_those_of_the_chart() -> None:
    before = render_chart({})
    chart = render_chart(
        {
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com"}],
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
            "podLabels": {"team": "platform"},
            "podAnnotations": {"example.com/scanned": "yes"},
        }
    )
    old, new = get_container(before), get_container(chart)
    assert new["env"] == [*old["env"], {"name": "HTTPS_PROXY", "value": "http://proxy.example.com"}]
    assert new["volumeMounts"] == [*old["volumeMounts"], {"name": "ca", "mountPath": "/ca"}]
    assert get_pod(chart)["volumes"] == [*get_pod(before)["volumes"], {"name": "ca", "configMap": {"name": "ca"}}]
    old_meta, new_meta = (each["Deployment", "tallygate"]["spec"]["template"]["metadata"] for each in (before, chart))
    assert new_meta == {
        "labels": {**old_meta["labels"], "team": "platform"},
        "annotations": {"example.com/scanned": "yes"},
    }


def test_an_annotation_of_a_user_comes_beside_the_checksum_of_the_relays_configuration() -> None:
    """Let new pods start when the configuration changes: HAProxy reads it only when it starts."""
    chart = render_chart({"podAnnotations": {"example.com/scanned": "yes"}, "relay.enabled": True})
    text = chart["ConfigMap", "tallygate-relay"]["data"]["haproxy.cfg"]
    assert chart["Deployment", "tallygate"]["spec"]["template"]["metadata"]["annotations"] == {
        "checksum/relay": hashlib.sha256(text.encode()).hexdigest(),
        "example.com/scanned": "yes",
    }


@pytest.mark.parametrize("replicas", [1, 2, 3, 9])
def test_the_number_of_replicas_is_the_value(replicas: int) -> None:
    chart = render_chart({"replicas": replicas})
    assert chart["Deployment", "tallygate"]["spec"]["replicas"] == replicas
    assert (("PodDisruptionBudget", "tallygate") in chart) is (replicas > 1)
    assert ("topologySpreadConstraints" in get_pod(chart)) is (replicas > 1)
    assert int(chart["ResourceQuota", "tallygate-critical-pods"]["spec"]["hard"]["pods"]) > replicas  # and a surge


def test_the_quota_is_for_the_priority_class_and_only_for_one_of_the_system() -> None:
    key = "ResourceQuota", "tallygate-critical-pods"
    (expression,) = render_chart({"priorityClassName": "system-node-critical"})[key]["spec"]["scopeSelector"][
        "matchExpressions"
    ]
    assert expression["values"] == ["system-node-critical"]
    for name in ("", "important"):
        chart = render_chart({"priorityClassName": name})
        assert key not in chart
        assert get_pod(chart).get("priorityClassName", "") == name


def test_the_permissions_are_bound_to_the_service_account_of_the_values() -> None:
    values = {"audit.enabled": True, "serviceAccount": {"name": "mine", "annotations": {"example.com/role": "gate"}}}
    chart = render_chart(values)
    assert chart["ServiceAccount", "mine"]["metadata"]["annotations"] == {"example.com/role": "gate"}
    assert get_pod(chart)["serviceAccountName"] == "mine"
    assert set(list_own_subjects(chart)) == {"mine"}
    other = render_chart(values | {"serviceAccount.create": False})
    assert {key for key in chart if key not in other} == {("ServiceAccount", "mine")}
    assert set(list_own_subjects(other)) == {"mine"}


def test_on_the_network_of_its_node_the_pod_listens_on_the_ports_of_the_values() -> None:
    chart = render_chart({**PORTS, "hostNetwork": True})
    pod, spec = get_pod(chart), chart["Deployment", "tallygate"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}  # a port of a node serves one pod
    settings = read_gate_settings(chart)
    assert {each["name"]: each["containerPort"] for each in get_container(chart)["ports"]} == {
        "https": settings.listen.port,
        "monitor": settings.monitor.port,
    }
    assert (settings.listen.port, settings.monitor.port) == (10443, 10090)
    assert chart["Service", "tallygate"]["spec"]["ports"] == [{"name": "https", "port": 443, "targetPort": "https"}]


def test_with_a_relay_all_four_ports_are_those_of_the_values() -> None:
    chart = render_chart({**PORTS, "relay.enabled": True})
    gate, relay = read_gate_settings(chart), read_relay_settings(chart)
    assert (gate.listen.port, gate.monitor.port) == (10444, 10090)
    assert (relay.gate, relay.gate_monitor) == (gate.listen, gate.monitor.port)
    assert (relay.listen.port, relay.monitor.port) == (10443, 10091)
    named = {each["name"]: each["containerPort"] for each in get_container(chart, "relay")["ports"]}
    assert named == {"https": 10443, "relay": 10091}
    assert chart["NetworkPolicy", "tallygate"]["spec"]["egress"][1]["ports"] == [{"port": 10443, "protocol": "TCP"}]


def test_a_network_policy_has_the_peers_and_the_ports_of_the_values() -> None:
    api_servers, prometheus = {"ipBlock": {"cidr": "10.0.0.0/24"}}, {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    values = {"apiServerPorts": [443, 16443], "reviewsFrom": [api_servers], "metricsFrom": [prometheus]}
    chart = render_chart({f"networkPolicy.{name}": each for name, each in values.items()})
    reviews, metrics = chart["NetworkPolicy", "tallygate"]["spec"]["ingress"]
    assert (reviews["from"], reviews["ports"]) == ([api_servers], [{"port": "https", "protocol": "TCP"}])
    asks = {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "ask"}}
    }
    assert (metrics["from"], metrics["ports"]) == ([prometheus, asks], [{"port": "monitor", "protocol": "TCP"}])
    (egress,) = chart["NetworkPolicy", "tallygate"]["spec"]["egress"]
    assert egress == {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 16443, "protocol": "TCP"}]}


def test_the_objects_for_prometheus_and_grafana_have_the_labels_and_the_interval_of_the_values() -> None:
    labels = {"release": "prometheus"}
    chart = render_chart(
        {
            "serviceMonitor": {"enabled": True, "labels": labels, "interval": "1m"},
            "prometheusRule": {"enabled": True, "labels": labels},
            "dashboard": {"enabled": True, "labels": {"grafana_dashboard": None, "board": "yes"}},
            "relay.enabled": True,
        }
    )
    for kind in ("ServiceMonitor", "PrometheusRule"):
        metadata = chart[kind, "tallygate"]["metadata"]
        assert metadata["labels"].items() >= {**labels, "app.kubernetes.io/component": "monitoring"}.items()
    endpoints = chart["ServiceMonitor", "tallygate"]["spec"]["endpoints"]
    assert endpoints == [{"port": "monitor", "interval": "1m"}, {"port": "relay", "interval": "1m"}]
    board = chart["ConfigMap", "tallygate-dashboard"]["metadata"]["labels"]
    assert board["board"] == "yes"
    assert "grafana_dashboard" not in board


def test_on_openshift_the_cluster_selects_the_users() -> None:
    chart = render_chart({f"podSecurityContext.{name}": None for name in ("runAsUser", "runAsGroup", "fsGroup")})
    assert get_pod(chart)["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_the_values_of_policies_and_registrations_change_them() -> None:
    chart = render_chart({"failurePolicy": "Ignore", "exempt": ["calico-system"], "policies": {"own.yaml": "# none\n"}})
    assert chart["ConfigMap", "tallygate-policies"]["data"] == {"own.yaml": "# none\n"}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert parse_choices(to_typed(chart[kind, "tallygate"])) == RegistrationChoices("Ignore", ("calico-system",))


def test_policies_that_are_values_are_files_that_the_gate_reads() -> None:
    """Write one policy, a list of policies and a text, each of which `tallygate lint` reads as it was meant."""
    others = [{**CAP, "metadata": {"name": name}} for name in ("a", "b")]
    text = f"# a comment\n{yaml.safe_dump({**CAP, 'metadata': {'name': 'c'}})}---\n"
    given = {"one.yaml": CAP, "two.yaml": others, "text.yaml": text}
    data = render_chart({"policies": given})["ConfigMap", "tallygate-policies"]["data"]
    assert data["text.yaml"] == text
    assert yaml.safe_load(data["one.yaml"]) == CAP
    assert list(yaml.safe_load_all(data["two.yaml"])) == others
    read = parse([(name, content.encode()) for name, content in data.items()])
    assert [cap.name for cap in read.policies.caps] == ["gpus", "c", "a", "b"]


def test_the_chart_has_the_schema_of_policies_of_now() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    kinds = schema["definitions"]["policy"]["properties"]["kind"]["enum"]
    checked = (CHART / "templates" / "_checks.tpl").read_text(encoding="utf-8")
    assert f"list {' '.join(json.dumps(kind) for kind in kinds)} " in checked


def test_replica_count_is_another_name_of_replicas() -> None:
    assert render_chart({"replicaCount": 3}) == render_chart({"replicas": 3})
    assert render_chart({"replicaCount": 2, "replicas": 2}) == render_chart({})
    default = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["replicas"]
    assert f"(list $replicas {default})" in (CHART / "templates" / "_checks.tpl").read_text(encoding="utf-8")


def test_the_level_of_logs_is_that_of_the_gate_and_of_the_server_of_asks() -> None:
    chart = render_chart({"logLevel": "debug", "ask.enabled": True})
    asks = chart["Deployment", "tallygate-ask"]["spec"]["template"]["spec"]["containers"][0]
    assert "--log-level=debug" in get_container(chart)["args"]
    assert "--log-level=debug" in asks["args"]


def test_values_of_a_release_without_the_relay_still_render() -> None:
    """Render the values of `helm upgrade --reuse-values`, which come without the defaults of a newer chart."""
    assert render_chart({"relay": None}) == render_chart({})


def test_receivers_have_their_file_their_secret_and_the_way_to_them() -> None:
    values = {"notify.receivers": [RECEIVER], "notify.cluster": "prod", "notify.secret": "own", "notify.ports": [8443]}
    chart = render_chart(values)
    text = chart["ConfigMap", "tallygate-notify"]["data"]["notify.yaml"]
    config, findings = read_notify_config("notify.yaml", text.encode())
    assert (config is not None and config.cluster, findings) == ("prod", ())
    volume = next(each for each in get_pod(chart)["volumes"] if each["name"] == "notify")
    assert volume["projected"]["sources"][1] == {"secret": {"name": "own", "optional": True}}
    ports = [[each["port"] for each in rule["ports"]] for rule in chart["NetworkPolicy", "tallygate"]["spec"]["egress"]]
    assert ports == [[443, 6443], [53, 53, 8443]]
    sums = [
        render_chart({**values, **other})["Deployment", "tallygate"]["spec"]["template"]["metadata"]["annotations"]
        for other in ({}, {"notify.cluster": "test"})
    ]
    assert sums[0]["checksum/notify"] != sums[1]["checksum/notify"]


def test_without_registration_there_is_no_webhook_configuration() -> None:
    chart = render_chart({"registration": False})
    assert not any(kind.endswith("WebhookConfiguration") for kind, _ in chart)
    assert ("Deployment", "tallygate") in chart


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicasCount": 3}, "additional properties 'replicasCount' not allowed"),
        ({"replicaCount": 10}, "at '/replicaCount': maximum: got 10, want 9"),
        ({"replicaCount": 3, "replicas": 4}, "replicaCount: it is 3 and replicas is 4, and both are the number of"),
        ({"ledgers": "memory", "replicaCount": 3}, "replicas: with ledgers=memory each of 3 replicas would admit"),
        ({"logLevel": "trace"}, "at '/logLevel': value must be one of"),
        (
            {"logLevel": "debug", "extraArgs": ["--log-level=info"]},
            "logLevel: --log-level=info is among the arguments too; set one of them",
        ),
        ({"policies": {"gpus": CAP}}, "'gpus' does not match pattern"),
        (
            {"policies": {"gpus.yaml": {**CAP, "spec": {"hart": {}}}}},
            "at '/policies/gpus.yaml/spec': additional properties 'hart' not allowed",
        ),
        (
            {"policies": {"gpus.yaml": [CAP, {**CAP, "kind": "Cap"}]}},
            "at '/policies/gpus.yaml/1/kind': value must be one of",
        ),
        (
            {"policies": {"gpus.yaml": f"{yaml.safe_dump(CAP)}---\nkind: Pod\n"}},
            "policies: document 2 of gpus.yaml is no policy: its kind is Pod; check the file by `tallygate lint`",
        ),
        ({"policies": {"gpus.yaml": "kind: [\n"}}, "policies: document 1 of gpus.yaml is no policy: error converting"),
        ({"image": {"repository": "a", "name": "b"}}, "at '/image': additional properties 'name' not allowed"),
        ({"image.tag": 1.5}, "at '/image/tag': got number, want string"),
        ({"image.repository": "a\n        command: [b] #"}, "at '/image/repository': "),
        ({"image.repository": ""}, "at '/image/repository': '' does not match"),
        ({"relay.image.repository": "a b"}, "at '/relay/image/repository': 'a b' does not match"),
        ({"priorityClassName": "a\n      hostPID: true"}, "at '/priorityClassName': "),
        ({"ask.priorityClassName": "a: b"}, "at '/ask/priorityClassName': 'a: b' does not match"),
        ({"devicePlugin.priorityClassName": "A"}, "at '/devicePlugin/priorityClassName': 'A' does not match"),
        ({"ask.url": "https://a\n        - --log-level=debug"}, "at '/ask/url': "),
        ({"certificates": "none"}, "at '/certificates': value must be one of"),
        ({"ledgers": "file"}, "at '/ledgers': value must be one of 'kubernetes', 'memory'"),
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": 10}, "at '/replicas': maximum: got 10, want 9"),
        ({"audit.interval": "hourly"}, "at '/audit/interval': 'hourly' does not match"),
        ({"token": "short"}, "at '/token'"),
        ({"relay": True}, "at '/relay': got boolean, want object"),
        ({"relay.image.tag": ""}, "at '/relay/image/tag': '' does not match"),
        ({"relay.image.name": "b"}, "at '/relay/image': additional properties 'name' not allowed"),
        ({"networkPolicy": False}, "at '/networkPolicy': got boolean, want object"),
        ({"networkPolicy.metricsFrom": []}, "at '/networkPolicy/metricsFrom': minItems"),  # that would mean: from all
        ({"exempt": ["Not_A_Name"]}, "at '/exempt/0'"),
        ({"extraArgs": ["log-level=debug"]}, "at '/extraArgs/0'"),
        ({"ports.https": 443}, "at '/ports/https': minimum: got 443, want 1,024"),
        ({"podSecurityContext.runAsNonRoot": False}, "at '/podSecurityContext/runAsNonRoot': value must be true"),
        ({"securityContext.privileged": True}, "at '/securityContext/privileged': value must be false"),
        ({"securityContext.capabilities.drop": []}, "at '/securityContext/capabilities/drop'"),
        (
            {"ledgers": "memory"},
            "replicas: with ledgers=memory each of 2 replicas would admit as much as a cap allows; set replicas=1, or",
        ),
        (
            {"ledgers": "memory", "replicas": 1, "profile": "available"},
            "profile: a gate with ledgers=memory does not watch the cluster",
        ),
        (
            {"ledgers": "memory", "replicas": 1, "publishNodes.enabled": True},
            "publishNodes.enabled: a gate with ledgers=memory does not watch the cluster",
        ),
        (
            {"ledgers": "memory", "replicas": 1, "publishUsage": True},
            "publishUsage: a gate with ledgers=memory does not watch the cluster",
        ),
        (
            {"ledgers": "memory", "replicas": 1, "audit.enabled": True},
            "audit.enabled: a gate with ledgers=memory does not watch the cluster",
        ),
        (
            {"ledgers": "memory", "replicas": 1, "notify.receivers": [RECEIVER]},
            "notify.receivers: a gate with ledgers=memory does not watch the cluster",
        ),
        ({"notify.receivers": [{"name": "a"}]}, "at '/notify/receivers/0': missing property 'urlFile'"),
        (
            {"notify.receivers": [{**RECEIVER, "format": "mail"}]},
            "at '/notify/receivers/0/format': value must be one of",
        ),
        (
            {"notify.receivers": [{**RECEIVER, "events": {"capful": {}}}]},
            "at '/notify/receivers/0/events': additional properties 'capful' not allowed",
        ),
        ({"podAnnotations": {"checksum/notify": "a"}}, "podAnnotations: checksum/notify is an annotation of the chart"),
        ({"serviceAccount.create": False}, "serviceAccount.name: with serviceAccount.create=false"),
        ({"ports.https": 9090}, "ports: 9090, 9090 are not all different"),
        ({"ports.https": 8444, "relay.enabled": True}, "ports: 8444, 9090, 8444, 9091 are not all different"),
        (
            {"relay.enabled": True, "relay.image": None},
            "relay.image: these values, which are those of an older release, have no image of HAProxy; set it, or run",
        ),
        ({"podAnnotations": {"checksum/relay": "a"}}, "podAnnotations: checksum/relay is an annotation of the chart"),
        ({"podLabels": {"app.kubernetes.io/name": "a"}}, "podLabels: app.kubernetes.io/name is a label of the chart"),
        ({"extraEnv": [{"name": "TALLYGATE_NAMESPACE"}]}, "extraEnv: TALLYGATE_NAMESPACE is set by the chart"),
    ],
    ids=str,
)
def test_an_invalid_value_is_rejected_by_its_name(values: dict[str, Any], message: str) -> None:
    assert message in read_errors(values)


def test_a_volume_of_the_chart_is_rejected_by_its_name() -> None:
    values = {"token": "0123456789abcdef", "relay.enabled": True, "notify.receivers": [RECEIVER]}
    own = [each["name"] for each in get_pod(render_chart(values))["volumes"]]
    assert len(own) == 8
    for name in own:
        assert f"extraVolumes: {name} is a volume of the chart" in read_errors({"extraVolumes": [{"name": name}]})
