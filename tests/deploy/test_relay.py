"""The component `relay`: it combines with every other component, and its two processes fit each other."""

from copy import deepcopy
from itertools import product
from pathlib import Path

import pytest

from tallygate.certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE
from tallygate.certs.certificate_names import create_service_names
from tallygate.certs.served_files import ServedFiles
from tallygate.webhook.admission.webhook_configuration import (
    DEFAULT_NAMESPACE,
    ServiceTarget,
    create_webhook_configurations,
)
from tests.deploy.container_settings import get_container, get_pod, read_gate_settings, read_relay_settings
from tests.deploy.rendering import Objects, compose_objects, render_overlay

SIZES = ("", "cluster-access", "ha")
CERTIFICATES = ("", "self-signed", "cert-manager")
EXTRAS = ("audit", "token", "network", "flow-control", "monitoring", "dashboard")
END_SECONDS = 5  # of the grace period that are left after the drains
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


def test_with_every_size_and_certificate_the_gate_of_the_pod_is_the_upstream(objects: Objects) -> None:
    gate, relay = read_gate_settings(objects), read_relay_settings(objects)
    assert relay.upstream == gate.listen
    assert gate.listen.host == "127.0.0.1"
    ports = {gate.listen.port, gate.monitor.port, relay.settings.listen.port, relay.settings.monitor.port}
    assert len(ports) == 4  # they share one network


def test_the_relay_mounts_the_gates_certificate_read_only(objects: Objects) -> None:
    gate, relay = read_gate_settings(objects), read_relay_settings(objects).settings
    written = ServedFiles(gate.tls_dir) if gate.tls_dir else None
    for own, name, theirs in (
        (relay.tls_cert, CHAIN_FILE, written.chain if written else gate.tls_cert),
        (relay.tls_key, KEY_FILE, written.key if written else gate.tls_key),
    ):
        assert find_volume(objects, "relay", own) == find_volume(objects, "tallygate", theirs)
        assert find_volume(objects, "relay", own)[1] == name
    mounts = {each["name"]: each.get("readOnly", False) for each in get_container(objects, "relay")["volumeMounts"]}
    assert mounts == {"tls": True, "authority": True, "scratch": False, "no-token": True}


def test_the_relay_has_no_token_of_the_api_server() -> None:
    """Mount an empty volume there: the API server keeps it (plugin/pkg/admission/serviceaccount, v1.36)."""
    objects = compose_relay("ha", "self-signed")
    found, _ = find_volume(objects, "relay", "/var/run/secrets/kubernetes.io/serviceaccount")
    assert found == {"name": "no-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    assert get_pod(objects)["automountServiceAccountToken"] is True  # for the gate


def test_peers_are_called_by_the_name_in_their_certificate_and_their_ca_may_come_later(
    objects: Objects,
) -> None:
    relay = read_relay_settings(objects)
    assert relay.peers.host in create_service_names("tallygate", DEFAULT_NAMESPACE).dns
    (offered,) = objects["Service", "tallygate"]["spec"]["ports"]
    assert relay.peers.port == offered["port"]
    found, rest = find_volume(objects, "relay", relay.peers_ca_file)
    assert rest == CA_FILE
    assert found == {
        "name": "authority",
        "secret": {
            "secretName": "tallygate-tls",
            "items": [{"key": CA_FILE, "path": CA_FILE}],  # the key is not handed over twice
            "optional": True,
            "defaultMode": 0o440,
        },
    }


def test_the_service_targets_the_relay_and_no_port_of_the_pod_targets_the_gate() -> None:
    objects = compose_relay()
    (offered,) = objects["Service", "tallygate"]["spec"]["ports"]
    named = {each["name"]: each["containerPort"] for each in get_container(objects, "relay")["ports"]}
    read = read_relay_settings(objects).settings
    assert named == {offered["targetPort"]: read.listen.port, "relay": read.monitor.port}
    assert [each["name"] for each in get_container(objects)["ports"]] == ["monitor"]


def test_the_gate_outlasts_the_drain_of_the_relay_and_both_end_within_the_grace_period() -> None:
    objects = compose_relay()
    gate, relay = read_gate_settings(objects), read_relay_settings(objects).settings
    assert gate.drain_delay > relay.drain_delay + relay.drain_timeout
    grace = get_pod(objects)["terminationGracePeriodSeconds"]
    assert grace >= gate.drain_delay + gate.drain_timeout + END_SECONDS
    _, validating = create_webhook_configurations(ServiceTarget())
    longest = max(each["timeoutSeconds"] for each in validating["webhooks"])
    assert relay.drain_timeout > longest  # the longest time that an API server waits for a review


def test_a_relay_stops_being_called_before_it_stops_listening() -> None:
    objects = compose_relay()
    probe = get_container(objects, "relay")["readinessProbe"]
    assert read_relay_settings(objects).settings.drain_delay > probe["periodSeconds"] * probe["failureThreshold"]


def test_the_relay_has_the_image_the_probes_and_the_restrictions_of_the_gate() -> None:
    overlay = render_overlay(
        {"components": ["relay"], "images": [{"name": "tallygate", "newName": "mine", "newTag": "7"}]}
    )
    gate, relay = get_container(overlay), get_container(overlay, "relay")
    assert (relay["image"], relay["image"]) == (gate["image"], "mine:7")
    for same in ("imagePullPolicy", "securityContext", "env"):
        assert relay[same] == gate[same]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert relay[probe]["httpGet"] == {**gate[probe]["httpGet"], "port": "relay"}


def test_its_startup_probe_outlasts_the_wait_for_its_certificate() -> None:
    probe = get_container(compose_relay(), "relay")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 60  # webhook/server/relay/serve_relay.py


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
        "ports": [{"port": read_relay_settings(objects).settings.listen.port, "protocol": "TCP"}],
        "to": [{"podSelector": policy["podSelector"]}],
    }
    assert names == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    assert read_relay_settings(objects).peers.port in [each["port"] for each in existing["ports"]]


def test_it_adds_no_object_of_a_component_that_is_not_chosen() -> None:
    assert set(compose_relay()) == set(compose_objects())
    assert {key for key in compose_relay("monitoring") if key not in compose_objects("monitoring")} == set()


def test_its_metrics_are_scraped_together_with_the_gates() -> None:
    objects = compose_relay("monitoring")
    service, monitor = objects["Service", "tallygate-metrics"], objects["ServiceMonitor", "tallygate"]["spec"]
    offered = {each["name"]: (each["port"], each["targetPort"]) for each in service["spec"]["ports"]}
    assert offered == {
        "monitor": (9090, "monitor"),
        "relay": (read_relay_settings(objects).settings.monitor.port, "relay"),
    }
    assert [each["port"] for each in monitor["endpoints"]] == list(offered)


def test_it_changes_only_the_pod_and_the_objects_that_target_it() -> None:
    before, after = compose_objects("ha", "self-signed", *EXTRAS), compose_relay("ha", "self-signed", *EXTRAS)
    assert set(before) == set(after)
    changed = {key for key, each in after.items() if each != before[key]}
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
        template["volumes"].sort(key=lambda volume: volume["name"])
    assert deployments[0] == deployments[1]
