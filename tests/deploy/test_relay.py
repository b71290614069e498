"""The component `relay`: it fits whatever else is chosen, and its two processes fit each other."""

from copy import deepcopy
from itertools import product
from pathlib import Path

import pytest

from certs.cert_files import CA_FILE, CHAIN_FILE, KEY_FILE
from certs.certificate_names import create_service_names
from certs.served_files import ServedFiles
from tests.deploy.rendered import Objects, composed, overlaid
from tests.deploy.started import container, gate_settings, pod, relay_settings
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE

SIZES = ("", "cluster-access", "ha")
CERTIFICATES = ("", "self-signed", "cert-manager")
EXTRAS = ("audit", "token", "network", "flow-control", "monitoring", "dashboard")
END_SECONDS = 5  # of the grace that is left when the drains are over
LEADS_THERE = {("NetworkPolicy", "tallygate"), ("Service", "tallygate-metrics"), ("ServiceMonitor", "tallygate")}


def relayed(*components: str) -> Objects:
    """The base with these components, and the relay on top."""
    return composed(*filter(None, components), "relay")


def volume(objects: Objects, name: str, path: str | Path | None) -> tuple[object, str]:
    """What the volume is in which a container has a path, and the rest of the path."""
    assert path is not None
    for mount in container(objects, name)["volumeMounts"]:
        if Path(path).is_relative_to(mount["mountPath"]):
            (found,) = (each for each in pod(objects)["volumes"] if each["name"] == mount["name"])
            return found, str(Path(path).relative_to(mount["mountPath"]))
    raise AssertionError(f"{path} is not mounted")


@pytest.fixture(params=product(SIZES, CERTIFICATES), ids="-".join)
def objects(request: pytest.FixtureRequest) -> Objects:
    """A relay with each size and each certificate."""
    return relayed(*request.param)


def test_with_every_size_and_every_certificate_the_relay_asks_the_gate_beside_it(objects: Objects) -> None:
    gate, relay = gate_settings(objects), relay_settings(objects)
    assert relay.upstream == gate.listen
    assert gate.listen.host == "127.0.0.1"
    ports = {gate.listen.port, gate.monitor.port, relay.settings.listen.port, relay.settings.monitor.port}
    assert len(ports) == 4  # they share one network


def test_the_relay_reads_what_the_gate_serves_with_and_cannot_write_it(objects: Objects) -> None:
    gate, relay = gate_settings(objects), relay_settings(objects).settings
    written = ServedFiles(gate.tls_dir) if gate.tls_dir else None
    for own, name, theirs in (
        (relay.tls_cert, CHAIN_FILE, written.chain if written else gate.tls_cert),
        (relay.tls_key, KEY_FILE, written.key if written else gate.tls_key),
    ):
        assert volume(objects, "relay", own) == volume(objects, "tallygate", theirs)
        assert volume(objects, "relay", own)[1] == name
    mounts = {each["name"]: each.get("readOnly", False) for each in container(objects, "relay")["volumeMounts"]}
    assert mounts == {"tls": True, "authority": True, "scratch": False, "no-token": True}


