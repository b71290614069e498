"""A gate that registers itself gets every new pod in the mutating phase as soon as a policy implies requests."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.api import Object, api
from e2e.command_output import run_tallygate
from e2e.gates.process import GateProcess
from e2e.policy_files import SHIPPED_FILES
from e2e.ports import Cluster, Site
from e2e.self_registration import run_registering_gate
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_IP = "example.com/ip"
_POLICY = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {{name: one-address-each}}
spec: {{resource: {_IP}, match: {{namespaces: {{include: ["case-*"]}}}}}}
"""


@pytest.fixture
def registering_gate(site: Site, tmp_path: Path) -> Iterator[GateProcess]:
    """Run a gate that has registered itself, without a policy that implies requests."""
    with run_registering_gate(site, tmp_path) as gate:
        yield gate


def _create_dry(site: Site, namespace: str) -> tuple[Object, str]:
    """Return the resources of a pod as it would be stored, and the messages about it."""
    container = {"name": "main", "image": site.image}
    body = {"metadata": {"name": "plain"}, "spec": {"containers": [container]}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = api(site.cluster.kubeconfig).ask("POST", path, body, query={"dryRun": "All"})
    assert answer.is_done, answer.rejection
    return json.loads(answer.body)["spec"]["containers"][0].get("resources", {}), answer.messages


def _check_conditions(cluster: Cluster, gate: GateProcess) -> str:
    """Return the result of the check of match conditions of `tallygate doctor`."""
    arguments = ("doctor", "-o", "json", "--kubeconfig", str(cluster.kubeconfig), "--policies", str(gate.policies))
    found = json.loads(run_tallygate(cluster, *arguments).stdout)
    return str(next(each["result"] for each in found["checks"] if each["check"] == "conditions"))


def test_a_policy_is_active_for_pods_without_resources_soon_after_its_file_is_there(
    site: Site, namespace: str, registering_gate: GateProcess
) -> None:
    assert _create_dry(site, namespace) == ({}, "")
    registering_gate.write_policies({**SHIPPED_FILES, "addresses.yaml": _POLICY})
    seen: list[tuple[Object, str]] = []

    def is_implied() -> bool:
        seen.append(_create_dry(site, namespace))
        return bool(seen[-1][0])

    until("the pod gets the request", is_implied, _WITHIN, registering_gate.log)
    assert seen[-1][0] == {"requests": {_IP: "1"}, "limits": {_IP: "1"}}
    assert f"no node advertises {_IP}" in seen[-1][1]
    warned = ["TG121" in messages for resources, messages in seen if not resources]
    assert warned == sorted(warned), "once the policy is active, no pod comes without the request and without a warning"
    assert _check_conditions(site.cluster, registering_gate) == "PASS"
    registering_gate.write_policies(SHIPPED_FILES)
    until("the pod gets none", lambda: _create_dry(site, namespace) == ({}, ""), _WITHIN, registering_gate.log)
