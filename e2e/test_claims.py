"""Claims for devices under a cap: attempts of a tenant to get more devices than the cap allows, by every way.

Devices come from slices, the real scheduler allocates them, and the real controllers make claims from templates.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api import api
from e2e.claims import (
    DRIVER,
    GPU,
    GPUS,
    MORE_GPUS,
    ROOT,
    claim,
    claim_template,
    claiming_pod,
    count_devices,
    device_class,
    exactly,
    first_available,
    requesting_pod,
    run_claim_gate,
)
from e2e.gates.process import GateProcess
from e2e.ports import Cluster, Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_DEVICES = 8
_OVER = "cap gpus of this namespace exceeded"
_POLICIES = f"""\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: gpus}}
spec:
  namespaces: {{selector: {{matchLabels: {{gpus: two}}}}}}
  hard: {{{GPU}: 2}}
  devices: {{{GPU}: {{classes: [{MORE_GPUS}]}}}}
"""


@pytest.fixture(scope="module")
def ledger_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with its ledgers in the cluster, on a node with eight devices."""
    folder = tmp_path_factory.mktemp("claims") / "gate"
    with run_claim_gate(site, folder, {"claims.yaml": _POLICIES}, _DEVICES) as gate:
        yield gate


@pytest.fixture
def dev(site: Site, ledger_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may use two devices, and uses none."""
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path, gpus="two") as made:
        until("a claim is accepted", lambda: made.create(claim("opens", exactly(1))).is_done, _WITHIN)
        made.api.delete(f"{_claims(made)}/opens")
        # Attempts of one name share their reservation: another name shows that nothing is left of this one.
        until("its devices are free", lambda: made.create(claim("free", exactly(2)), dry=True).is_done, _WITHIN)
        yield made


@pytest.fixture
def full(dev: Tenant) -> Tenant:
    """Return a tenant whose namespace uses the two devices that it may, by a claim."""
    assert dev.create(claim("both", exactly(2))).is_done
    return dev


def _claims(tenant: Tenant) -> str:
    return f"{ROOT}/namespaces/{tenant.namespace}/resourceclaims"


_WAYS: dict[str, dict[str, Any]] = {
    "a claim of the class": claim("third", exactly(1)),
    "a claim of another class of the same devices": claim("third", exactly(1, MORE_GPUS)),
    "a claim with alternatives of which one is small": claim("third", first_available(1, 2)),
    "a claim for all devices": claim(
        "third", {"name": "gpu", "exactly": {"deviceClassName": GPUS, "allocationMode": "All"}}
    ),
    "a claim with the scheduler's annotation": claim(
        "third", exactly(1), annotations={"resource.kubernetes.io/extended-resource-claim": "true"}
    ),
    "a claim that a pod owns": claim(
        "third",
        exactly(1),
        annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
        ownerReferences=[
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "none",
                "uid": "u-1",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    ),
    "a pod with the extended resource": requesting_pod("example.com/none:1", "third", {GPU: "1"}),
    "a pod with the resource of the class": requesting_pod(
        "example.com/none:1", "third", {f"deviceclass.resource.kubernetes.io/{GPUS}": "1"}
    ),
    "a pod with the resource of the other class": requesting_pod(
        "example.com/none:1", "third", {f"deviceclass.resource.kubernetes.io/{MORE_GPUS}": "1"}
    ),
}


@pytest.mark.parametrize("way", _WAYS)
def test_nothing_more_is_accepted_under_a_full_cap(way: str, full: Tenant) -> None:
    assert f"{_OVER}: requested " in full.create(_WAYS[way]).rejection


def test_admin_access_without_the_label_of_the_namespace_is_forbidden_and_with_it_costs_nothing(
    site: Site, full: Tenant
) -> None:
    admin = claim("admin", exactly(1, adminAccess=True))
    assert "admin access to devices requires" in full.create(admin).rejection
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api(site.cluster.kubeconfig).patch(f"/api/v1/namespaces/{full.namespace}", labels)
    until("the API server knows the label", lambda: full.create(admin, dry=True).is_done, _WITHIN)


def test_a_claim_that_two_pods_share_counts_once(site: Site, dev: Tenant) -> None:
    assert dev.create(claim("shared", exactly(2))).is_done
    for name in ("one", "two"):
        assert dev.create(claiming_pod(site.image, name, resourceClaimName="shared")).is_done
    until("both pods are placed", lambda: _count_placed(site.cluster, dev.namespace) == 2, _WITHIN)
    assert count_devices(site.cluster, dev.namespace) == 2
    assert f"{_OVER}: requested 1 {GPU}, used 2" in dev.create(claim("third", exactly(1))).rejection


def test_claims_from_a_template_are_refused_beyond_the_cap_in_the_words_of_the_cap(site: Site, dev: Tenant) -> None:
    assert dev.create(claim_template("one-gpu", exactly(1))).is_done
    for number in range(3):
        pod = claiming_pod(site.image, f"pod-{number}", resourceClaimTemplateName="one-gpu")
        assert dev.create(pod).is_done
    until("two pods are placed", lambda: _count_placed(site.cluster, dev.namespace) == 2, _WITHIN)
    until("an event has the reason", lambda: _OVER in _read_events(site.cluster, dev.namespace), _WITHIN)
    assert count_devices(site.cluster, dev.namespace) == 2


def test_a_pod_whose_extended_resource_comes_by_a_claim_of_the_scheduler_counts_once(
    site: Site, dev: Tenant, ledger_gate: GateProcess
) -> None:
    assert ledger_gate.runs
    assert dev.create(requesting_pod(site.image, "first", {GPU: "1"})).is_done
    until("it is placed", lambda: _count_placed(site.cluster, dev.namespace) == 1, _WITHIN)
    assert count_devices(site.cluster, dev.namespace) == 1
    assert dev.create(claim("second", exactly(1))).is_done
    assert f"{_OVER}: requested 1 {GPU}, used " in dev.create(claim("third", exactly(1))).rejection


def test_a_copy_of_the_schedulers_claim_counts_beside_the_pod(site: Site, dev: Tenant) -> None:
    assert dev.create(requesting_pod(site.image, "first", {GPU: "1"})).is_done
    until("it is placed", lambda: _count_placed(site.cluster, dev.namespace) == 1, _WITHIN)
    (original,) = api(site.cluster.kubeconfig).items(_claims(dev))
    path = f"{_claims(dev)}/{original['metadata']['name']}"
    dev.api.patch(path, {"metadata": {"finalizers": None}})
    dev.api.delete(path)
    kept = {key: original["metadata"][key] for key in ("annotations", "ownerReferences", "name")}
    copy = {**claim("", exactly(1)), "metadata": kept}
    until("the copy is stored", lambda: dev.create(copy).is_done, _WITHIN)
    refused = dev.create(claim("third", exactly(1))).rejection
    assert _OVER in refused or "counted twice" in refused
    until("the copy counts", lambda: _OVER in dev.create(claim("third", exactly(1))).rejection, _WITHIN)


def test_alternatives_count_as_the_largest_until_they_are_allocated(site: Site, dev: Tenant) -> None:
    assert dev.create(claim("either", first_available(1, 2))).is_done
    assert f"{_OVER}: requested 1 {GPU}" in dev.create(claim("second", exactly(1))).rejection
    assert dev.create(claiming_pod(site.image, "first", resourceClaimName="either")).is_done
    until("one device is allocated", lambda: count_devices(site.cluster, dev.namespace) == 1, _WITHIN)
    until("there is room for another", lambda: dev.create(claim("second", exactly(1))).is_done, _WITHIN)


def test_an_allocation_beyond_the_cap_leaves_its_pod_pending_with_the_reason(site: Site, dev: Tenant) -> None:
    """Let a claim lose its one device, give the room to another, and let it ask for two."""
    ours = api(site.cluster.kubeconfig)
    assert dev.create(claim("either", first_available(1, 2))).is_done
    assert dev.create(claiming_pod(site.image, "first", resourceClaimName="either")).is_done
    until("one device is allocated", lambda: count_devices(site.cluster, dev.namespace) == 1, _WITHIN)
    until("there is room for another", lambda: dev.create(claim("second", exactly(1))).is_done, _WITHIN)
    dev.api.delete(f"{dev.pods}/first", gracePeriodSeconds="0")
    until("no device is allocated", lambda: count_devices(site.cluster, dev.namespace) == 0, _WITHIN)
    two = {
        "request": "gpu/choice-1",
        "driver": DRIVER,
        "pool": site.node,
    }
    results = [{**two, "device": f"gpu-{number}"} for number in range(2)]
    status = {"status": {"allocation": {"devices": {"results": results}}}}
    answer = ours.ask("PATCH", f"{_claims(dev)}/either/status", status, kind="application/merge-patch+json")
    assert _OVER in answer.rejection, answer
    assert count_devices(site.cluster, dev.namespace) == 0


def test_a_resource_that_becomes_that_of_a_class_later_counts_the_claims_that_exist(
    site: Site, dev: Tenant, ledger_gate: GateProcess
) -> None:
    assert ledger_gate.runs
    ours, late = api(site.cluster.kubeconfig), device_class(f"late-{dev.namespace}")
    classes = ours.collection(late, "")
    ours.create(classes, late)
    name = late["metadata"]["name"]
    try:
        assert dev.create(claim("early", exactly(2, name))).is_done
        ours.patch(f"{classes}/{name}", {"spec": {"extendedResourceName": GPU}})
        until("the claim counts", lambda: _OVER in dev.create(claim("third", exactly(1)), dry=True).rejection, _WITHIN)
        ours.patch(f"{classes}/{name}", {"spec": {"extendedResourceName": None}})
        assert _OVER in dev.create(claim("third", exactly(1))).rejection
    finally:
        ours.delete(f"{classes}/{name}")
    dev.api.delete(f"{_claims(dev)}/early")
    until("it counts no more", lambda: dev.create(claim("third", exactly(1)), dry=True).is_done, _WITHIN)


def test_a_claim_made_before_its_namespace_came_under_the_cap_counts(
    site: Site, ledger_gate: GateProcess, tmp_path: Path
) -> None:
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path) as made:
        assert made.create(claim("early", exactly(2))).is_done
        labels = {"metadata": {"labels": {"gpus": "two"}}}
        api(site.cluster.kubeconfig).patch(f"/api/v1/namespaces/{made.namespace}", labels)
        until("the claim counts", lambda: _OVER in made.create(claim("third", exactly(1)), dry=True).rejection, _WITHIN)


def test_a_deleted_claim_frees_its_devices(full: Tenant) -> None:
    full.api.delete(f"{_claims(full)}/both")
    until("there is room", lambda: full.create(claim("next", exactly(2))).is_done, _WITHIN)


def _count_placed(cluster: Cluster, namespace: str) -> int:
    pods = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/pods")
    return sum("nodeName" in each["spec"] for each in pods)


def _read_events(cluster: Cluster, namespace: str) -> str:
    events = api(cluster.kubeconfig).items(f"/api/v1/namespaces/{namespace}/events")
    return "\n".join(each.get("message", "") for each in events)