def test_no_token_of_the_api_server_is_handed_to_it() -> None:
    """Whatever is mounted there already the API server leaves alone (plugin/pkg/admission/serviceaccount, v1.36)."""
    objects = relayed("ha", "self-signed")
    found, _ = volume(objects, "relay", "/var/run/secrets/kubernetes.io/serviceaccount")
    assert found == {"name": "no-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    assert pod(objects)["automountServiceAccountToken"] is True  # for the gate


def test_another_replica_is_asked_by_the_name_in_its_certificate_and_known_by_what_may_come_later(
    objects: Objects,
) -> None:
    relay = relay_settings(objects)
    assert relay.peers.host in create_service_names("tallygate", DEFAULT_NAMESPACE).dns
    (offered,) = objects["Service", "tallygate"]["spec"]["ports"]
    assert relay.peers.port == offered["port"]
    found, rest = volume(objects, "relay", relay.peers_ca_file)
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


def test_the_service_leads_to_the_relay_and_no_port_of_the_pod_to_the_gate() -> None:
    objects = relayed()
    (offered,) = objects["Service", "tallygate"]["spec"]["ports"]
    named = {each["name"]: each["containerPort"] for each in container(objects, "relay")["ports"]}
    read = relay_settings(objects).settings
    assert named == {offered["targetPort"]: read.listen.port, "relay": read.monitor.port}
    assert [each["name"] for each in container(objects)["ports"]] == ["monitor"]


def test_the_gate_outlasts_the_drain_of_the_relay_and_both_end_within_the_grace_period() -> None:
    objects = relayed()
    gate, relay = gate_settings(objects), relay_settings(objects).settings
    assert gate.drain_delay > relay.drain_delay + relay.drain_timeout
    grace = pod(objects)["terminationGracePeriodSeconds"]
    assert grace >= gate.drain_delay + gate.drain_timeout + END_SECONDS
    longest = max(each["timeoutSeconds"] for each in objects["ValidatingWebhookConfiguration", "tallygate"]["webhooks"])
    assert relay.drain_timeout > longest  # so long an API server waits for what it has asked


def test_a_relay_stops_being_called_before_it_stops_listening() -> None:
    objects = relayed()
    probe = container(objects, "relay")["readinessProbe"]
    assert relay_settings(objects).settings.drain_delay > probe["periodSeconds"] * probe["failureThreshold"]


def test_the_relay_is_the_gates_image_asked_and_held_down_as_the_gate_is() -> None:
    overlay = overlaid({"components": ["relay"], "images": [{"name": "tallygate", "newName": "mine", "newTag": "7"}]})
    gate, relay = container(overlay), container(overlay, "relay")
    assert (relay["image"], relay["image"]) == (gate["image"], "mine:7")
    for same in ("imagePullPolicy", "securityContext", "env"):
        assert relay[same] == gate[same]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert relay[probe]["httpGet"] == {**gate[probe]["httpGet"], "port": "relay"}


def test_it_is_waited_for_longer_than_it_waits_for_its_certificate() -> None:
    probe = container(relayed(), "relay")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 60  # webhook/server/relay/serve_relay.py


def test_with_a_network_policy_it_reaches_names_and_other_replicas_and_its_metrics_are_scraped() -> None:
    objects = relayed("network")
    before, policy = (each["NetworkPolicy", "tallygate"]["spec"] for each in (composed("network"), objects))
    open_, closed = policy["ingress"]
    assert open_ == before["ingress"][0]
    assert closed["from"] == before["ingress"][1]["from"]
    assert [each["port"] for each in closed["ports"]] == ["monitor", "relay"]
    ports = {each["name"] for name in ("tallygate", "relay") for each in container(objects, name)["ports"]}
    assert {each["port"] for rule in policy["ingress"] for each in rule["ports"]} == ports
    kept, replicas, names = policy["egress"]
    assert [kept] == before["egress"]
    assert replicas == {
        "ports": [{"port": relay_settings(objects).settings.listen.port, "protocol": "TCP"}],
        "to": [{"podSelector": policy["podSelector"]}],
    }
    assert names == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    assert relay_settings(objects).peers.port in [each["port"] for each in kept["ports"]]


def test_what_is_not_chosen_is_passed_over() -> None:
    assert set(relayed()) == set(composed())
    assert {key for key in relayed("monitoring") if key not in composed("monitoring")} == set()


def test_its_metrics_are_scraped_beside_the_gates() -> None:
    objects = relayed("monitoring")
    service, monitor = objects["Service", "tallygate-metrics"], objects["ServiceMonitor", "tallygate"]["spec"]
    offered = {each["name"]: (each["port"], each["targetPort"]) for each in service["spec"]["ports"]}
    assert offered == {"monitor": (9090, "monitor"), "relay": (relay_settings(objects).settings.monitor.port, "relay")}
    assert [each["port"] for each in monitor["endpoints"]] == list(offered)


def test_it_changes_nothing_but_the_pod_and_what_leads_there() -> None:
    before, after = composed("ha", "self-signed", *EXTRAS), relayed("ha", "self-signed", *EXTRAS)
    assert set(before) == set(after)
    changed = {key for key, each in after.items() if each != before[key]}
    assert changed == {("Deployment", "tallygate"), *LEADS_THERE}


@pytest.mark.parametrize("certificates", CERTIFICATES)
def test_of_what_comes_after_it_only_network_and_monitoring_are_missed(certificates: str) -> None:
    """As the page says: list it last."""
    chosen = [*filter(None, ("ha", certificates)), *EXTRAS]
    last, first = relayed(*chosen), composed("relay", *chosen)
    assert {key for key, each in last.items() if each != first[key]} - {("Deployment", "tallygate")} == LEADS_THERE
    deployments = [deepcopy(each["Deployment", "tallygate"]) for each in (last, first)]
    for each in deployments:
        template = each["spec"]["template"]["spec"]
        template["containers"][0]["args"].sort()  # the order in which components have added theirs
        template["volumes"].sort(key=lambda volume: volume["name"])
    assert deployments[0] == deployments[1]
