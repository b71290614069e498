"""`tallygate ask` of a tenant on a real API server: found by the ConfigMap, straight and through a forwarded port.

Nodes without machines have no kubelet. The one behind the forwarded port is a server of this process, to which the API
server passes the WebSocket on as it does to a kubelet.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml

from e2e.api import Object, api
from e2e.command_output import run_tallygate
from e2e.gates.asks import AskServer, provide_asks_account
from e2e.local.cluster import LocalCluster
from e2e.namespaces import new_namespace
from e2e.pods import DONGLE, pod
from e2e.policy_files import SHIPPED_FILES, put
from e2e.ports import Site
from e2e.service_account import as_service_account
from e2e.tenant import Tenant, tenant
from e2e.waiting import until
from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.state.kubernetes.ask_address_store import ASK_NAME
from tests.cli.ask.gates import issue_certificates
from tests.kube.forwarding_server import ForwardingServer, run_forwarding_server

_WITHIN: Final = 240.0  # seconds
_HOST: Final = f"{ASK_NAME}.{DEFAULT_NAMESPACE}.svc"
_CONFIG_MAP: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{ASK_NAME}"
_SLICES: Final = f"/apis/discovery.k8s.io/v1/namespaces/{DEFAULT_NAMESPACE}/endpointslices"
_RBAC: Final = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{DEFAULT_NAMESPACE}"
_PORT: Final = 8443
_POLICIES: Final = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: dongles}}
spec:
  namespaces: {{selector: {{matchLabels: {{commands: "yes"}}}}}}
  hard: {{{DONGLE}: 3}}
"""


class Setting(NamedTuple):
    """A server of asks, and a tenant with his kubeconfig."""

    site: Site
    asks: AskServer
    someone: Tenant
    kubeconfig: Path

    def run(self, *arguments: str, stdin: str = "") -> CompletedProcess[str]:
        """Run a command as the tenant, again while the server of asks is busy or has not seen an object yet."""
        words = (*arguments, "--kubeconfig", str(self.kubeconfig), "-n", self.someone.namespace)
        return run_tallygate(self.site.cluster, *words, stdin=stdin)

    def ask(self, dongles: str, *arguments: str) -> CompletedProcess[str]:
        """Ask about a pod with some dongles."""
        return self.run("ask", "-f", "-", *arguments, stdin=json.dumps(self.make_pod("asked", dongles)))

    def make_pod(self, name: str, dongles: str) -> Object:
        """Return a pod of kube-scheduler with some dongles."""
        made = pod(self.site, name)
        made["spec"].pop("schedulerName", None)
        made["spec"]["containers"][0]["resources"] = {"limits": {DONGLE: dongles}}
        return made


