"""Caps with weighted sums and products: their denials, claims for devices, and a definition that changes."""

from collections.abc import Mapping
from typing import Any

import pytest

from tallygate.admission.evaluate import SCHEDULER_USER
from tallygate.state.ledger.ledger import compute_drift
from tests.accounting.claims import CLASS, exactly
from tests.gate.claim_replica import create_claim_replica
from tests.gate.gate_fixture import GPU, GateFixture, response
from tests.state.informers.claims import create_claim

SLICE, MEMORY = "nvidia.com/mig-3g.40gb", "nvidia.com/gpumem"
HEAD = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus}
spec:
  namespaces: {include: ["team-*"]}
"""
SLICES = f"{HEAD}  hard: {{gpu-slices: 14}}\n  counts: {{gpu-slices: {{weights: {{{GPU}: 7, {SLICE}: 4}}}}}}\n"
PRODUCT = f"{HEAD}  hard: {{gpu-memory: 20000}}\n  counts: {{gpu-memory: {{product: [{GPU}, {MEMORY}]}}}}\n"


def create_pod(uid: str, *containers: Mapping[str, int], **metadata: Any) -> dict[str, Any]:
    """Return a pod whose containers have these limits."""
    written = [
        {"name": f"c{index}", "resources": {"limits": {name: f"{amount}" for name, amount in limits.items()}}}
        for index, limits in enumerate(containers)
    ]
    return {"kind": "Pod", "metadata": {"uid": uid, "name": uid, **metadata}, "spec": {"containers": written}}


def read_message(fixture: GateFixture, pod: dict[str, Any], **request: Any) -> str:
    """Return the message of a denial, without its subject and its advice."""
    body = response(fixture.admit(pod, **request))
    message: str = "" if body["allowed"] else body["status"]["message"]
    return message.partition('": ')[2].partition(". ")[0].partition("; top consumers")[0]


def test_a_denial_has_the_calculation_of_a_weighted_sum() -> None:
    fixture = GateFixture(SLICES)
    assert not read_message(fixture, create_pod("u1", {GPU: 1}, {SLICE: 1}))
    assert fixture.read_reserved() == {"gpu-slices": 11}
    assert read_message(fixture, create_pod("u2", {SLICE: 1})) == (
        f"cap gpus of this namespace exceeded: requested 4 gpu-slices (1 {SLICE} × 4 = 4 gpu-slices), "
        "used 0, reserved 11, hard 14, free 3"
    )
    assert not read_message(fixture, create_pod("u3", {"example.com/other": 9}))


def test_a_denial_of_a_change_has_the_calculation_of_the_new_pod() -> None:
    fixture = GateFixture(SLICES)
    assert not read_message(fixture, create_pod("u1", {GPU: 1}))
    assert read_message(fixture, create_pod("u1", {GPU: 3}), oldObject=create_pod("u1", {GPU: 1})) == (
        f"cap gpus of this namespace exceeded: requested 14 gpu-slices on top of 7 (3 {GPU} × 7 = 21 gpu-slices), "
        "used 0, reserved 7, hard 14, free 7"
    )


def test_a_denial_has_the_calculation_of_a_product() -> None:
    fixture = GateFixture(PRODUCT)
    assert not read_message(fixture, create_pod("u1", {GPU: 2, MEMORY: 8000}))
    assert fixture.read_reserved() == {"gpu-memory": 16000}
    assert read_message(fixture, create_pod("u2", {GPU: 1, MEMORY: 4000}, {GPU: 1, MEMORY: 1})) == (
        "cap gpus of this namespace exceeded: requested 4001 gpu-memory "
        f"(c0 1 {GPU} × 4000 {MEMORY} + c1 1 {GPU} × 1 {MEMORY} = 4001 gpu-memory), "
        "used 0, reserved 16000, hard 20000, free 4000"
    )


def test_a_container_with_one_factor_of_a_product_is_denied() -> None:
    fixture = GateFixture(PRODUCT)
    text = (
        f"spec.containers: cap gpus counts gpu-memory = {GPU} × {MEMORY}, and c1 requests 1 {GPU} and "
        f"lacks {MEMORY}: set it (TG203, cap gpus)"
    )
    incomplete = create_pod("u1", {GPU: 1, MEMORY: 1}, {GPU: 1})
    assert read_message(fixture, incomplete) == text
    assert not read_message(fixture, incomplete, oldObject=incomplete)
    assert not read_message(fixture, create_pod("u2", {"example.com/other": 1}))


def test_a_workload_with_one_factor_of_a_product_is_reported() -> None:
    template = {"spec": create_pod("", {GPU: 1})["spec"]}
    deployment = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1, "template": template}}
    decision = GateFixture(PRODUCT).admit(deployment, kind={"group": "apps", "kind": "Deployment"}, name="d")
    (warning,) = response(decision)["warnings"]
    assert (
        f"cap gpus counts gpu-memory = {GPU} × {MEMORY}, and c0 requests 1 {GPU} and lacks {MEMORY}: set it" in warning
    )


def test_a_claim_counts_with_the_weight_of_its_extended_resource() -> None:
    replica = create_claim_replica(SLICES)
    assert replica.request_claim(create_claim("c1", 0, 1)) == 200
    assert replica.read_ledger().reserved == {"gpu-slices": 7}
    assert replica.request_claim(create_claim("c2", 0, 2)) == 403
    replica.observe_claim(create_claim("c1", replica.next_revision(), 1))
    replica.reconcile()
    assert replica.read_ledger().used == {"gpu-slices": 7}
    assert replica.request_pod("u1", 2) == 403
    assert replica.request_pod("u2", 1) == 200


@pytest.mark.parametrize(
    ("user", "classes", "code"),
    [
        pytest.param("jane", {CLASS: GPU}, 403, id="a claim has no memory to multiply by"),
        pytest.param("jane", {CLASS: "example.com/other"}, 200, id="its class is no factor"),
        pytest.param(SCHEDULER_USER, {CLASS: GPU}, 200, id="the claim of the scheduler belongs to a pod"),
    ],
)
def test_a_claim_for_one_factor_of_a_product(user: str, classes: Mapping[str, str], code: int) -> None:
    replica = create_claim_replica(PRODUCT, classes)
    decision = replica.review_claim(create_claim("c1", 0), userInfo={"username": user})
    assert response(decision).get("status", {"code": 200})["code"] == code
    if code != 200:
        assert response(decision)["status"]["message"] == (
            f'ResourceClaim "claim-c1": spec.devices.requests: cap gpus counts gpu-memory = {GPU} × {MEMORY} of '
            "containers, and a claim for devices has no such product: request the resources in a container "
            "(TG203, cap gpus)"
        )


def test_the_resource_of_a_class_is_the_factor_of_its_extended_resource() -> None:
    fixture = GateFixture(PRODUCT, resources_by_class={CLASS: GPU})
    implicit = f"deviceclass.resource.kubernetes.io/{CLASS}"
    assert not read_message(fixture, create_pod("u1", {implicit: 2, MEMORY: 8000}))
    assert fixture.read_reserved() == {"gpu-memory": 16000}
    assert "c0 requests 1 nvidia.com/gpu and lacks" in read_message(fixture, create_pod("u2", {implicit: 1}))


def test_admin_access_to_a_factor_is_accepted() -> None:
    replica = create_claim_replica(PRODUCT)
    claim = create_claim("c1", 0)
    claim["spec"]["devices"]["requests"] = [exactly(1, adminAccess=True)]
    assert replica.request_claim(claim) == 200


def test_pods_are_counted_again_by_changed_weights() -> None:
    replica = create_claim_replica(SLICES, {})
    replica.store_pod("u1", 1)
    replica.observe("u1")
    replica.reconcile()
    before = replica.read_ledger()
    assert before.used == {"gpu-slices": 7}
    replica.load_policies(SLICES.replace(": 7", ": 10"))
    replica.synced_at = replica.now
    assert replica.request_pod("u2", 1) != 200
    replica.reconcile()
    after = replica.read_ledger()
    assert after.used == {"gpu-slices": 10}
    assert not compute_drift(before, after)
    assert replica.request_pod("u2", 1) == 403
    replica.load_policies(SLICES)
    replica.synced_at = replica.now
    replica.reconcile()
    assert replica.request_pod("u2", 1) == 200
    assert replica.read_ledger().compute_charged() == {"gpu-slices": 14}
