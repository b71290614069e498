"""The device plugin as it is installed, on a node with a whole kubelet: its DaemonSet, and pods that get their devices.

The device nodes are made on the node, beside a folder with a file for the health of each.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api import Api, Object, api
from e2e.command_output import get_raw, run_kubectl, run_tallygate
from e2e.installation.vacant_cluster import find_gate_image
from e2e.kind.cluster import KindCluster
from e2e.kind.node import Node
from e2e.namespaces import new_namespace
from e2e.ports import NotHereError, Site
from e2e.waiting import until

_COMPONENT = Path(__file__).parents[1] / "deploy" / "kustomize" / "components" / "device-plugin"
_NAMESPACE, _NAME = "tallygate-devices", "tallygate-device-plugin"
_RESOURCE = "plugged.example.com/dongle"
_WITHIN = 300.0  # seconds; the kubelet reports every ten, and a busy machine is slow
_HEALTH_FEATURE = 'kubernetes_feature_enabled{name="ResourceHealthStatus"'  # on by default from Kubernetes 1.36
_CONFIG = {
    "apiVersion": "tallygate.dev/v1alpha1",
    "kind": "DevicePluginConfig",
    "resources": [
        {
            "name": _RESOURCE,
            "devices": [{"path": "/dev/tally-dongle*"}],
            "container": {"path": "/dev/dongle{index}", "env": {"DONGLES": "{ids}"}},
            "health": {"file": "/dev/tally-health/{id}", "interval": "500ms", "failures": 2},
        }
    ],
}
_READ_DEVICE = (
    "import os, time; print(os.environ['DONGLES'], len(open('/dev/dongle0', 'rb').read(8))); time.sleep(3600)"
)
_MAKE_DEVICES = """
mkdir -p /dev/tally-health
for number in 0 1 2 3; do
  [ -e /dev/tally-dongle$number ] || mknod /dev/tally-dongle$number c 1 5
  touch /dev/tally-health/tally-dongle$number
