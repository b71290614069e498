"""Workloads under a cap with `admit: whole` whose pods name device classes that are missing, or lead elsewhere."""

from typing import Any

import pytest

from tallygate.accounting.names import DEVICE_CLASS_PREFIX
from tallygate.state.ports import UnseenClassError, UnseenTemplateError
from tests.accounting.claims import CLASS, exactly
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import GPU
from tests.gate.test_device_classes import OTHER, store_allocated
from tests.gate.test_whole_workloads import WHOLE, create_job, create_owner, request_pod, review
from tests.state.informers.claim_templates import put_templates, template

_JOB_KIND = {"group": "batch", "kind": "Job"}


def _create_replica() -> ClaimReplica:
    """Return a replica that admits workloads as a whole, and knows a template of two devices of the class."""
    replica = create_claim_replica(WHOLE)
    put_templates(replica.templates, template("two", exactly(2)))
    return replica


def _create_job(resource: str = "", pods: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a Job whose pods get two devices each: by the resource of the class, or else by a template of claims."""
    job = create_job(pods=pods, **spec)
    pod_spec = job["spec"]["template"]["spec"]
    amounts = {resource or "cpu": "2"}
    pod_spec["containers"] = [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]
    if not resource:
        pod_spec["resourceClaims"] = [{"name": "devices", "resourceClaimTemplateName": "two"}]
    return job


_BY_CLASS = f"{DEVICE_CLASS_PREFIX}{CLASS}"


@pytest.mark.parametrize("resource", ["", _BY_CLASS])
def test_a_workload_that_names_an_unseen_class_is_not_decided(resource: str) -> None:
    replica = _create_replica()
    replica.change_classes({})
    job = _create_job(resource)
    code, message = review(replica, job)
    assert code == 429
    assert f"cap gpus: DeviceClass {CLASS} does not exist, or was not seen yet" in message
    record = replica.admit(job, kind=_JOB_KIND, name="train").record
    assert [type(each.cause) for each in record.obstacles] == [UnseenClassError]
    assert replica.count_gpus() == (0, 0)
    replica.change_classes({CLASS: GPU})
    assert review(replica, job) == (200, "")
    assert replica.count_gpus() == (0, 2)


@pytest.mark.parametrize("resource", ["", _BY_CLASS])
def test_a_workload_that_names_an_unseen_class_may_start_fewer_pods_and_no_more(resource: str) -> None:
    replica = _create_replica()
    replica.change_classes({})
    stored = _create_job(resource)
    assert review(replica, stored, oldObject=_create_job(resource, 2))[0] == 200
    assert review(replica, stored, oldObject=stored)[0] == 200
    assert review(replica, stored, oldObject=_create_job(resource, suspend=True))[0] == 429
    assert review(replica, _create_job(resource, suspend=True))[0] == 200


def test_a_workload_that_names_an_unseen_template_is_not_decided() -> None:
    """Admit it once the template is seen: without its amounts the claims would be decided one by one."""
    replica = create_claim_replica(WHOLE)
    job = _create_job()
    code, message = review(replica, job)
    assert code == 429
    assert "cap gpus: ResourceClaimTemplate two does not exist, or was not seen yet" in message
    record = replica.admit(job, kind=_JOB_KIND, name="train").record
    assert [type(each.cause) for each in record.obstacles] == [UnseenTemplateError]
    assert replica.count_gpus() == (0, 0)
    put_templates(replica.templates, template("two", exactly(2)))
    assert review(replica, job) == (200, "")
    assert replica.count_gpus() == (0, 2)


def test_a_workload_that_names_an_unseen_template_may_start_fewer_pods_and_no_more() -> None:
    replica = create_claim_replica(WHOLE)
    stored = _create_job()
    assert review(replica, stored, oldObject=_create_job(pods=2))[0] == 200
    assert review(replica, stored, oldObject=stored)[0] == 200
    assert review(replica, stored, oldObject=_create_job(suspend=True))[0] == 429
    assert review(replica, _create_job(suspend=True))[0] == 200


def test_an_unseen_template_stops_no_workload_under_a_cap_that_counts_no_claims() -> None:
    replica = create_claim_replica(WHOLE.replace(GPU, "cpu"))
    assert review(replica, _create_job())[0] == 200


@pytest.mark.parametrize("resource", ["", _BY_CLASS])
@pytest.mark.parametrize("classes", [{CLASS: OTHER}, {CLASS: ""}])
def test_a_workload_is_reserved_by_the_mappings_of_the_ledger(resource: str, classes: dict[str, str]) -> None:
    replica = _create_replica()
    store_allocated(replica, "c1", 1)
    replica.change_classes(classes)
    assert review(replica, _create_job(resource, 2))[0] == 403
    assert review(replica, _create_job(resource)) == (200, "")
    assert replica.count_gpus() == (1, 2)
    assert request_pod(replica, "other", gpus=2)[0] == 403


def test_a_workload_of_another_one_is_reserved_once_by_the_mappings_of_the_ledger() -> None:
    replica = _create_replica()
    store_allocated(replica, "c1", 1)
    replica.change_classes({CLASS: OTHER})
    assert review(replica, _create_job(_BY_CLASS)) == (200, "")
    child = _create_job(_BY_CLASS)
    child["metadata"] |= {"name": "child", "uid": "uid-child", "ownerReferences": [create_owner()]}
    assert review(replica, child) == (200, "")
    assert replica.count_gpus() == (1, 2)
