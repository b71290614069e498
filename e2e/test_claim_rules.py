"""Rules for claims for devices: those of a tenant, those from templates, and those that the scheduler creates."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.api import Object, api
from e2e.claims import (
    DRIVER,
    GPU,
    GPUS,
    GROUP,
    MORE_GPUS,
    ROOT,
    claim,
    claim_template,
    claiming_pod,
    count_devices,
    device_class,
    exactly,
    is_placed,
    publish_devices,
    requesting_pod,
)
from e2e.extra_gates import run_watching_gate
from e2e.gates.process import GateProcess
from e2e.ports import Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_FIRST_WITH_TAINT_RULES = 37  # the minor of Kubernetes
_TAINT = "tallygate.example/upkeep"
_POLICIES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: small-claims}}
spec:
  resources: ["*.deviceclass.resource.k8s.io/devices"]
  match: {{namespaces: {{selector: {{matchLabels: {{claims: small}}}}}}}}
  checks:
    perClaim: {{max: 1}}
    devices: {{classes: [{GPUS}], allocationModes: [ExactCount], adminAccess: {{groups: ["system:masters"]}}}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: published-devices}}
spec:
  resources: [extended]
  match: {{namespaces: {{selector: {{matchLabels: {{claims: published}}}}}}}}
  checks: {{requestsEqualLimits: false, advertised: true}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: devices-now}}
spec:
  resources: [pods]
  match: {{namespaces: {{selector: {{matchLabels: {{claims: now}}}}}}}}
  checks: {{schedulable: not-now}}
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {{name: warn-of-devices}}
spec:
  resources: [pods]
  match: {{namespaces: {{selector: {{matchLabels: {{claims: warned}}}}}}}}
  enforcement: warn
  checks: {{schedulable: not-now}}
"""
_ALL = {"name": "gpu", "exactly": {"deviceClassName": GPUS, "allocationMode": "All"}}
_DENIED: dict[str, tuple[dict[str, Any], str]] = {
    "more devices than allowed": (exactly(2), "the claim requests 2 devices of tallygate-gpus, more than the 1 "),
    "a class that is not allowed": (exactly(1, MORE_GPUS), 'class "tallygate-more-gpus" is not allowed'),
    "all devices of a node": (_ALL, "allocationMode All is not allowed"),
    "admin access": (exactly(1, adminAccess=True), "may not request admin access to these devices"),
}
_UNAVAILABLE: dict[str, tuple[dict[str, Any], str]] = {
    "a class that does not exist": (
        exactly(1, "tallygate-gpu"),
        ".exactly.deviceClassName: no DeviceClass tallygate-gpu: did you mean tallygate-gpus? (TG112",
    ),
    "a selector that no device passes": (
        exactly(1, selectors=[{"cel": {"expression": f'"{DRIVER}" != device.driver'}}]),
        f"selectors[0].cel.expression: no device of class {GPUS} has a driver other than {DRIVER}",
    ),
}


@pytest.fixture(scope="module")
def rule_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with a rule for claims, on a node with four devices."""
    folder = tmp_path_factory.mktemp("claim-rules") / "gate"
    with (
        publish_devices(site.cluster, site.node, 4),
        run_watching_gate(site, folder, {"claims.yaml": _POLICIES}) as gate,
    ):
        yield gate


@pytest.fixture
def dev(site: Site, rule_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace allows admin access, as far as Kubernetes knows, and claims of one device."""
    assert rule_gate.runs
    with tenant(site.cluster, tmp_path, claims="small", **{"resource.kubernetes.io/admin-access": "true"}) as made:
        until("the rule is active", lambda: made.create(claim("two", exactly(2)), dry=True).rejection != "", _WITHIN)
        yield made


@pytest.mark.parametrize("attempt", _DENIED)
def test_a_claim_and_its_template_are_denied(attempt: str, dev: Tenant) -> None:
    request, message = _DENIED[attempt]
    assert message in dev.create(claim("claim", request)).rejection
    assert message in dev.create(claim_template("template", request)).rejection


def test_a_claim_within_the_rule_is_stored_and_can_be_labelled_and_allocated(site: Site, dev: Tenant) -> None:
    assert dev.create(claim("one", exactly(1))).is_done
    dev.api.patch(
        f"{ROOT}/namespaces/{dev.namespace}/resourceclaims/one", {"metadata": {"labels": {"queue": "nightly"}}}
    )
    assert dev.create(claiming_pod(site.image, "pod", resourceClaimName="one")).is_done
    until("it is allocated", lambda: count_devices(site.cluster, dev.namespace) == 1, _WITHIN)


def test_the_schedulers_claim_for_the_extended_resources_of_a_pod_is_never_denied(site: Site, dev: Tenant) -> None:
    assert dev.create(requesting_pod(site.image, "pod", {GPU: "2"})).is_done
    until("two devices are allocated", lambda: count_devices(site.cluster, dev.namespace) == 2, _WITHIN)


def test_a_claim_from_a_template_with_admin_access_is_accepted_where_the_author_may_have_it(
    site: Site, dev: Tenant
) -> None:
    ours = api(site.cluster.kubeconfig)
    template = claim_template("monitor", exactly(1, adminAccess=True))
    ours.create(f"{ROOT}/namespaces/{dev.namespace}/resourceclaimtemplates", template)
    assert dev.create(claiming_pod(site.image, "pod", resourceClaimTemplateName="monitor")).is_done
    claims = f"{ROOT}/namespaces/{dev.namespace}/resourceclaims"
    until("the controller has created the claim", lambda: len(list(ours.items(claims))) == 1, _WITHIN)


