"""Warnings about ResourceQuotas that will reject the claims of a pod, at its creation or that of its workload."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tallygate.accounting.cluster.cluster import Cluster
from tallygate.admission.request import Phase
from tallygate.review.advertised_names import may_be_advertised
from tallygate.review.cluster_snapshot import ClusterSnapshot, FixedSnapshot
from tests.accounting.claims import CLASS, claim_object, exactly, first_available
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, response
from tests.gate.test_claim_forecast import (
    CONTROLLED,
    claiming,
    claiming_job,
    claiming_workload,
    read_denial,
    read_warnings,
)
from tests.gate.test_quotas import NO_CAPS, quota, quotas
from tests.gate.test_schedulability import cluster
from tests.gate.test_workload_forecast import list_warnings, rolling, workload
from tests.state.informers.claim_templates import create_store, template

NIC = "nic.example.com"
CLASSES = {CLASS: GPU, NIC: ""}
COUNT = "count/resourceclaims.resource.k8s.io"
DEVICES, NICS = f"{CLASS}.deviceclass.resource.k8s.io/devices", f"{NIC}.deviceclass.resource.k8s.io/devices"
GPUS, OF_CLASS = f"requests.{GPU}", f"requests.deviceclass.resource.kubernetes.io/{CLASS}"
TEMPLATES = (
    template("one", exactly()),
    template("two", exactly(2)),
    template("admin", exactly(2, adminAccess=True)),
    template("choice", first_available((CLASS, 2), (NIC, 5))),
)
RECREATE: dict[str, Any] = {"strategy": {"type": "Recreate"}}


def create_fixture(
    hard: Mapping[str, int],
    used: Mapping[str, int] | None = None,
    text: str = NO_CAPS,
    *,
    gpus_on_nodes: int = 0,
    **spec: Any,
) -> GateFixture:
    """Return a gate with one quota, and with templates of claims."""
    amounts = {name: str(amount) for name, amount in hard.items()}
    counted = {name: str((used or {}).get(name, 0)) for name in hard}
    return GateFixture(
        text,
        quotas=quotas(quota(amounts, counted, **spec)),
        claim_templates=create_store(*TEMPLATES),
        resources_by_class=CLASSES,
        snapshots=FixedSnapshot(cluster(gpus_on_nodes)),
    )


def request_devices(amount: int, resource: str = GPU) -> dict[str, Any]:
    """Return a pod that requests an extended resource."""
    body = pod("u", 0)
    body["spec"]["containers"][0]["resources"] = {
        "requests": {resource: str(amount)},
        "limits": {resource: str(amount)},
    }
    return body


class _Case(NamedTuple):
    """A quota, its used amounts, a pod, and the warnings at its creation."""

    hard: Mapping[str, int]
    used: Mapping[str, int]
    pod: dict[str, Any]
    warnings: Sequence[str] = ()


_CASES = {
    "claims that fit": _Case({DEVICES: 3, COUNT: 2}, {DEVICES: 1}, claiming("two")),
    "claims that exceed the free devices of a class": _Case(
        {DEVICES: 3},
        {DEVICES: 2},
        claiming("two"),
        [f"2 {DEVICES} hard=3 free=1 TG213"],
    ),
    "claims that exceed all devices of a class": _Case(
        {DEVICES: 2}, {}, claiming("two", "one"), [f"3 {DEVICES} hard=2 never TG213"]
    ),
    "more claims than are free": _Case(
        {COUNT: 5},
        {COUNT: 4},
        claiming("one", "two"),
        [f"2 {COUNT} hard=5 free=1 TG213"],
    ),
    "claims under the resource of a class": _Case(
        {OF_CLASS: 1}, {}, claiming("two"), [f"2 {OF_CLASS} hard=1 never TG213"]
    ),
    "a pod and its claims together": _Case(
        {GPUS: 3},
        {},
        claiming("two", gpus=2),
        [f"4 {GPUS} 2 + 2 hard=3 never TG213"],
    ),
    "claims that have no room beside their pod": _Case(
        {GPUS: 5},
        {GPUS: 2},
        claiming("two", gpus=2),
        [f"2 {GPUS} hard=5 free=1 TG213"],
    ),
    "every alternative by its class": _Case(
        {DEVICES: 1, NICS: 5, GPUS: 2},
        {NICS: 1},
        claiming("choice"),
        [
            f"2 {DEVICES} hard=1 never TG213",
            f"5 {NICS} hard=5 free=4 TG213",
        ],
    ),
    "admin access, which a quota counts": _Case(
        {DEVICES: 1}, {}, claiming("admin"), [f"2 {DEVICES} hard=1 never TG213"]
    ),
    "a quota of pods": _Case({"pods": 0, "requests.cpu": 0}, {}, claiming("two")),
    "a claim that the pod names": _Case(
        {DEVICES: 0}, {}, pod("u", 0, resourceClaims=[{"name": "c", "resourceClaimName": "two"}])
    ),
    "a pod that requests the extended resource itself": _Case({GPUS: 1}, {}, request_devices(2)),
    "the scheduler's claim for an extended resource": _Case(
        {DEVICES: 1, COUNT: 1},
        {COUNT: 1},
        request_devices(2),
        [
            f"1 {COUNT} hard=1 free=0 TG213",
            f"2 {DEVICES} hard=1 never TG213",
        ],
    ),
    "the scheduler's claim for the resource of a class": _Case(
        {GPUS: 1},
        {},
        request_devices(2, OF_CLASS.removeprefix("requests.")),
        [f"2 {GPUS} hard=1 never TG213"],
    ),
}


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize(
    "text",
    [NO_CAPS, CAP.replace(GPU, "cpu"), CAP.replace("team-", "other-")],
    ids=["without caps", "under a cap", "beside a cap"],
)
def test_a_pod_is_warned_of_the_claims_that_a_quota_will_reject(case: str, text: str) -> None:
    hard, used, asked, warnings = _CASES[case]
    assert read_warnings(create_fixture(hard, used, text).admit(asked)) == list(warnings)


def test_a_resource_that_a_node_advertises_may_need_no_claim() -> None:
    fixture = create_fixture({DEVICES: 1}, gpus_on_nodes=8)
    assert read_warnings(fixture.admit(request_devices(2))) == []
    assert len(read_warnings(fixture.admit(request_devices(2, OF_CLASS.removeprefix("requests."))))) == 1


@pytest.mark.parametrize("snapshot", [None, ClusterSnapshot(Cluster())], ids=["no snapshot", "no nodes"])
def test_a_resource_is_taken_as_advertised_while_nodes_are_unknown(snapshot: ClusterSnapshot | None) -> None:
    class Snapshots:
        @contextmanager
        def open_snapshot(self, *, pods: bool) -> Iterator[ClusterSnapshot | None]:
            assert not pods
            yield snapshot

        def request_devices(self) -> None:
            raise AssertionError

    assert may_be_advertised(GPU, Snapshots())


def test_a_quota_with_scopes_counts_no_claims() -> None:
    assert read_warnings(create_fixture({DEVICES: 1}, scopes=["NotTerminating"]).admit(claiming("two"))) == []
    match = {"scopeName": "NotTerminating", "operator": "Exists"}
    fixture = create_fixture({DEVICES: 1}, scopeSelector={"matchExpressions": [match]})
    assert read_warnings(fixture.admit(claiming("two"))) == []
    assert list_warnings(fixture, claiming_workload("two", replicas=3)) == []


def test_a_cap_and_a_quota_both_warn() -> None:
    fixture = create_fixture({DEVICES: 1}, text=CAP)
    fixture.create(3)
    cap, of_quota = read_warnings(fixture.admit(claiming("two")))
    assert (cap.endswith("TG210 gpus"), of_quota.endswith("TG213")) == (True, True)


def test_a_cap_that_denies_a_pod_answers_alone() -> None:
    result = response(create_fixture({DEVICES: 1}, text=CAP).admit(claiming("two", "two", "two")))
    assert (result["allowed"], result.get("warnings")) == (False, None)


@pytest.mark.parametrize(
    ("text", "limits"), [(NO_CAPS, "quotas"), (CAP.replace(GPU, "cpu"), "quotas"), (CAP, "caps and quotas")]
)
def test_an_unknown_template_is_reported_once(text: str, limits: str) -> None:
    unknown = "ResourceClaimTemplate missing unknown"
    fixture = create_fixture({DEVICES: 1}, text=text)
    decision = fixture.admit(claiming("missing"))
    assert read_warnings(decision) == [unknown]
    assert f" with {limits}: " in response(decision)["warnings"][0]
    kind = {"group": "apps", "kind": "Deployment"}
    assert read_warnings(fixture.admit(claiming_workload("missing"), kind=kind)) == [unknown]
    assert read_warnings(create_fixture({"pods": 9}).admit(claiming("missing"))) == []


def test_no_user_reads_a_warning_about_a_pod_of_a_controller() -> None:
    owned = claiming("two")
    owned["metadata"] |= CONTROLLED
    assert read_warnings(create_fixture({DEVICES: 1}).admit(owned)) == []


def test_an_update_and_the_mutating_phase_have_no_forecast() -> None:
    fixture = create_fixture({DEVICES: 1})
    assert read_warnings(fixture.admit(claiming("two"), oldObject=claiming("two"))) == []
    assert "warnings" not in response(fixture.admit(claiming("two"), Phase.MUTATING))


def test_a_rejection_by_a_rule_has_no_forecast() -> None:
    fractions = claiming("two")
    fractions["spec"]["containers"][0]["resources"] = {"limits": {"example.com/x": "500m"}}
    result = response(create_fixture({DEVICES: 1}).admit(fractions))
    assert (result["allowed"], result.get("warnings")) == (False, None)


def test_an_invalid_quota_does_not_hide_the_warnings_of_others() -> None:
    broken = quota({DEVICES: "two"}, {DEVICES: "0"}, name="a")
    valid = quota({DEVICES: "1"}, {DEVICES: "0"})
    fixture = GateFixture(
        NO_CAPS,
        quotas=quotas(broken, valid),
        claim_templates=create_store(*TEMPLATES),
        resources_by_class=CLASSES,
    )
    assert len(read_warnings(fixture.admit(claiming("two")))) == 1


def test_a_claim_itself_is_rejected_at_once_and_has_no_forecast() -> None:
    result = response(create_fixture({DEVICES: 1}).admit(claim_object(exactly(2))))
    assert (result["allowed"], result.get("warnings")) == (True, None)


def test_a_workload_counts_its_claims_with_its_pods() -> None:
    body = claiming_workload("one", gpus=1, replicas=3, **RECREATE)
    assert list_warnings(create_fixture({GPUS: 6, DEVICES: 3, COUNT: 3}, gpus_on_nodes=8), body) == []
    fixture = create_fixture({GPUS: 5, DEVICES: 3, COUNT: 1}, {DEVICES: 1}, gpus_on_nodes=8)
    waits = "1 TG208"
    assert list_warnings(fixture, body) == [
        f"3 3 {COUNT} hard=1 1 TG208",
        f"3 3 {DEVICES} hard=3 free=2 {waits}",
        f"3 6 {GPUS} hard=5 2 TG208",
    ]


def test_a_job_counts_the_claims_that_its_pods_share_once() -> None:
    claims = [{"name": "c0", "resourceClaimTemplateName": "two"}]
    job = claiming_job("two", "one", parallelism=3, completions=3, scheduling={"resourceClaims": claims})
    kind = {"group": "batch", "kind": "Job"}
    assert read_warnings(create_fixture({DEVICES: 5, COUNT: 4}).admit(job, kind=kind)) == []
    few, full = create_fixture({DEVICES: 4}), create_fixture({DEVICES: 5}, {DEVICES: 3})
    (never,), (waits,) = (response(fixture.admit(job, kind=kind))["warnings"] for fixture in (few, full))
    assert "2 of them can run at a time" in never
    assert f"request 5 {DEVICES}" in never
    assert "free 2: some of them wait until" in waits
    assert read_warnings(full.admit(job, kind=kind, oldObject=job)) == []


def test_a_workload_of_extended_resources_counts_the_scheduler_s_claims() -> None:
    body = workload(2, replicas=3, **RECREATE)
    assert list_warnings(create_fixture({GPUS: 6, DEVICES: 5}), body) == [f"3 6 {DEVICES} hard=5 2 TG208"]
    assert list_warnings(create_fixture({GPUS: 6, DEVICES: 5}, gpus_on_nodes=8), body) == []


def test_a_change_of_a_workload_is_warned_only_about_the_growth_of_its_claims() -> None:
    full = create_fixture({DEVICES: 6}, {DEVICES: 6})
    old = claiming_workload("two", replicas=2, **RECREATE)
    assert list_warnings(full, claiming_workload("two", replicas=2, paused=True, **RECREATE), oldObject=old) == []
    assert list_warnings(full, claiming_workload("one", replicas=2, **RECREATE), oldObject=old) == []
    (warning,) = list_warnings(full, claiming_workload("two", replicas=3, **RECREATE), oldObject=old)
    assert warning == f"3 6 {DEVICES} hard=6 free=0 1 TG208"


def test_a_rollout_is_warned_about_the_claims_of_the_pods_that_it_starts_first() -> None:
    new, old = (claiming_workload("two", image=image, replicas=2, strategy=rolling(1, 0)) for image in "ba")
    (warning,) = list_warnings(create_fixture({DEVICES: 4}, {DEVICES: 4}), new, oldObject=old)
    assert warning == f"1 3 6 {DEVICES} hard=4 never maxUnavailable TG208"


def test_a_pod_over_a_cap_is_denied_with_its_claims_whatever_a_quota_allows() -> None:
    assert "never TG209" in read_denial(create_fixture({DEVICES: 99}, text=CAP).admit(claiming("two", gpus=3)))
