"""Hours of devices on a real API server: what a tenant and an admin see of pods and claims, with the commands of both.

KWOK starts these pods. That they end is written into their statuses as a kubelet would.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from e2e.api import Object, api
from e2e.claims import GPU, claim, exactly, publish_devices, requesting_pod
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

_WITHIN: Final = 240.0  # seconds
_RUN_SECONDS: Final = 3
_BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


class Setting(NamedTuple):
    """A server of asks, a tenant, another namespace, and the kubeconfig of who may list all pods.

    `printed` is what the last command printed.
    """

    site: Site
    asks: AskServer
    someone: Tenant
    other: str
    admin: Path
    printed: list[str]

    def explain(self) -> str:
        """Return what the last command printed, and the log of the server."""
        return "\n".join((*self.printed, self.asks.log()))

    def report(self, kubeconfig: Path, *arguments: str) -> tuple[int, str]:
        """Run the command; return its exit code, and all that it prints."""
        words = ("usage", "--hours", *arguments, "--kubeconfig", str(kubeconfig))
        done = run_tallygate(self.site.cluster, *words)
        return done.returncode, done.stdout + done.stderr

    def read(self, kubeconfig: Path, *arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the items of a report by workload, in JSON, and the name of devices."""
        words = ("usage", "--hours", "--by", "workload", "-o", "json", *arguments, "--kubeconfig", str(kubeconfig))
        done = run_tallygate(self.site.cluster, *words)
        self.printed[:] = [done.stdout, done.stderr]
        items = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return {(f"{item['namespace']}/{item['workload']}", item["resource"]): item for item in items}