@pytest.fixture
def ops(site: Site, rule_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose claims are compared with the published devices."""
    assert rule_gate.runs
    with tenant(site.cluster, tmp_path, claims="published") as made:
        missing = claim("missing", exactly(1, "no-such-class"))
        until("the rule is active", lambda: made.create(missing, dry=True).rejection != "", _WITHIN)
        yield made


@pytest.mark.parametrize("attempt", _UNAVAILABLE)
def test_a_claim_and_its_template_that_no_published_device_serves_are_denied(attempt: str, ops: Tenant) -> None:
    request, message = _UNAVAILABLE[attempt]
    assert message in ops.create(claim("claim", request)).rejection
    assert message in ops.create(claim_template("template", request)).rejection


def test_a_pod_is_denied_by_the_claims_of_its_template_as_soon_as_their_class_is_deleted(
    site: Site, ops: Tenant
) -> None:
    ours, temporary = api(site.cluster.kubeconfig), device_class("tallygate-temporary")
    ours.create(ours.collection(temporary, ""), temporary)
    pod = claiming_pod(site.image, "pod", resourceClaimTemplateName="template")
    try:
        template = claim_template("template", exactly(1, "tallygate-temporary"))
        until("the gate sees the class", lambda: ops.create(template, dry=True).is_done, _WITHIN)
        assert ops.create(template).is_done
        until("the pod is allowed", lambda: ops.create(pod, dry=True).is_done, _WITHIN)
    finally:
        ours.delete(f"{ours.collection(temporary, '')}/tallygate-temporary")
    until("the pod is denied", lambda: ops.create(pod, dry=True).rejection != "", _WITHIN)
    assert "ResourceClaimTemplate template: no DeviceClass tallygate-temporary" in ops.create(pod, dry=True).rejection


def test_a_claim_that_published_devices_serve_is_stored_and_allocated(site: Site, ops: Tenant) -> None:
    request = exactly(1, selectors=[{"cel": {"expression": f'device.driver in ["{DRIVER}"]'}}])
    assert ops.create(claim("one", request)).is_done
    assert ops.create(claiming_pod(site.image, "pod", resourceClaimName="one")).is_done
    until("it is allocated", lambda: count_devices(site.cluster, ops.namespace) == 1, _WITHIN)


@pytest.fixture
def taint_rules(site: Site) -> str:
    """Return the path of DeviceTaintRules; skip where the scheduler does not read them (before Kubernetes 1.37)."""
    ours = api(site.cluster.kubeconfig)
    if int(ours.get("/version")["minor"].rstrip("+")) < _FIRST_WITH_TAINT_RULES:
        pytest.skip("the scheduler reads no DeviceTaintRules")
    return f"{ROOT}/devicetaintrules"


@pytest.mark.parametrize("form", ["claim", "extended resource"])
def test_the_only_device_of_a_pod_that_a_rule_taints_is_named_with_the_rule_until_it_is_deleted(
    form: str, site: Site, rule_gate: GateProcess, taint_rules: str, tmp_path: Path
) -> None:
    """While there is the rule, the gate denies the pod or warns of it, and the scheduler leaves it without a node."""
    assert rule_gate.runs
    ours, name = api(site.cluster.kubeconfig), f"upkeep-{form.partition(' ')[0]}"
    first = exactly(1, selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].index == 0'}}])
    devices, pod = {"device": "gpu-0"}, claiming_pod(site.image, "pod", resourceClaimName="first")
    tainted = f"1 has the taint {_TAINT}:NoSchedule of DeviceTaintRule {name}"
    if form != "claim":
        devices, pod = {}, requesting_pod(site.image, "pod", {GPU: "1"})
        tainted = f"4 have the taint {_TAINT}:NoSchedule of DeviceTaintRule {name}"
    selector = {"driver": DRIVER, "pool": site.node, **devices}
    spec = {"deviceSelector": selector, "taint": {"key": _TAINT, "effect": "NoSchedule"}}
    rule = {"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}
    (tmp_path / "now").mkdir()
    with (
        tenant(site.cluster, tmp_path, claims="warned") as warned,
        tenant(site.cluster, tmp_path / "now", claims="now") as now,
    ):
        for each in (warned, now):
            assert each.create(claim("first", first)).is_done
            until("the pod is allowed", partial(_is_admitted_silently, each, pod), _WITHIN)
        ours.create(taint_rules, rule)
        try:
            until("the gate knows the rule", lambda: tainted in now.create(pod, dry=True).rejection, _WITHIN)
            assert "(TG114, rule devices-now)" in now.create(pod).rejection
            answer = warned.create(pod)
            assert answer.is_done
            assert tainted in answer.messages
            until("the scheduler has tried it", lambda: _read_condition(site, warned).get("status") == "False", _WITHIN)
            assert "cannot allocate all claims" in _read_condition(site, warned)["message"]
            ours.delete(f"{warned.pods}/pod")
        finally:
            ours.delete(f"{taint_rules}/{name}")
        until("the pod is allowed again", partial(_is_admitted_silently, now, pod), _WITHIN)
        answer = now.create(pod)
        assert (answer.is_done, answer.messages) == (True, "")
        until("it has a node", lambda: is_placed(site.cluster, now.namespace, "pod"), _WITHIN)
        assert count_devices(site.cluster, now.namespace) == 1


def _is_admitted_silently(owner: Tenant, pod: Object) -> bool:
    """Return whether the gate allows a pod of a tenant without a warning."""
    return not owner.create(pod, dry=True).messages


def _read_condition(site: Site, owner: Tenant) -> dict[str, str]:
    """Return the scheduler's condition of the pod of a tenant; empty until it has tried it."""
    status = api(site.cluster.kubeconfig).get(f"{owner.pods}/pod").get("status", {})
    return next((each for each in status.get("conditions", ()) if each["type"] == "PodScheduled"), {})
