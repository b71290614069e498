"""Warnings for claims that have no room under a cap by allocated devices, though they may get the least of them."""

from typing import Any

import pytest

from tallygate.gate.decisions import Decision
from tests.accounting.claims import CLASS, Object, claim_object, exactly, first_available
from tests.gate.claim_replica import ClaimReplica, create_claim_replica
from tests.gate.gate_fixture import CAP, GPU, pod, read_facts, response
from tests.gate.test_allocated_devices import create_replica, publish, store
from tests.gate.test_claim_forecast import CONTROLLED, claiming, name_templates
from tests.gate.test_workload_forecast import rolling, workload
from tests.state.informers.claim_templates import put_templates, template
from tests.state.informers.slices import create_device

BY_MEMORY = CAP.replace("{nvidia.com/gpu: 4}", "{gpu-memory: 160Gi}\n  devices: {gpu-memory: {sum: memory}}")
BOTH = CAP.replace(
    "{nvidia.com/gpu: 4}", "{nvidia.com/gpu: 4, gpu-memory: 160Gi}\n  devices: {gpu-memory: {sum: memory}}"
)
DENY, IGNORE = BY_MEMORY + "  workloads: deny\n", BY_MEMORY + "  workloads: ignore\n"
BY_SCHEDULER = BY_MEMORY + "  exceed: {users: [system:kube-scheduler]}\n"
LABELLED = BY_MEMORY + "  pods: {objectSelector: {matchLabels: {tier: test}}}\n"
LIMIT = "gpus hard=160Gi"
ONE, TWO, THREE = (template(str(number), exactly(number)) for number in (1, 2, 3))


def create_gate(text: str = BY_MEMORY, *, allocated: int = 0) -> ClaimReplica:
    """Return a replica with four devices of 80Gi, some of which are allocated, and templates of one to three."""
    replica = create_replica(text, *(create_device(f"h-{index}") for index in range(4)))
    for index in range(allocated):
        store(replica, f"c{index}", f"h-{index}")
    put_templates(replica.templates, ONE, TWO, THREE)
    replica.reconcile()
    return replica


def new_claim(*requests: Object, **metadata: Any) -> Object:
    """Return a claim that is about to be created."""
    return claim_object(*requests, name="new", uid="new", resourceVersion="", **metadata)


def read_warnings(decision: Decision) -> list[str]:
    """Return the facts of each warning about an allowed object, without its name."""
    result = response(decision)
    assert result["allowed"], result
    return [read_facts(each.partition('": ')[2]) for each in result.get("warnings", [])]


def warn_about(replica: ClaimReplica, count: int, **request: Any) -> list[str]:
    """Return the warnings about the creation of a claim for a number of devices."""
    return read_warnings(replica.review_claim(new_claim(exactly(count)), **request))


def apply(replica: ClaimReplica, body: Object, **request: Any) -> list[str]:
    """Return the warnings about a workload."""
    group = {"group": "apps", "kind": "Deployment"}
    return read_warnings(replica.admit(body, kind=group, name="trainer", **request))


def claiming_workload(name: str, replicas: int, **spec: Any) -> Object:
    """Return a Deployment whose pods name a template."""
    body = workload(0, replicas=replicas, **spec)
    body["spec"]["template"]["spec"] |= name_templates(name)
    return body


def test_a_claim_that_fits_gets_no_warning() -> None:
    assert warn_about(create_gate(), 2) == []
    assert warn_about(create_gate(allocated=1), 1) == []


def test_a_claim_without_room_is_warned_with_the_arithmetic() -> None:
    replica = create_gate(allocated=1)
    assert warn_about(replica, 2) == [f"160Gi {LIMIT} free=80Gi TG212 gpus"]
    assert warn_about(replica, 2, dryRun=True) != []


def test_a_claim_that_a_cap_can_never_allow_is_warned() -> None:
    assert warn_about(create_gate(), 3) == [f"240Gi {LIMIT} never TG211 gpus"]


