"""The DaemonSet of the device plugin: the rights of its pods, its arguments, and the chart beside the component."""

from typing import Any

import pytest
import yaml
from click import Context

from tallygate.cli.device_plugin import device_plugin
from tallygate.device_plugin.device_config_reader import read_device_config
from tests.deploy.generate import COMPONENTS
from tests.deploy.rendering import Objects, compose_objects, render_chart

_NAME = "tallygate-device-plugin"
_FOLDER = COMPONENTS / "device-plugin"
_RESOURCES = [{"name": "example.com/serial-port", "devices": [{"path": "/dev/ttyUSB*"}]}]
_ENABLED = {"devicePlugin.enabled": True, "devicePlugin.config.resources": _RESOURCES}


def _read_files() -> Objects:
    """Return the objects of the component's own files, which need no kustomize."""
    texts = [(_FOLDER / name).read_text("utf-8") for name in ("namespace.yaml", "daemonset.yaml")]
    objects = [each for text in texts for each in yaml.safe_load_all(text)]
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def _get_pod(objects: Objects) -> dict[str, Any]:
    pod: dict[str, Any] = objects["DaemonSet", _NAME]["spec"]["template"]["spec"]
    return pod


def test_a_pod_has_no_right_but_to_be_the_owner_of_the_kubelets_folder() -> None:
    pod = _get_pod(_read_files())
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & pod.keys()


def test_only_the_folder_of_sockets_can_be_written() -> None:
    pod = _get_pod(_read_files())
    (container,) = pod["containers"]
    folders = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    assert folders == {"sockets": "/var/lib/kubelet/device-plugins", "dev": "/dev"}
    assert [each["name"] for each in container["volumeMounts"] if not each.get("readOnly")] == ["sockets"]


def test_the_arguments_are_those_of_the_command() -> None:
    (container,) = _get_pod(_read_files())["containers"]
    name, *arguments = container["args"]
    context: Context = device_plugin.make_context(name, arguments)
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert str(context.params["config"].parent) == mounts["config"]
    assert str(context.params["host_root"] / "dev") == mounts["dev"]
    assert str(context.params["kubelet_folder"]) == mounts["sockets"]
    assert [context.params["monitor"].port] == [each["containerPort"] for each in container["ports"]]


def test_two_plugins_never_run_on_a_node_at_a_time() -> None:
    strategy = _read_files()["DaemonSet", _NAME]["spec"]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def test_nothing_leaves_its_pods_and_only_metrics_are_served() -> None:
    policy = _read_files()["NetworkPolicy", _NAME]["spec"]
    assert policy["egress"] == []
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == ["monitor"]
    assert policy["podSelector"]["matchLabels"] == _read_files()["DaemonSet", _NAME]["spec"]["selector"]["matchLabels"]


def test_its_namespace_is_its_own_and_allows_folders_of_the_node() -> None:
    namespace = _read_files()["Namespace", "tallygate-devices"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_example_of_a_configuration_has_no_mistake() -> None:
    path = _FOLDER / "devices.yaml"
    assert read_device_config(path.name, path.read_bytes()).findings == ()


def test_the_component_mounts_its_own_config_map() -> None:
    objects = compose_objects("device-plugin")
    (name,) = [name for kind, name in objects if kind == "ConfigMap" and name.startswith(_NAME)]
    assert [each["configMap"]["name"] for each in _get_pod(objects)["volumes"] if "configMap" in each] == [name]


def test_the_chart_renders_the_pod_of_the_component() -> None:
    chart = render_chart({**_ENABLED, "image.tag": "1"})
    pod, expected = _get_pod(chart), _get_pod(_read_files())
    assert pod.pop("containers")[0].pop("image") == "tallygate:1"
    expected.pop("containers")
    assert pod == expected
    config = chart["ConfigMap", _NAME]["data"]["devices.yaml"]
    assert yaml.safe_load(config) == {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "DevicePluginConfig",
        "resources": _RESOURCES,
    }
    assert read_device_config("devices.yaml", config.encode()).findings == ()


def test_the_chart_has_it_in_the_namespace_of_the_values_with_their_fields() -> None:
    fields = {
        "devicePlugin.namespace": "devices",
        "devicePlugin.nodeSelector": {"dongles": "true"},
        "devicePlugin.priorityClassName": "system-node-critical",
        "devicePlugin.extraVolumes": [{"name": "run", "hostPath": {"path": "/run/dongles"}}],
        "devicePlugin.extraVolumeMounts": [{"name": "run", "mountPath": "/host/run/dongles", "readOnly": True}],
    }
    chart = render_chart({**_ENABLED, **fields})
    ours = {key: each for key, each in chart.items() if key[1] == _NAME}
    assert {kind for kind, _ in ours} == {"ConfigMap", "DaemonSet", "NetworkPolicy"}
    assert {each["metadata"]["namespace"] for each in ours.values()} == {"devices"}
    pod = _get_pod(chart)
    assert (pod["nodeSelector"], pod["priorityClassName"]) == (
        {"kubernetes.io/os": "linux", "dongles": "true"},
        "system-node-critical",
    )
    assert pod["volumes"][-1]["name"] == pod["containers"][0]["volumeMounts"][-1]["name"] == "run"


@pytest.mark.parametrize("resource", ["example.com/a", "example.com/b"])
def test_other_devices_restart_the_pods(resource: str) -> None:
    other = [{"name": resource, "devices": [{"id": "a"}]}]
    checksums = {
        render_chart({**_ENABLED, "devicePlugin.config.resources": each})["DaemonSet", _NAME]["spec"]["template"][
            "metadata"
        ]["annotations"]["checksum/devices"]
        for each in (_RESOURCES, other)
    }
    assert len(checksums) == 2
