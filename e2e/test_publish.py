"""`tallygate certs publish` and the manifests of deploy/, before a real API server."""

import base64
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from uuid import uuid4

import pytest

from e2e.api import Object, api
from e2e.command_output import run_tallygate
from e2e.namespaces import gates_namespace
from e2e.ports import Cluster, Gate
from e2e.registering import CONFIGURATIONS, unregister
from e2e.waiting import until
from tests.admission.plain_configurations import create_plain_configurations

_BASE = Path(__file__).parent.parent / "deploy" / "kustomize" / "base"
_UNREACHABLE_PROXY = "http://127.0.0.1:9"
_WITHIN = 240.0  # seconds, until the API server has loaded a configuration
_BANANAS = {"pod.alpha.kubernetes.io/opaque-int-resource-bananas": "1500m"}


@pytest.fixture
def gate_without_trust(cluster: Cluster, running_gate: Gate) -> Iterator[Gate]:
    """Run the gate, registered without a CA bundle, which the API server has seen in both phases."""
    mutating, validating = create_plain_configurations(running_gate.reached)
    for configuration, phase in ((validating, "validate"), (mutating, "mutate")):
        api(cluster.kubeconfig).apply(CONFIGURATIONS[configuration["kind"]], configuration)
        until(f"{phase} is called and not trusted", partial(_is_not_trusted, cluster, phase), _WITHIN)
    yield running_gate
    unregister(cluster)


def run_publish(cluster: Cluster, folder: Path, *options: str) -> CompletedProcess[str]:
    """Run it as a user with a proxy for the world outside."""
    proxies = {"HTTPS_PROXY": _UNREACHABLE_PROXY, "https_proxy": _UNREACHABLE_PROXY, "NO_PROXY": "", "no_proxy": ""}
    return run_tallygate(cluster, "certs", "publish", str(folder), *options, environment=proxies)


def pod(name: str) -> Object:
    """Return a pod that only the gate rejects."""
    container = {"name": "main", "image": "none", "resources": {"requests": _BANANAS, "limits": _BANANAS}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def _is_not_trusted(cluster: Cluster, phase: str) -> bool:
    text = send_pod(cluster, "default")
    return f'failed calling webhook "{phase}.tallygate.dev"' in text and "certificate" in text


def send_pod(cluster: Cluster, namespace: str) -> str:
    """Return the API server's messages about it."""
    pods, made = f"/api/v1/namespaces/{namespace}/pods", pod(f"pod-{uuid4().hex[:8]}")
    return api(cluster.kubeconfig).ask("POST", pods, made, query={"dryRun": "All"}).messages


def list_webhooks(cluster: Cluster, kind: str) -> list[Object]:
    """Return the webhooks of one configuration, as stored."""
    found: list[Object] = api(cluster.kubeconfig).get(CONFIGURATIONS[kind])["webhooks"]
    return found


def test_the_gate_is_called_once_it_is_published(cluster: Cluster, gate_without_trust: Gate, namespace: str) -> None:
    assert "certificate" in send_pod(cluster, namespace)
    before = list_webhooks(cluster, "ValidatingWebhookConfiguration")
    done = run_publish(cluster, gate_without_trust.certificates)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "MutatingWebhookConfiguration tallygate: updated",
        "ValidatingWebhookConfiguration tallygate: updated",
    ]
    until("the gate refuses the pod", lambda: "1500m is not a whole number" in send_pod(cluster, namespace), _WITHIN)
    after = list_webhooks(cluster, "ValidatingWebhookConfiguration")
    authority = (gate_without_trust.certificates / "ca.crt").read_bytes()
    assert {base64.b64decode(each["clientConfig"].pop("caBundle")) for each in after} == {authority}
    assert after == before


def test_publishing_again_writes_nothing(cluster: Cluster, gate_without_trust: Gate) -> None:
    assert run_publish(cluster, gate_without_trust.certificates).returncode == 0
    before = api(cluster.kubeconfig).get(CONFIGURATIONS["MutatingWebhookConfiguration"])
    done = run_publish(cluster, gate_without_trust.certificates)
    assert done.stdout.splitlines() == [
        "MutatingWebhookConfiguration tallygate: unchanged",
        "ValidatingWebhookConfiguration tallygate: unchanged",
    ]
    assert api(cluster.kubeconfig).get(CONFIGURATIONS["MutatingWebhookConfiguration"]) == before


def test_applying_the_registration_again_keeps_what_was_published(cluster: Cluster, gate_without_trust: Gate) -> None:
    assert run_publish(cluster, gate_without_trust.certificates).returncode == 0
    for configuration in create_plain_configurations(gate_without_trust.reached):
        done = cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(configuration))
        assert done.returncode == 0, done.stderr
    assert run_publish(cluster, gate_without_trust.certificates).stdout.count("unchanged") == 2


def test_one_configuration_is_enough(cluster: Cluster, gate_without_trust: Gate) -> None:
    api(cluster.kubeconfig).delete(CONFIGURATIONS["MutatingWebhookConfiguration"])
    done = run_publish(cluster, gate_without_trust.certificates)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "MutatingWebhookConfiguration tallygate: not there",
        "ValidatingWebhookConfiguration tallygate: updated",
    ]


def test_without_a_registration_it_says_what_to_do(cluster: Cluster, running_gate: Gate) -> None:
    done = run_publish(cluster, running_gate.certificates)
    assert done.returncode == 2
    assert done.stderr == (
        "tallygate: no webhook configuration is called tallygate: register the gate first (kubectl apply -k "
        "deploy/kustomize/base)\n"
    )


def test_the_manifests_are_what_the_api_server_takes(cluster: Cluster) -> None:
    """Apply all of them, rules and match conditions included; Pod Security objects to none."""
    gates_namespace(cluster)
    done = cluster.kubectl("apply", "--dry-run=server", "-k", str(_BASE))
    assert done.returncode == 0, done.stderr
    assert "PodSecurity" not in done.stderr
    assert {line.split("/")[0].split(".")[0] for line in done.stdout.splitlines()} == {
        "configmap",
        "deployment",
        "mutatingwebhookconfiguration",
        "namespace",
        "resourcequota",
        "service",
        "serviceaccount",
        "validatingwebhookconfiguration",
    }


def test_the_gate_can_be_applied_before_it_is_registered(cluster: Cluster) -> None:
    """Apply it as deploy/README.md does, so that no request is rejected while it starts."""
    gates_namespace(cluster)
    only = cluster.kubectl("apply", "--dry-run=server", "-k", str(_BASE), "-l", "app.kubernetes.io/component=gate")
    assert only.returncode == 0, only.stderr
    assert "deployment.apps/tallygate" in only.stdout
    assert "webhookconfiguration" not in only.stdout