done
"""


@dataclass(frozen=True)
class _NodeUnderTest:
    """A node whose device plugin publishes four devices."""

    site: Site
    cluster: KindCluster
    node: Node
    namespace: str
    image: str

    @property
    def ours(self) -> Api:
        return api(self.cluster.kubeconfig)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def find_amounts(self) -> tuple[str, str]:
        """Return the capacity and the allocatable amount of the node."""
        status = self.ours.get(f"/api/v1/nodes/{self.site.node}")["status"]
        return status["capacity"].get(_RESOURCE, "0"), status["allocatable"].get(_RESOURCE, "0")

    def until_amounts(self, capacity: str, allocatable: str) -> None:
        """Wait until the node's status has these amounts."""
        until(
            f"capacity {capacity} and allocatable {allocatable}",
            lambda: self.find_amounts() == (capacity, allocatable),
            _WITHIN,
            lambda: f"{self.find_amounts()}\n{self.read_log()}",
        )

    def create_pod(self, name: str, count: int) -> None:
        """Create a pod that prints the names of its devices, and how much it reads of the first."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["python3", "-c", _READ_DEVICE],
            "resources": {"limits": {_RESOURCE: str(count)}},
        }
        spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
        self.ours.create(self.pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    def read_pod(self, name: str) -> Object:
        return self.ours.get(f"{self.pods}/{name}")

    def until_running(self, name: str) -> None:
        """Wait until a pod runs."""
        until(f"{name} runs", lambda: self.read_pod(name)["status"].get("phase") == "Running", _WITHIN, self.describe)

    def reports_health(self) -> bool:
        """Return whether the cluster has the feature gate by which statuses of pods have the health of devices."""
        metrics = get_raw(self.cluster, "/metrics").splitlines()
        return any(line.startswith(_HEALTH_FEATURE) and line.endswith(" 1") for line in metrics)

    def find_health(self, name: str) -> list[str]:
        """Return the health of the devices in the status of a pod."""
        (container,) = self.read_pod(name)["status"]["containerStatuses"]
        return [each["health"] for part in container.get("allocatedResourcesStatus", ()) for each in part["resources"]]

    def find_plugins(self) -> list[Object]:
        """Return the pods of the plugin on the node: one, except while it is replaced."""
        return self.ours.items(f"/api/v1/namespaces/{_NAMESPACE}/pods", fieldSelector=f"spec.nodeName={self.site.node}")

    def find_plugin(self) -> Object:
        """Return the pod of the plugin on the node, which is not being replaced."""
        (plugin,) = self.find_plugins()
        return plugin

    def describe(self) -> str:
        """Return the statuses of the pods, and the log of the plugin."""
        return json.dumps([each["status"] for each in self.ours.items(self.pods)])[-3000:] + self.read_log()

    def read_log(self) -> str:
        return self.cluster.kubectl("logs", f"--namespace={_NAMESPACE}", f"daemonset/{_NAME}", "--tail=40").stdout


@pytest.fixture(scope="module")
def plugin_cluster(site: Site) -> Iterator[KindCluster]:
    """Make the device nodes, and install the DaemonSet; yield the cluster once the node has four devices."""
    cluster = site.cluster
    if not isinstance(cluster, KindCluster):
        raise NotHereError("it takes a whole kubelet, and device nodes that a case may make on its node")
    cluster.node(site.node).run("sh", "-euc", _MAKE_DEVICES)
    manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": _list_objects(find_gate_image(cluster))})
    run_kubectl(cluster, "apply", "--server-side", "--filename=-", stdin=manifest)
    try:
        yield cluster
    finally:
        run_kubectl(cluster, "delete", "--ignore-not-found", "--wait=false", "--filename=-", stdin=manifest)


def _list_objects(image: str) -> list[dict[str, Any]]:
    """Return the objects of the component with this image and the devices of the cases."""
    texts = [(_COMPONENT / name).read_text("utf-8") for name in ("namespace.yaml", "daemonset.yaml")]
    objects = [each for text in texts for each in yaml.safe_load_all(text)]
    for each in objects:
        if each["kind"] == "DaemonSet":
            pod = each["spec"]["template"]["spec"]
            pod["containers"][0]["image"] = image
            pod["tolerations"] = [{"operator": "Exists"}]
    metadata = {"name": _NAME, "namespace": _NAMESPACE}
    data = {"devices.yaml": json.dumps(_CONFIG)}
    return [*objects, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]


@pytest.fixture
def node_under_test(site: Site, plugin_cluster: KindCluster) -> Iterator[_NodeUnderTest]:
    """Yield the node with four healthy devices, and a namespace whose pods end before the next case."""
    node = plugin_cluster.node(site.node)
    node.run("sh", "-euc", _MAKE_DEVICES)
    with new_namespace(plugin_cluster) as namespace:
        node_under_test = _NodeUnderTest(site, plugin_cluster, node, namespace, find_gate_image(plugin_cluster))
        node_under_test.until_amounts("4", "4")
        try:
            yield node_under_test
        finally:
            node_under_test.ours.delete(node_under_test.pods, gracePeriodSeconds="1")
            until("no pod has a device", lambda: not node_under_test.ours.items(node_under_test.pods), _WITHIN)


def test_a_pod_reads_its_device_node_and_has_its_environment(node_under_test: _NodeUnderTest) -> None:
    node_under_test.create_pod("reader", 1)
    node_under_test.until_running("reader")
    until("it has read", lambda: bool(_read_output(node_under_test, "reader")), _WITHIN)
    device, length = _read_output(node_under_test, "reader").split()
    assert device.startswith("tally-dongle")
    assert length == "8"


def _read_output(node_under_test: _NodeUnderTest, name: str) -> str:
    return node_under_test.cluster.kubectl("logs", f"--namespace={node_under_test.namespace}", name).stdout


def test_of_two_pods_of_three_of_four_devices_one_waits_with_the_sentence_of_the_scheduler(
    node_under_test: _NodeUnderTest,
) -> None:
    node_under_test.create_pod("first", 3)
    node_under_test.until_running("first")
    node_under_test.create_pod("second", 3)

    def find_message() -> str:
        conditions = node_under_test.read_pod("second")["status"].get("conditions", ())
        return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")

    until("the second waits", lambda: bool(find_message()), _WITHIN)
    assert f"1 Insufficient {_RESOURCE}" in find_message()
    predicted = run_tallygate(
        node_under_test.cluster, "predict", "pod/second", f"--namespace={node_under_test.namespace}"
    ).stdout
    assert find_message() in predicted
    node_under_test.ours.delete(f"{node_under_test.pods}/first", gracePeriodSeconds="1")
    node_under_test.until_running("second")


def test_a_device_that_fails_leaves_the_allocatable_amount_and_returns(node_under_test: _NodeUnderTest) -> None:
    node_under_test.create_pod("user", 4)
    node_under_test.until_running("user")
    node_under_test.node.run("rm", "/dev/tally-health/tally-dongle2")
    node_under_test.until_amounts("4", "3")
    reports_health = node_under_test.reports_health()
    if reports_health:
        until("the pod's status has it", lambda: node_under_test.find_health("user").count("Unhealthy") == 1, _WITHIN)
    node_under_test.create_pod("waiting", 4)
    predicted = run_tallygate(
        node_under_test.cluster, "predict", "pod/waiting", f"--namespace={node_under_test.namespace}"
    ).stdout
    assert f"1 of 4 {_RESOURCE} unhealthy on {node_under_test.site.node}" in predicted
    node_under_test.node.run("touch", "/dev/tally-health/tally-dongle2")
    node_under_test.until_amounts("4", "4")
    assert node_under_test.read_pod("user")["status"]["phase"] == "Running"
    if reports_health:
        until("the pod's status has that too", lambda: "Unhealthy" not in node_under_test.find_health("user"), _WITHIN)


def test_a_kubelet_that_restarts_has_the_devices_again_and_the_pod_goes_on(node_under_test: _NodeUnderTest) -> None:
    node_under_test.create_pod("user", 3)
    node_under_test.until_running("user")
    before = node_under_test.read_pod("user")
    node_under_test.node.run("systemctl", "restart", "kubelet")
    until(
        "the plugin registers again",
        lambda: node_under_test.read_log().count('"device-plugin-registered"') >= 2,
        _WITHIN,
    )
    node_under_test.until_amounts("4", "4")
    _assert_same(node_under_test, before)
    node_under_test.create_pod("more", 1)
    node_under_test.until_running("more")


def test_a_plugin_that_restarts_leaves_the_pod_its_devices(node_under_test: _NodeUnderTest) -> None:
    node_under_test.create_pod("user", 3)
    node_under_test.until_running("user")
    before, plugin = node_under_test.read_pod("user"), node_under_test.find_plugin()
    node_under_test.ours.delete(f"/api/v1/namespaces/{_NAMESPACE}/pods/{plugin['metadata']['name']}")

    def is_replaced() -> bool:
        """Return whether the next plugin has registered: until then the kubelet rejects a pod that needs a device."""
        uids = {each["metadata"]["uid"] for each in node_under_test.find_plugins()}
        is_next = bool(uids) and plugin["metadata"]["uid"] not in uids
        return is_next and '"device-plugin-registered"' in node_under_test.read_log()

    until("the next plugin registers", is_replaced, _WITHIN, node_under_test.read_log)
    node_under_test.until_amounts("4", "4")
    _assert_same(node_under_test, before)
    node_under_test.create_pod("more", 1)
    node_under_test.until_running("more")


def test_a_plugin_that_is_killed_leaves_the_pod_its_devices(node_under_test: _NodeUnderTest) -> None:
    node_under_test.create_pod("user", 3)
    node_under_test.until_running("user")
    before, plugin = node_under_test.read_pod("user"), node_under_test.find_plugin()
    node_under_test.node.kill(plugin["metadata"]["uid"], "device-plugin")

    def is_restarted() -> bool:
        (status,) = node_under_test.find_plugin()["status"]["containerStatuses"]
        restarts = plugin["status"]["containerStatuses"][0]["restartCount"]
        return bool(status["restartCount"] > restarts and status["ready"])

    until("the container runs again", is_restarted, _WITHIN, node_under_test.read_log)
    node_under_test.until_amounts("4", "4")
    _assert_same(node_under_test, before)


def _assert_same(node_under_test: _NodeUnderTest, before: Object) -> None:
    """Check that a pod still runs, with the container that it had."""
    status, previous = node_under_test.read_pod(before["metadata"]["name"])["status"], before["status"]
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["containerID"] == previous["containerStatuses"][0]["containerID"]