def test_the_codes_are_recorded() -> None:
    assert create_gate().review_claim(new_claim(exactly(3))).record.warnings == ("TG211",)


def test_a_cheaper_device_that_is_published_later_ends_the_warning() -> None:
    replica = create_gate(allocated=2)
    assert warn_about(replica, 1) != []
    publish(replica, *(create_device(f"h-{index}") for index in range(2)), create_device("small", memory="0"))
    assert warn_about(replica, 1) == []


def test_the_selectors_of_the_class_and_of_the_request_choose_the_devices() -> None:
    replica = create_gate(allocated=1)
    devices = [create_device("h-0"), create_device("t-0", "t4", "16Gi"), create_device("a-0", "a100", "40Gi")]
    publish(replica, *devices)
    replica.selectors[CLASS] = ('device.attributes["gpu.example.com"].model != "t4"',)
    text = 'device.attributes["gpu.example.com"].model == "h100"'
    chosen = new_claim(exactly(1, selectors=[{"cel": {"expression": text}}]), new_request(2))
    (warning,) = read_warnings(replica.review_claim(chosen))
    assert "200Gi" in warning  # 80 + (40 + 80), not one of 16


def new_request(count: int) -> Object:
    """Return another request of a claim."""
    return exactly(count, name="more")


def test_the_cheapest_alternative_decides() -> None:
    replica = create_gate(allocated=1)
    assert read_warnings(replica.review_claim(new_claim(first_available((CLASS, 3), (CLASS, 1))))) == []
    assert read_warnings(replica.review_claim(new_claim(first_available((CLASS, 3), (CLASS, 2))))) != []


@pytest.mark.parametrize("text", [IGNORE, BY_SCHEDULER, LABELLED], ids=["ignore", "exceed", "other labels"])
def test_a_cap_that_does_not_reject_the_allocation_or_ignores_workloads_gives_no_warning(text: str) -> None:
    replica = create_gate(text, allocated=2)
    assert warn_about(replica, 3) == []
    assert read_warnings(replica.admit(claiming("3"))) == []
    assert apply(replica, claiming_workload("3", 2)) == []


def test_a_cap_by_labels_warns_about_the_claims_that_have_them() -> None:
    replica = create_gate(LABELLED)
    (warning,) = read_warnings(replica.review_claim(new_claim(exactly(3), labels={"tier": "test"})))
    assert "TG211" in warning


def test_the_claims_of_controllers_and_of_the_scheduler_get_no_warning() -> None:
    replica = create_gate()
    assert read_warnings(replica.review_claim(new_claim(exactly(3), **CONTROLLED))) == []
    assert warn_about(replica, 3, userInfo={"username": "system:kube-scheduler"}) == []


def test_an_update_gets_no_warning() -> None:
    replica = create_gate()
    claim = new_claim(exactly(3)) | {"metadata": new_claim()["metadata"] | {"resourceVersion": "7"}}
    assert read_warnings(replica.review_claim(claim, oldObject=claim)) == []


def test_a_claim_without_admin_access_is_warned_and_one_with_it_is_not() -> None:
    replica = create_gate()
    assert read_warnings(replica.review_claim(new_claim(exactly(3, adminAccess=True)))) == []


def test_a_claim_that_also_counts_by_its_requests_is_reserved_and_warned() -> None:
    replica = create_gate(BOTH)
    (warning,) = warn_about(replica, 3)
    assert "TG211" in warning
    assert replica.read_ledger().reserved == {GPU: 3}


def test_a_rejected_claim_gets_no_warning() -> None:
    replica = create_gate(BOTH)
    denied = response(replica.review_claim(new_claim(exactly(5))))
    assert (denied["allowed"], "warnings" in denied) == (False, False)


def test_a_ledger_that_does_not_count_the_definition_yet_gives_no_warning_for_now() -> None:
    replica = create_gate(allocated=2)
    replica.load_policies(BY_MEMORY.replace("{sum: memory}", "{sum: memory, selector: 'true'}"))
    assert warn_about(replica, 1) == []
    assert warn_about(replica, 3) != []