@pytest.fixture(scope="module")
def setting(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Run a server of asks, and then pods and a claim of a tenant and of another namespace."""
    if not isinstance(site.cluster, LocalCluster):
        pytest.skip("a kubelet writes the statuses of its pods itself")
    folder = tmp_path_factory.mktemp("hours")
    policies = folder / "policies"
    policies.mkdir()
    put(SHIPPED_FILES, policies)
    with ExitStack() as stack:
        other = stack.enter_context(new_namespace(site.cluster, "secretive-"))
        stack.enter_context(publish_devices(site.cluster, site.node, 2))
        someone = stack.enter_context(tenant(site.cluster, folder))
        kubeconfig = stack.enter_context(provide_asks_account(site.cluster, folder))
        asks = stack.enter_context(AskServer(folder / "asks", kubeconfig, policies))
        asks.publish(site.cluster)
        admin = _create_admin(site, other, folder)
        stack.callback(api(site.cluster.kubeconfig).delete, f"{_BINDINGS}/hours-{other}")
        setting = Setting(site, asks, someone, other, admin, [])
        _run_pod(site, someone.namespace, "training", "2")
        _run_pod(site, other, "hoarder-of-dongles", "3")
        _allocate(site, someone.namespace)
        yield setting


def _create_admin(site: Site, namespace: str, folder: Path) -> Path:
    """Return a kubeconfig of a ServiceAccount that may view the whole cluster."""
    ours = api(site.cluster.kubeconfig)
    ours.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "viewer"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}
    ours.create(_BINDINGS, {"metadata": {"name": f"hours-{namespace}"}, "roleRef": role, "subjects": [subject]})
    return as_service_account(site.cluster, namespace, "viewer", folder / "viewer.kubeconfig")


def _run_pod(site: Site, namespace: str, name: str, dongles: str) -> None:
    """Create a pod on the node, which KWOK starts, and write that it ended some seconds after its start."""
    ours, made = api(site.cluster.kubeconfig), pod(site, name, dongles)
    made["spec"]["nodeName"] = site.node
    path = f"{ours.collection(made, namespace)}/{name}"
    ours.create(ours.collection(made, namespace), made)
    until("KWOK has started the pod", lambda: "startTime" in ours.get(path)["status"], _WITHIN)
    started = ours.get(path)["status"]["startTime"]
    ended = datetime.fromisoformat(started) + timedelta(seconds=_RUN_SECONDS)
    terminated = {"exitCode": 0, "startedAt": started, "finishedAt": ended.strftime("%Y-%m-%dT%H:%M:%SZ")}
    container = {"name": "main", "image": site.image, "imageID": "", "ready": False, "restartCount": 0}
    statuses = [{**container, "state": {"terminated": terminated}}]
    ours.patch(f"{path}/status", {"status": {"phase": "Succeeded", "containerStatuses": statuses}})


def _allocate(site: Site, namespace: str) -> None:
    """Create a claim, and two pods that share it; kube-scheduler allocates it."""
    ours = api(site.cluster.kubeconfig)
    made: list[Object] = [claim("shared-devices", exactly(2))]
    for name in ("first", "second"):
        user = requesting_pod(site.image, name, {})
        user["spec"]["resourceClaims"] = [{"name": "g", "resourceClaimName": "shared-devices"}]
        user["spec"]["containers"][0]["resources"] = {"claims": [{"name": "g"}]}
        made.append(user)
    for each in made:
        ours.create(ours.collection(each, namespace), each)
    path = f"{ours.collection(made[0], namespace)}/shared-devices"
    until("the claim has its devices", lambda: "allocation" in ours.get(path).get("status", {}), _WITHIN)


def test_a_tenant_sees_the_hours_of_his_namespace_alone(setting: Setting) -> None:
    """Expect exact seconds of the pod that has ended, one claim for both pods, and no name of others in any form."""
    own, namespace = setting.someone.kubeconfig, setting.someone.namespace
    training, shared = (f"{namespace}/{name}" for name in ("Pod training", "ResourceClaim shared-devices"))

    def is_complete() -> bool:
        found = setting.read(own, "-n", namespace)
        return (shared, GPU) in found and found.get((training, DONGLE), {}).get("seconds") == 2 * _RUN_SECONDS

    until("the report has the pod and the claim", is_complete, _WITHIN, setting.explain)
    found = setting.read(own, "-n", namespace)
    assert found.keys() == {(training, DONGLE), (shared, GPU)}
    assert found[training, DONGLE]["secondsAtMost"] == 2 * _RUN_SECONDS
    assert (found[shared, GPU]["claims"], found[shared, GPU]["pods"]) == (1, 0)
    assert found[shared, GPU]["seconds"] % 2 == 0
    answers = [setting.report(own, *words) for words in ((), ("--by", "workload"), ("--by", "label=app"))]
    assert {code for code, _ in answers} <= {0, 2}
    refused = [setting.report(own, *words) for words in (("-A",), ("-n", setting.other), ("-n", "no-such-namespace"))]
    assert {code for code, _ in refused} == {2}
    assert "may not list pods of all namespaces" in refused[0][1]
    secrets = setting.other, "hoarder-of-dongles"
    texts = [text for _, text in (*answers, *refused)]
    texts[4] = texts[4].replace(f"in namespace {setting.other}", "")  # the question itself
    assert not [text for text in texts if any(secret in text for secret in secrets)]


def test_an_admin_sees_the_hours_of_all_namespaces(setting: Setting) -> None:
    hoarder = f"{setting.other}/Pod hoarder-of-dongles", DONGLE

    def is_complete() -> bool:
        return setting.read(setting.admin).get(hoarder, {}).get("seconds") == 3 * _RUN_SECONDS

    until("the report has the pod of the other namespace", is_complete, _WITHIN, setting.explain)
    found = setting.read(setting.admin)
    assert (f"{setting.someone.namespace}/Pod training", DONGLE) in found
    assert setting.read(setting.admin, "-n", setting.other).keys() == {hoarder}


def test_hours_outlive_the_pods(setting: Setting) -> None:
    """Delete the tenant's pod: the server has its hours still."""
    namespace = setting.someone.namespace
    training = f"{namespace}/Pod training", DONGLE
    ours = api(setting.site.cluster.kubeconfig)
    ours.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/training", {"gracePeriodSeconds": 0})

    def is_deleted() -> bool:
        return ours.find(f"/api/v1/namespaces/{namespace}/pods/training") is None

    until("the pod is deleted", is_deleted, _WITHIN)
    until(
        "its hours are there",
        lambda: setting.read(setting.admin).get(training, {}).get("seconds") == 2 * _RUN_SECONDS,
        _WITHIN,
        setting.explain,
    )
