"""The component `relay`: it combines with every other component, and the gate and HAProxy fit each other."""

import hashlib
import re
from copy import deepcopy
from itertools import product
from pathlib import Path

import pytest

from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE, ServiceTarget
from tallygate.server.lifecycle import REQUEST_TIMES
from tallygate_certs.certificate_names import create_service_names
from tests.admission.plain_configurations import create_plain_configurations
from tests.deploy.container_settings import (
    get_container,
    get_pod,
    read_environment,
    read_gate_settings,
    read_relay_configuration,
    read_relay_end,
    read_relay_settings,
)
from tests.deploy.generate import CHART, HAPROXY
from tests.deploy.rendering import Objects, compose_objects, render_overlay

SIZES = ("", "cluster-access", "ha")
CERTIFICATES = ("", "self-signed", "cert-manager")
EXTRAS = ("audit", "token", "network", "flow-control", "monitoring", "dashboard")
END_SECONDS = 5  # of the grace period that are left after the drains
CONFIGURATION = ("ConfigMap", "tallygate-relay")
TARGETS_OF_RELAY = {("NetworkPolicy", "tallygate"), ("Service", "tallygate-metrics"), ("ServiceMonitor", "tallygate")}


def compose_relay(*components: str) -> Objects:
    """Return the objects of the base with these components and the relay."""
    return compose_objects(*filter(None, components), "relay")


def find_volume(objects: Objects, name: str, path: str | Path | None) -> tuple[object, str]:
    """Return the volume that contains a path of a container, and the rest of the path."""
    assert path is not None
    for mount in get_container(objects, name)["volumeMounts"]:
        if Path(path).is_relative_to(mount["mountPath"]):
            (found,) = (each for each in get_pod(objects)["volumes"] if each["name"] == mount["name"])
            return found, str(Path(path).relative_to(mount["mountPath"]))
    raise AssertionError(f"{path} is not mounted")


@pytest.fixture(params=product(SIZES, CERTIFICATES), ids="-".join)
def objects(request: pytest.FixtureRequest) -> Objects:
    """Return the objects of a relay with each size and each certificate."""
    return compose_relay(*request.param)


def test_with_every_size_and_certificate_the_relay_calls_and_checks_the_gate_of_its_pod(objects: Objects) -> None:
    gate, relay = read_gate_settings(objects), read_relay_settings(objects)
    assert relay.gate == gate.listen
    assert gate.listen.host == "127.0.0.1"
    assert relay.gate_monitor == gate.monitor.port
    assert {gate.monitor.host, relay.listen.host, relay.monitor.host} == {"0.0.0.0"}  # noqa: S104  and so loopback too
    ports = {gate.listen.port, gate.monitor.port, relay.listen.port, relay.monitor.port}
    assert len(ports) == 4  # they share one network