def test_slices_are_not_read_without_a_cap_by_allocated_devices() -> None:
    replica = create_claim_replica(CAP)
    assert warn_about(replica, 3) == []
    assert read_warnings(replica.admit(pod("u", 1))) == []
    assert replica.slice_lists == 0


def test_a_template_is_warned_only_if_a_cap_can_never_allow_its_claims() -> None:
    replica = create_gate(allocated=2)
    kind = {"group": "resource.k8s.io", "kind": "ResourceClaimTemplate"}
    assert read_warnings(replica.admit(ONE | {"kind": "ResourceClaimTemplate"}, kind=kind, name="1")) == []
    assert read_warnings(replica.admit(THREE | {"kind": "ResourceClaimTemplate"}, kind=kind, name="3")) == [
        f"240Gi {LIMIT} never TG211 gpus"
    ]


def test_a_pod_is_warned_about_the_claims_of_its_templates_together() -> None:
    replica = create_gate(allocated=1)
    assert read_warnings(replica.admit(claiming("1"))) == []
    assert read_warnings(replica.admit(claiming("1", "1", uid="v"))) == [f"160Gi {LIMIT} free=80Gi TG212 gpus"]
    assert read_warnings(replica.admit(claiming("1", "2", uid="w"))) == [f"240Gi {LIMIT} never TG211 gpus"]


def test_the_selectors_and_capacities_in_a_template_choose_the_devices() -> None:
    replica = create_gate(allocated=2)
    publish(replica, *(create_device(f"h-{index}") for index in range(3)), create_device("t-0", "t4", "0"))
    text = 'device.attributes["gpu.example.com"].model == "h100"'
    large = template("large", exactly(1, selectors=[{"cel": {"expression": text}}]))
    put_templates(replica.templates, ONE, large)
    assert read_warnings(replica.admit(claiming("1"))) == []
    (warning,) = read_warnings(replica.admit(claiming("large", uid="v")))
    assert "80Gi" in warning


def test_a_pod_of_a_controller_gets_no_warning() -> None:
    controlled = claiming("3")
    controlled["metadata"] |= CONTROLLED
    assert read_warnings(create_gate().admit(controlled)) == []


@pytest.mark.parametrize("text", [BY_MEMORY, DENY], ids=["warn", "deny"])
def test_a_workload_is_warned_but_not_denied(text: str) -> None:
    assert apply(create_gate(text), claiming_workload("1", 3)) == [f"3 240Gi {LIMIT} 2 TG204 gpus"]
    assert apply(create_gate(text), claiming_workload("3", 1)) == [f"1 240Gi {LIMIT} TG204 gpus"]


def test_a_workload_is_warned_about_the_pods_that_wait() -> None:
    replica = create_gate(allocated=1)
    assert apply(replica, claiming_workload("1", 1, strategy=rolling(0, 1))) == []
    assert apply(replica, claiming_workload("1", 2, strategy=rolling(0, 1))) == [
        f"2 160Gi {LIMIT} free=80Gi 1 TG205 gpus"
    ]


def test_a_rollout_is_warned_about_the_pods_that_it_starts_first() -> None:
    replica = create_gate(allocated=2)
    old = claiming_workload("1", 2, strategy=rolling(1, 0))
    new = claiming_workload("1", 2, strategy=rolling(1, 0), image="b")
    (warning,) = apply(replica, new, oldObject=old)
    assert warning == f"1 3 240Gi {LIMIT} never maxUnavailable TG206 gpus"


def test_other_claims_than_before_have_no_forecast_since_the_old_ones_may_have_more_than_their_least() -> None:
    replica = create_gate(allocated=2)
    assert apply(replica, claiming_workload("2", 1), oldObject=claiming_workload("1", 1)) == []
    assert apply(replica, claiming_workload("1", 2), oldObject=claiming_workload("1", 1)) != []
