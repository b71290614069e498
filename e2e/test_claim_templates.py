"""Claims that the real controller makes from templates: the gate's forecast, and what the controller reports later."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.claims import (
    GPU,
    ROOT,
    claim,
    claim_template,
    claiming_deployment,
    claiming_pod,
    count_devices,
    exactly,
    is_placed,
    list_events,
    run_claim_gate,
)
from e2e.gates.process import GateProcess
from e2e.ports import Site
from e2e.tenant import Tenant, tenant
from e2e.waiting import until

_WITHIN = 120.0  # seconds
_DEVICES = 8
_HARD = "of this namespace has hard 2"
_CAP = """\
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{selector: {{matchLabels: {{gpus: {name}}}}}}}
  hard: {{{gpu}: 2}}
  workloads: {workloads}
"""
_POLICIES = "---\n".join(
    _CAP.format(name=name, gpu=GPU, workloads=workloads) for name, workloads in (("two", "warn"), ("strict", "deny"))
)


@pytest.fixture(scope="module")
def ledger_gate(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateProcess]:
    """Run a gate with its ledgers in the cluster, on a node with eight devices."""
    folder = tmp_path_factory.mktemp("templates") / "gate"
    with run_claim_gate(site, folder, {"templates.yaml": _POLICIES}, _DEVICES) as gate:
        yield gate


@pytest.fixture
def dev(site: Site, ledger_gate: GateProcess, tmp_path: Path) -> Iterator[Tenant]:
    """Yield a tenant whose namespace may use two devices, and uses none."""
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path, gpus="two") as made:
        until("a claim is accepted", lambda: made.create(claim("opens", exactly(2)), dry=True).is_done, _WITHIN)
        yield made


def test_a_deployment_is_warned_of_its_claims_right_after_its_template(site: Site, dev: Tenant) -> None:
    assert dev.create(claim_template("one-gpu", exactly(1))).is_done
    answer = dev.create(claiming_deployment(site.image, "web", 3, "one-gpu"))
    assert answer.is_done, answer.rejection
    assert f"3 replicas with their claims request 3 {GPU}, cap two {_HARD}: 2 of them can run" in answer.messages
    until("two of them have devices", lambda: count_devices(site.cluster, dev.namespace) == 2, _WITHIN)


def test_a_deployment_is_denied_where_the_cap_says_so(site: Site, ledger_gate: GateProcess, tmp_path: Path) -> None:
    assert ledger_gate.runs
    with tenant(site.cluster, tmp_path, gpus="strict") as strict:
        assert strict.create(claim_template("one-gpu", exactly(1))).is_done
        refused = strict.create(claiming_deployment(site.image, "web", 3, "one-gpu")).rejection
        assert f"3 replicas with their claims request 3 {GPU}, cap strict {_HARD}" in refused
        assert strict.create(claiming_deployment(site.image, "web", 2, "one-gpu")).is_done


def test_a_pod_whose_claim_the_cap_never_allows_is_denied(site: Site, dev: Tenant) -> None:
    assert dev.create(claim_template("three-gpus", exactly(3))).is_done
    refused = dev.create(claiming_pod(site.image, "large", resourceClaimTemplateName="three-gpus")).rejection
    assert f"the claims of this pod request 3 {GPU}, cap two {_HARD}: the pod can never run (TG209" in refused


def test_a_pod_whose_claim_has_no_room_is_warned_and_runs_once_it_has(site: Site, dev: Tenant) -> None:
    cluster = site.cluster
    assert dev.create(claim("both", exactly(2))).is_done
    assert dev.create(claim_template("one-gpu", exactly(1))).is_done
    answer = dev.create(claiming_pod(site.image, "late", resourceClaimTemplateName="one-gpu"))
    assert answer.is_done, answer.rejection
    assert f"the claims of this pod request 1 {GPU}, cap two {_HARD}, free 0: the pod stays pending" in answer.messages
    until("an event on the pod has the reason", lambda: bool(list_events(cluster, dev.namespace, "late")), _WITHIN)
    event, *_ = list_events(cluster, dev.namespace, "late")  # another one once a recount has changed the amounts
    assert event["reason"] == "FailedResourceClaimCreation"
    assert 'ResourceClaim "late-gpu-…": cap two of this namespace exceeded: requested 1 ' in event["message"], event
    assert "hard 2, free 0" in event["message"]
    assert "Wait until pods end or claims are deleted" in event["message"]
    dev.api.delete(f"{ROOT}/namespaces/{dev.namespace}/resourceclaims/both")
    until("the pod is placed", lambda: is_placed(cluster, dev.namespace, "late"), _WITHIN)
    assert count_devices(cluster, dev.namespace) == 1


def test_a_missing_template_is_reported(site: Site, dev: Tenant) -> None:
    answer = dev.create(claiming_pod(site.image, "early", resourceClaimTemplateName="missing"))
    assert answer.is_done, answer.rejection
    assert "were not compared with caps: ResourceClaimTemplate missing is unknown" in answer.messages
