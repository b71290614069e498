"""Implied requests at the gate: the patch of a new pod, its charge, and the forecasts for the pods of workloads."""

import base64
import json
from typing import Any

import pytest

from tallygate.admission.request import Phase
from tallygate.gate.decisions import UndecidedError
from tallygate.objects.core import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from tallygate.objects.meta import ObjectMeta
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import GateFixture, response

IP = "example.com/ip"
IMPLIED = """
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: one-address-each, annotations: {tallygate.dev/why: ask the network team}}
spec: {resource: example.com/ip, perPod: 1, unless: {hostNetwork: true}}
"""
BY_LABEL = IMPLIED.replace("perPod: 1", "match: {namespaces: {selector: {matchLabels: {net: pods}}}}")
CAP = """
---
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: addresses}
spec: {namespaces: {include: ["team-*"]}, hard: {example.com/ip: 2}}
"""
PLAIN: dict[str, Any] = {"kind": "Pod", "metadata": {"uid": "u", "name": "p"}, "spec": {"containers": [{"name": "c"}]}}
DEPLOYMENT = {"group": "apps", "kind": "Deployment"}


def deployment(replicas: int, **spec: Any) -> dict[str, Any]:
    """Return a Deployment of pods without any request."""
    template = {"spec": {"containers": [{"name": "c"}], **spec}}
    return {"kind": "Deployment", "metadata": {"uid": "d"}, "spec": {"replicas": replicas, "template": template}}


def mutate(fixture: GateFixture, pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod after the mutating phase, whose patch adds whole `resources`."""
    result = response(fixture.admit(pod, Phase.MUTATING))
    (operation,) = json.loads(base64.b64decode(result["patch"]))
    assert operation["path"] == "/spec/containers/0/resources"
    (container,) = pod["spec"]["containers"]
    return pod | {"spec": {"containers": [container | {"resources": operation["value"]}]}}


def test_the_mutating_phase_adds_the_request_and_records_it_in_an_audit_annotation() -> None:
    fixture = GateFixture(IMPLIED)
    result = response(fixture.admit(PLAIN, Phase.MUTATING))
    assert result["auditAnnotations"] == {"implied-requests": "example.com/ip=1 (one-address-each)"}
    after = mutate(fixture, PLAIN)
    assert response(fixture.admit(after, Phase.MUTATING)) == {"uid": "r", "allowed": True}
    assert response(fixture.admit(after)) == {"uid": "r", "allowed": True}


def test_caps_count_the_pods_that_the_mutating_phase_has_changed() -> None:
    fixture = GateFixture(IMPLIED + CAP)
    for number in range(3):
        pod = mutate(fixture, PLAIN | {"metadata": {"uid": f"u{number}", "name": f"p{number}"}})
        assert response(fixture.admit(pod))["allowed"] is (number < 2)
    assert fixture.read_reserved("addresses") == {IP: 2}


def test_the_pods_of_a_workload_are_forecast_with_what_is_implied() -> None:
    result = response(GateFixture(IMPLIED + CAP).admit(deployment(3), kind=DEPLOYMENT, name="w"))
    assert result["allowed"]
    (warning,) = result["warnings"]
    assert "3 replicas request 3 example.com/ip, cap addresses of this namespace has hard 2" in warning


def test_the_pods_of_a_workload_in_the_network_of_the_node_request_nothing() -> None:
    result = response(GateFixture(IMPLIED + CAP).admit(deployment(3, hostNetwork=True), kind=DEPLOYMENT, name="w"))
    assert result == {"uid": "r", "allowed": True}


def test_a_quota_is_forecast_with_what_is_implied() -> None:
    amounts = {"requests.example.com/ip": json.dumps("2").encode()}

    class Quotas:
        def list_quotas(self, _: str) -> list[ResourceQuota]:
            status = ResourceQuotaStatus(hard=amounts, used={"requests.example.com/ip": b'"0"'})  # type: ignore[dict-item,arg-type]
            spec = ResourceQuotaSpec(hard=amounts)  # type: ignore[arg-type]
            return [ResourceQuota(ObjectMeta(name="addresses"), spec, status)]

    result = response(GateFixture(IMPLIED, quotas=Quotas()).admit(deployment(3), kind=DEPLOYMENT, name="w"))
    assert "3 replicas request 3 requests.example.com/ip" in result["warnings"][0]


def test_a_dry_run_of_a_workload_reports_what_its_pods_get() -> None:
    fixture = GateFixture(IMPLIED)
    assert response(fixture.admit(deployment(3), kind=DEPLOYMENT, name="w")) == {"uid": "r", "allowed": True}
    result = response(fixture.admit(deployment(3), kind=DEPLOYMENT, name="w", dryRun=True))
    (warning,) = result["warnings"]
    assert warning == (
        'Deployment "w": spec.template.spec.containers[0].resources: each pod gets request and limit 1 of '
        "example.com/ip; the template stays as it is (TG122, implied request one-address-each: ask the network team)"
    )


def test_a_new_pod_is_undecided_while_the_labels_of_its_namespace_are_unknown() -> None:
    with pytest.raises(UndecidedError, match="implied request one-address-each selects namespaces by label"):
        GateFixture(BY_LABEL).admit(PLAIN, Phase.MUTATING)
    fixture = GateFixture(BY_LABEL, labels={"team-a": {"net": "pods"}, "team-b": {}})
    assert mutate(fixture, PLAIN)["spec"]["containers"][0]["resources"]["limits"] == {IP: "1"}
    assert response(fixture.admit(PLAIN, Phase.MUTATING, namespace="team-b")) == {"uid": "r", "allowed": True}


def test_the_policies_of_a_pod_change_with_the_file() -> None:
    fixture = GateFixture(IMPLIED)
    fixture.policies = parse_policies(IMPLIED.replace("perPod: 1", "perPod: 2"))
    assert mutate(fixture, PLAIN)["spec"]["containers"][0]["resources"]["limits"] == {IP: "2"}
    fixture.policies = parse_policies(CAP)
    assert response(fixture.admit(PLAIN, Phase.MUTATING)) == {"uid": "r", "allowed": True}