def test_gate_and_relay_share_a_directory_in_memory_that_both_write(objects: Objects) -> None:
    directory = read_gate_settings(objects).relay_dir
    assert directory == read_relay_settings(objects).folder
    shared, rest = find_volume(objects, "relay", directory)
    assert (shared, rest) == find_volume(objects, "tallygate", directory)
    assert (shared, rest) == ({"name": "relay", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, ".")
    for name in ("tallygate", "relay"):
        (mount,) = (each for each in get_container(objects, name)["volumeMounts"] if each["name"] == "relay")
        assert mount == {"name": "relay", "mountPath": str(directory)}


def test_the_relay_mounts_no_volume_of_the_gate_but_that_directory(objects: Objects) -> None:
    mounts = {each["name"]: each.get("readOnly", False) for each in get_container(objects, "relay")["volumeMounts"]}
    assert mounts == {"relay-configuration": True, "relay": False, "no-token": True}
    assert mounts.keys() & {each["name"] for each in get_container(objects)["volumeMounts"]} == {"relay"}
    volumes = [each["name"] for each in get_pod(objects)["volumes"]]
    assert len(volumes) == len(set(volumes))
    assert set(volumes) == mounts.keys() | {each["name"] for each in get_container(objects)["volumeMounts"]}


def test_haproxy_reads_the_file_of_the_config_map(objects: Objects) -> None:
    path = re.search(r"exec haproxy -db -f (\S+)$", get_container(objects, "relay")["command"][-1])
    assert path
    volume, file = find_volume(objects, "relay", path[1])
    assert volume == {"name": "relay-configuration", "configMap": {"name": CONFIGURATION[1]}}
    assert objects[CONFIGURATION]["data"] == {file: HAPROXY.read_text(encoding="utf-8")}


def test_every_variable_of_the_configuration_is_set_and_every_other_is_not() -> None:
    objects = compose_relay()
    used = set(re.findall(r"\$\{?(\w+)", read_relay_configuration(objects)))
    assert used == read_environment(get_container(objects, "relay")).keys() - {"TALLYGATE_NAMESPACE"}


def test_another_configuration_starts_new_pods() -> None:
    annotations = compose_relay()["Deployment", "tallygate"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"checksum/relay": hashlib.sha256(HAPROXY.read_bytes()).hexdigest()}


def test_the_configuration_of_the_chart_is_the_same_file() -> None:
    assert (CHART / "files" / HAPROXY.name).read_bytes() == HAPROXY.read_bytes()


def test_the_relay_has_no_token_of_the_api_server() -> None:
    """Mount an empty volume there: the API server keeps it (plugin/pkg/admission/serviceaccount, v1.36)."""
    objects = compose_relay("ha", "self-signed")
    found, _ = find_volume(objects, "relay", "/var/run/secrets/kubernetes.io/serviceaccount")
    assert found == {"name": "no-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    assert get_pod(objects)["automountServiceAccountToken"] is True  # for the gate


def test_peers_are_called_by_the_name_in_their_certificate(objects: Objects) -> None:
    relay = read_relay_settings(objects)
    assert relay.peers_name in create_service_names("tallygate", DEFAULT_NAMESPACE).dns
    (offered,) = objects["Service", "tallygate"]["spec"]["ports"]
    assert relay.peers == f"{relay.peers_name}:{offered['port']}"


def test_the_service_targets_the_relay_and_no_port_of_the_pod_targets_the_gate() -> None:
    objects = compose_relay()
    (offered,) = objects["Service", "tallygate"]["spec"]["ports"]
    named = {each["name"]: each["containerPort"] for each in get_container(objects, "relay")["ports"]}
    read = read_relay_settings(objects)
    assert named == {offered["targetPort"]: read.listen.port, "relay": read.monitor.port}
    assert [each["name"] for each in get_container(objects)["ports"]] == ["monitor"]


def test_the_gate_outlasts_the_relay_and_both_end_within_the_grace_period() -> None:
    objects = compose_relay()
    gate, relay = read_gate_settings(objects), read_relay_end(objects)
    assert gate.drain_delay > relay.pre_stop + relay.hard_stop_after
    grace = get_pod(objects)["terminationGracePeriodSeconds"]
    assert grace >= gate.drain_delay + REQUEST_TIMES.drain + END_SECONDS
    _, validating = create_plain_configurations(ServiceTarget())
    longest = max(each["timeoutSeconds"] for each in validating["webhooks"])
    assert relay.hard_stop_after > longest  # the longest time that an API server waits for a review


def test_a_relay_stops_being_called_before_it_stops_listening() -> None:
    objects = compose_relay()
    probe = get_container(objects, "relay")["readinessProbe"]
    assert read_relay_end(objects).pre_stop > probe["periodSeconds"] * probe["failureThreshold"]


def test_the_relay_has_an_image_of_its_own_and_the_restrictions_and_the_probes_of_the_gate() -> None:
    images = [{"name": "tallygate", "newName": "mine", "newTag": "7"}, {"name": "haproxy", "newName": "mirror/haproxy"}]
    overlay = render_overlay({"components": ["relay"], "images": images})
    gate, relay = get_container(overlay), get_container(overlay, "relay")
    assert (gate["image"], relay["image"]) == ("mine:7", "mirror/haproxy:2.8")
    assert get_container(compose_relay(), "relay")["image"] == "haproxy:2.8"
    for same in ("imagePullPolicy", "securityContext"):
        assert relay[same] == gate[same]
    assert relay["env"][0] == gate["env"][0]  # the namespace, which other variables name
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert relay[probe]["httpGet"] == {"path": "/healthz", "port": "relay"}
        for same in ("periodSeconds", "timeoutSeconds"):
            assert relay[probe][same] == gate[probe][same]


def test_its_startup_probe_outlasts_that_of_the_gate_which_makes_its_certificate() -> None:
    gate, relay = (get_container(compose_relay(), name)["startupProbe"] for name in ("tallygate", "relay"))
    seconds = [each["periodSeconds"] * each["failureThreshold"] for each in (gate, relay)]
    assert seconds[1] >= 2 * seconds[0]


def test_with_a_network_policy_it_reaches_dns_and_peers_and_its_metrics_are_scraped() -> None:
    objects = compose_relay("network")
    before, policy = (each["NetworkPolicy", "tallygate"]["spec"] for each in (compose_objects("network"), objects))
    open_, closed = policy["ingress"]
    assert open_ == before["ingress"][0]
    assert closed["from"] == before["ingress"][1]["from"]
    assert [each["port"] for each in closed["ports"]] == ["monitor", "relay"]
    ports = {each["name"] for name in ("tallygate", "relay") for each in get_container(objects, name)["ports"]}
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == ports
    existing, replicas, names = policy["egress"]
    assert [existing] == before["egress"]
    assert replicas == {
        "ports": [{"port": read_relay_settings(objects).listen.port, "protocol": "TCP"}],
        "to": [{"podSelector": policy["podSelector"]}],
    }
    assert names == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    _, port = read_relay_settings(objects).peers.split(":")
    assert int(port) in [each["port"] for each in existing["ports"]]


def test_it_adds_its_configuration_and_no_object_of_a_component_that_is_not_chosen() -> None:
    for components in ((), ("network",), ("monitoring",)):
        before, after = compose_objects(*components), compose_relay(*components)
        assert after.keys() - before.keys() == {CONFIGURATION}
        assert before.keys() <= after.keys()
    metadata = compose_relay()[CONFIGURATION]["metadata"]
    assert metadata["labels"] == compose_relay()["Service", "tallygate"]["metadata"]["labels"]
    assert metadata["namespace"] == DEFAULT_NAMESPACE


def test_its_metrics_are_scraped_together_with_the_gates() -> None:
    objects = compose_relay("monitoring")
    service, monitor = objects["Service", "tallygate-metrics"], objects["ServiceMonitor", "tallygate"]["spec"]
    offered = {each["name"]: (each["port"], each["targetPort"]) for each in service["spec"]["ports"]}
    assert offered == {
        "monitor": (9090, "monitor"),
        "relay": (read_relay_settings(objects).monitor.port, "relay"),
    }
    assert [each["port"] for each in monitor["endpoints"]] == list(offered)


def test_it_changes_only_the_pod_and_the_objects_that_target_it() -> None:
    before, after = compose_objects("ha", "self-signed", *EXTRAS), compose_relay("ha", "self-signed", *EXTRAS)
    assert set(before) | {CONFIGURATION} == set(after)
    changed = {key for key, each in after.items() if key in before and each != before[key]}
    assert changed == {("Deployment", "tallygate"), *TARGETS_OF_RELAY}


@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_listed_first_it_misses_only_network_and_monitoring(certificates: str) -> None:
    """Compare the two orders; the page recommends to list it last."""
    chosen = [*filter(None, ("ha", certificates)), *EXTRAS]
    last, first = compose_relay(*chosen), compose_objects("relay", *chosen)
    assert {key for key, each in last.items() if each != first[key]} - {("Deployment", "tallygate")} == TARGETS_OF_RELAY
    deployments = [deepcopy(each["Deployment", "tallygate"]) for each in (last, first)]
    for each in deployments:
        template = each["spec"]["template"]["spec"]
        template["containers"][0]["args"].sort()  # the order in which components have added theirs
        template["containers"][0]["volumeMounts"].sort(key=lambda mount: mount["name"])
        template["volumes"].sort(key=lambda volume: volume["name"])
    assert deployments[0] == deployments[1]