@pytest.fixture(scope="module")
def setting(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Run a server of asks, whose address each user may read, beside a tenant with a cap."""
    folder = tmp_path_factory.mktemp("commands")
    policies = folder / "policies"
    policies.mkdir()
    put({**SHIPPED_FILES, "dongles.yaml": _POLICIES}, policies)
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(provide_asks_account(site.cluster, folder))
        asks = stack.enter_context(AskServer(folder / "asks", kubeconfig, policies, names=[_HOST]))
        someone = stack.enter_context(tenant(site.cluster, folder, commands="yes"))
        own = as_service_account(site.cluster, someone.namespace, "tenant", folder / "own.kubeconfig")
        setting = Setting(site, asks, someone, own)
        asks.publish(site.cluster)
        until("the tenant is answered", lambda: setting.ask("1").returncode == 0, _WITHIN, asks.log)
        yield setting


def test_a_tenant_asks_the_gate_that_the_config_map_names(setting: Setting) -> None:
    fits, refused = setting.ask("1"), setting.ask("4")
    assert fits.returncode == 0, fits.stderr
    assert fits.stdout.startswith(f"Pod {setting.someone.namespace}/asked: fits now: on 1 node")
    assert setting.site.node not in fits.stdout
    assert refused.returncode == 1
    assert "requested 4 example.com/dongle, used 0, reserved 0, hard 3, free 3" in refused.stdout
    content = json.loads(setting.ask("1", "-o", "json").stdout)
    assert content["kind"] == "AskAnswer"
    assert not setting.someone.api.items(setting.someone.pods)


def test_who_may_not_create_the_objects_is_refused_in_the_words_of_the_gate(setting: Setting) -> None:
    with new_namespace(setting.site.cluster, "foreign-") as foreign:
        made = setting.make_pod("asked", "1") | {"metadata": {"name": "asked", "namespace": foreign}}
        done = setting.run("ask", "-f", "-", stdin=json.dumps(made))
    assert done.returncode == 2
    assert f"may not create pods in namespace {foreign}" in done.stderr


def test_the_gate_answers_usage_and_predict_of_a_tenant(setting: Setting) -> None:
    waits = setting.make_pod("waits", "3")
    waits["spec"]["nodeSelector"] = {"disk": "none"}
    setting.someone.create(waits).object()
    try:

        def is_counted() -> bool:
            done = setting.run("usage", "-o", "json")
            return done.returncode == 0 and [line["used"] for line in json.loads(done.stdout)["items"]] == [3]

        until("the pod is counted", is_counted, _WITHIN, setting.asks.log)
        predicted = setting.run("predict", "pod/waits")
        assert predicted.returncode == 1
        assert predicted.stdout.startswith(f"Pod {setting.someone.namespace}/waits: never on these nodes")
        assert "you may not read the whole cluster: the gate answers about the manifest of the pod" in predicted.stderr
    finally:
        api(setting.site.cluster.kubeconfig).delete(f"{setting.someone.pods}/waits")


def test_the_gate_counts_the_copies_of_a_tenant_as_the_command_of_an_administrator(setting: Setting) -> None:
    made = json.dumps(setting.make_pod("more", "1"))
    words = ("headroom", "-", "-n", setting.someone.namespace, "-o", "json")
    own = setting.run("headroom", "-", "-o", "json", stdin=made)
    everything = run_tallygate(setting.site.cluster, *words, stdin=made)
    assert (own.returncode, everything.returncode) == (0, 0), own.stderr + everything.stderr
    (counted,), (expected,) = (json.loads(done.stdout)["items"] for done in (own, everything))
    assert counted["copies"] == expected["copies"] > 0
    assert [each["node"] for each in counted["nodes"]] == [None] * len(expected["nodes"])
    assert setting.site.node in everything.stdout
    assert setting.site.node not in own.stdout + own.stderr
    assert "you may not read the whole cluster: the gate answers about the pods in the files" in own.stderr
    with new_namespace(setting.site.cluster, "foreign-") as foreign:
        elsewhere = setting.make_pod("more", "1") | {"metadata": {"name": "more", "namespace": foreign}}
        refused = setting.run("headroom", "-", stdin=json.dumps(elsewhere))
    assert refused.returncode == 2
    assert f"may not create pods in namespace {foreign}" in refused.stderr


def test_a_client_certificate_alone_is_enough(setting: Setting) -> None:
    """Ask as the administrator, whose kubeconfig has no token."""
    user = yaml.safe_load(setting.site.cluster.kubeconfig.read_text())["users"][0]["user"]
    if "client-certificate-data" not in user:
        pytest.skip("the administrator of this cluster has no client certificate")
    made = json.dumps(setting.make_pod("asked", "1"))
    done = run_tallygate(setting.site.cluster, "ask", "-f", "-", "-n", setting.someone.namespace, stdin=made)
    assert done.returncode == 0, done.stderr
    assert f"fits now: on {setting.site.node}" in done.stdout


@contextmanager
def _run_pod_behind(setting: Setting, kubelet: ForwardingServer) -> Iterator[None]:
    """Store a node with this kubelet, a pod of the Service on it, and its EndpointSlice."""
    ours, name = api(setting.site.cluster.kubeconfig), "forwarding"
    address = urlsplit(kubelet.url)
    status = {
        "addresses": [{"type": "InternalIP", "address": address.hostname}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port}},
    }
    meta = {"name": name, "namespace": DEFAULT_NAMESPACE}
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {"name": "ask", "image": "example.com/none:1", "securityContext": restricted}
    secure = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {
        "nodeName": name,
        "containers": [container],
        "securityContext": secure,
        "tolerations": [{"operator": "Exists"}],
    }
    endpoints = {
        "metadata": {**meta, "labels": {"kubernetes.io/service-name": ASK_NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", **meta}, "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": _PORT, "protocol": "TCP"}],
    }
    pods = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods"
    ours.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    try:
        ours.create(pods, {"metadata": meta, "spec": spec})
        ours.patch(f"{pods}/{name}/status", {"status": {"phase": "Running"}})
        ours.create(_SLICES, endpoints)
        yield
    finally:
        for path in (f"{_SLICES}/{name}", f"{pods}/{name}", f"/api/v1/nodes/{name}"):
            ours.ask("DELETE", path, {"gracePeriodSeconds": 0})


def test_a_gate_inside_of_the_cluster_is_asked_through_the_api_server(setting: Setting, tmp_path: Path) -> None:
    """Grant the rights of docs/operate/ask.md after a refusal that names them."""
    if not isinstance(setting.site.cluster, LocalCluster):
        pytest.skip("this process is no kubelet of another cluster")
    ours, someone = api(setting.site.cluster.kubeconfig), setting.someone
    setting.asks.publish(setting.site.cluster, f"https://{_HOST}:443")
    context = issue_certificates(tmp_path / "kubelet")
    with run_forwarding_server(context) as kubelet, _run_pod_behind(setting, kubelet):
        kubelet.local_ports[_PORT] = setting.asks.port
        refused = setting.ask("1")
        assert refused.returncode == 2
        assert "get and create pods/portforward" in refused.stderr
        rules = [
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
        ]
        name = someone.namespace
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": name}
        ours.create(f"{_RBAC}/roles", {"metadata": {"name": name}, "rules": rules})
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        ours.create(f"{_RBAC}/rolebindings", binding)
        try:
            until("the tenant is answered", partial(_is_answered, setting), _WITHIN, setting.asks.log)
            answered = setting.ask("4")
        finally:
            for kind in ("rolebindings", "roles"):
                ours.ask("DELETE", f"{_RBAC}/{kind}/{name}")
            setting.asks.publish(setting.site.cluster)
    assert answered.returncode == 1
    assert "hard 3, free 3" in answered.stdout
    assert kubelet.requests[0][0] == f"/portForward/{DEFAULT_NAMESPACE}/forwarding"


def _is_answered(setting: Setting) -> bool:
    return setting.ask("1").returncode == 0
