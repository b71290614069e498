"""Forecasts for the claims that templates make: at the creation of a pod, and when a workload is applied."""

import re
from typing import Any

import pytest

from tallygate.accounting.claim_charge import UNSERVED_CLASSES
from tallygate.gate.decisions import Decision
from tallygate.objects.devices import ResourceClaim
from tests.accounting.claims import CLASS, exactly
from tests.gate.gate_fixture import CAP, GPU, GateFixture, pod, read_facts, response
from tests.gate.test_scale_requests import StoredWorkload, scale, scale_workload
from tests.gate.test_workload_forecast import get_rejection, list_warnings, rolling, workload
from tests.state.informers.claim_templates import create_store, template

DENY = CAP + "  workloads: deny\n"
IGNORE = CAP + "  workloads: ignore\n"
CLASSES = {CLASS: GPU, "nic": ""}
ONE, TWO, FIVE = (
    template("one", exactly()),
    template("two", exactly(2)),
    template("five", exactly(5)),
)
NICS = template("nics", exactly(9, "nic"))
CONTROLLED = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}]}


def create_fixture(text: str = CAP, *templates: dict[str, Any]) -> GateFixture:
    """Return a gate that knows templates of one, two and five GPUs, and of nine other devices."""
    store = create_store(ONE, TWO, FIVE, NICS, *templates)
    return GateFixture(text, claim_templates=store, resources_by_class=CLASSES)


def name_templates(*names: str) -> dict[str, Any]:
    """Return the part of a pod's spec that names templates of claims."""
    return {"resourceClaims": [{"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(names)]}


def claiming(*names: str, gpus: int = 0, uid: str = "u") -> dict[str, Any]:
    """Return a pod that names these templates beside its own GPUs."""
    return pod(uid, gpus, **name_templates(*names))


def claiming_workload(*names: str, gpus: int = 0, image: str = "a", **spec: Any) -> dict[str, Any]:
    """Return a Deployment whose pods name these templates."""
    body = workload(gpus, image=image, **spec)
    body["spec"]["template"]["spec"] |= name_templates(*names)
    return body


def claiming_job(*names: str, **spec: Any) -> dict[str, Any]:
    """Return a Job whose pods have these templates of claims."""
    workload = claiming_workload(*names, **spec)
    return workload | {"apiVersion": "batch/v1", "kind": "Job"}


def read_warnings(decision: Decision) -> list[str]:
    """Return the facts of each warning about an allowed object."""
    result = response(decision)
    assert result["allowed"], result
    return [read_facts(re.sub(r'^Pod "p[0-9]*": ', "", each)) for each in result.get("warnings", [])]


def read_denial(decision: Decision) -> str:
    """Return the facts of the message of a denied pod."""
    status = response(decision)["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    message: str = status["message"]
    return read_facts(re.sub(r'^Pod "p[0-9]*": ', "", message))


def test_a_pod_whose_claims_fit_gets_no_warning() -> None:
    fixture = create_fixture()
    assert read_warnings(fixture.admit(claiming("two", "two"))) == []
    assert read_warnings(fixture.admit(claiming("two", "one", gpus=1))) == []


@pytest.mark.parametrize("text", [CAP, DENY, IGNORE])
def test_a_pod_whose_claims_exceed_the_hard_limit_is_denied(text: str) -> None:
    fixture = create_fixture(text)
    decision = fixture.admit(claiming("five"))
    assert read_denial(decision) == f"5 {GPU} gpus hard=4 never TG209 gpus"
    assert (decision.record.codes, decision.record.rules) == (("TG209",), ("gpus",))
    assert fixture.read_reserved() == {}


def test_a_pod_and_its_claims_are_one_sum() -> None:
    fixture = create_fixture()
    assert read_denial(fixture.admit(claiming("one", "two", gpus=2))) == f"5 {GPU} 2 + 3 gpus hard=4 never TG209 gpus"
    assert fixture.read_reserved() == {}


def test_a_pod_whose_claims_exceed_the_free_amount_is_warned_beside_its_own_charge() -> None:
    fixture = create_fixture()
    fixture.create(1)
    assert read_warnings(fixture.admit(claiming("two", gpus=1))) == []
    (warning,) = read_warnings(fixture.admit(claiming("two", gpus=1, uid="v")))
    assert warning == f"2 {GPU} gpus hard=4 free=1 TG210 gpus"
    assert fixture.read_reserved() == {GPU: 3}


def test_what_is_guaranteed_to_others_is_not_free_for_claims() -> None:
    guarantee = f"guarantee: [{{namespaces: [team-b], amounts: {{{GPU}: 2}}}}]"
    fixture = create_fixture(CAP.replace("hard:", f"shared: true\n  {guarantee}\n  hard:"))
    assert read_warnings(fixture.admit(claiming("two"))) == []
    (warning,) = read_warnings(fixture.admit(claiming("two", gpus=1, uid="v")))
    assert warning == f"2 {GPU} gpus hard=4 free=1 TG210 gpus"


def test_a_dry_run_is_warned_too() -> None:
    fixture = create_fixture()
    fixture.create(3)
    (warning,) = read_warnings(fixture.admit(claiming("two"), dryRun=True))
    assert "TG210" in warning


def test_a_cap_that_ignores_workloads_gives_no_warning() -> None:
    fixture = create_fixture(IGNORE)
    fixture.create(3)
    assert read_warnings(fixture.admit(claiming("two"))) == []
    assert list_warnings(fixture, claiming_workload("five")) == []
    assert read_warnings(fixture.admit(claiming("missing", uid="v"))) == ["ResourceClaimTemplate missing unknown"]
    assert list_warnings(fixture, claiming_workload("missing")) == []


def test_a_pod_of_a_controller_is_denied_but_not_warned() -> None:
    fixture = create_fixture()
    fixture.create(3)
    for each, name in enumerate(("two", "missing")):
        owned = claiming(name, uid=f"owned-{each}")
        owned["metadata"] |= CONTROLLED
        assert read_warnings(fixture.admit(owned)) == []
    owned = claiming("five", uid="owned")
    owned["metadata"] |= CONTROLLED
    assert "never" in read_denial(fixture.admit(owned))


def test_a_claim_that_a_pod_names_is_no_part_of_its_forecast() -> None:
    named = pod("u", 0, resourceClaims=[{"name": "c", "resourceClaimName": "five"}])
    assert read_warnings(create_fixture().admit(named)) == []


@pytest.mark.parametrize("names", [("nics",), ("one", "nics")])
def test_claims_of_other_devices_count_nothing(names: tuple[str, ...]) -> None:
    assert read_warnings(create_fixture().admit(claiming(*names))) == []


def test_an_update_of_a_pod_has_no_forecast() -> None:
    fixture = create_fixture()
    assert read_warnings(fixture.admit(claiming("five"), oldObject=claiming("five"))) == []


def test_the_filter_of_a_cap_uses_the_labels_of_the_claims() -> None:
    batch = CAP + "  pods: {objectSelector: {matchLabels: {tier: batch}}}\n"
    assert "5 nvidia.com/gpu" in read_denial(create_fixture(batch).admit(claiming("five")))
    assert read_warnings(create_fixture(batch.replace("batch", "other")).admit(claiming("five"))) == []


@pytest.mark.parametrize(
    "subjects",
    [
        "{serviceAccounts: [kube-system/resource-claim-controller]}",
        "{groups: ['system:serviceaccounts:kube-system']}",
        "{users: ['system:kube-controller-manager']}",
    ],
)
def test_a_cap_that_the_claim_controller_may_exceed_denies_no_pod(subjects: str) -> None:
    assert read_warnings(create_fixture(f"{CAP}  exceed: {subjects}\n").admit(claiming("five"))) == []


def test_the_right_of_the_user_to_exceed_a_cap_makes_no_claim() -> None:
    fixture = create_fixture(CAP + "  exceed: {users: [jane]}\n")
    assert "never" in read_denial(fixture.admit(claiming("five")))


@pytest.mark.parametrize(("names", "missing"), [(("missing",), "missing"), (("five", "b1", "a1"), "b1")])
def test_an_unknown_template_is_reported_and_gives_no_forecast(names: tuple[str, ...], missing: str) -> None:
    fixture = create_fixture(DENY)
    decision = fixture.admit(claiming(*names))
    assert read_warnings(decision) == [f"ResourceClaimTemplate {missing} unknown"]
    assert list(decision.record.unknown) == response(decision)["warnings"]
    decision = fixture.admit(claiming_workload(*names), kind={"group": "apps", "kind": "Deployment"})
    assert read_warnings(decision) == [f"ResourceClaimTemplate {missing} unknown"]


def test_an_unknown_template_is_not_reported_where_no_cap_counts_devices() -> None:
    fixture = GateFixture(CAP, claim_templates=create_store(), resources_by_class=UNSERVED_CLASSES)
    assert read_warnings(fixture.admit(claiming("missing"))) == []
    assert list_warnings(fixture, claiming_workload("missing")) == []


def test_without_a_watch_there_is_no_forecast_of_claims() -> None:
    fixture = GateFixture(CAP, resources_by_class=CLASSES)
    assert read_warnings(fixture.admit(claiming("five"))) == []
    assert list_warnings(fixture, claiming_workload("five")) == []


def test_the_claims_of_a_pod_of_a_group_are_unknown() -> None:
    grouped = claiming("five")
    grouped["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    (warning,) = response(create_fixture().admit(grouped))["warnings"]
    assert warning.endswith("not compared with caps: the pods of a group may share their claims")


_JOB = {"group": "batch", "kind": "Job"}
_SHARED = {"name": "c0", "resourceClaimTemplateName": "five"}


@pytest.mark.parametrize(
    ("scheduling", "is_shared"),
    [
        pytest.param({"resourceClaims": [_SHARED]}, True, id="the group has the claim of its pods"),
        pytest.param({"resourceClaims": [_SHARED | {"name": "x"}]}, False, id="the group has a claim of another name"),
        pytest.param({"resourceClaims": [_SHARED | {"resourceClaimTemplateName": "two"}]}, False, id="of another kind"),
        pytest.param({"schedulingPolicy": {"gang": {"minCount": 2}}}, False, id="the group has no claims"),
        pytest.param(None, False, id="no group"),
    ],
)
def test_a_claim_that_the_pods_of_a_job_share_is_not_counted_for_each_pod(
    scheduling: dict[str, Any] | None, *, is_shared: bool
) -> None:
    """Accept a Job of 64 pods with one claim in all."""
    fixture = create_fixture(DENY.replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 5"))
    job = claiming_job("five", parallelism=64, **({} if scheduling is None else {"scheduling": scheduling}))
    found = response(fixture.admit(job, kind=_JOB))
    assert found["allowed"] is is_shared
    if is_shared:
        assert "warnings" not in found


def test_each_cap_is_reported() -> None:
    two_caps = CAP + "---" + CAP.replace("gpus", "few").replace("gpu: 4", "gpu: 2")
    status = response(create_fixture(two_caps).admit(claiming("five")))["status"]
    assert [read_facts(each["message"]).split("hard=")[1] for each in status["details"]["causes"]] == [
        "2 never TG209",
        "4 never TG209 gpus",
    ]


def test_a_pod_is_not_warned_while_its_ledger_is_initializing() -> None:
    fixture = create_fixture()
    fixture.create(3)
    fixture.change_ledger(initializer="n")
    assert read_warnings(fixture.admit(claiming("two"))) == []


def test_a_workload_larger_than_the_cap_with_its_claims_is_warned_with_the_sum() -> None:
    (warning,) = list_warnings(create_fixture(), claiming_workload("two", replicas=3))
    assert warning == f"3 6 {GPU} gpus hard=4 2 TG204 gpus"
    (warning,) = list_warnings(create_fixture(), claiming_workload("two", "two", gpus=1, replicas=1))
    assert warning == f"1 5 {GPU} gpus hard=4 TG204 gpus"


def test_a_cap_can_deny_a_workload_for_its_claims() -> None:
    message = get_rejection(create_fixture(DENY), claiming_workload("two", replicas=3))["message"]
    assert message.startswith(f"3 6 {GPU}")


def test_a_workload_over_the_free_amount_is_warned_how_many_pods_wait() -> None:
    fixture = create_fixture(DENY)
    fixture.create(3)
    (warning,) = list_warnings(fixture, claiming_workload("one", replicas=3))
    assert warning == f"3 3 {GPU} gpus hard=4 free=1 2 TG205 gpus"


def test_a_change_is_warned_only_about_its_growth() -> None:
    fixture = create_fixture()
    fixture.create(3)
    old = claiming_workload("one", replicas=3)
    assert list_warnings(fixture, claiming_workload("one", replicas=4), oldObject=old) == []
    assert list_warnings(fixture, claiming_workload("one", replicas=2), oldObject=old) == []
    large = claiming_workload("two", replicas=6)
    assert list_warnings(fixture, claiming_workload("two", replicas=5), oldObject=large) == []
    (warning,) = list_warnings(fixture, large, oldObject=claiming_workload("two", replicas=5))
    assert f"6 12 {GPU}" in warning


def test_a_rollout_counts_the_claims_of_the_pods_that_it_starts_first() -> None:
    new, old = (claiming_workload("one", image=image, replicas=4, strategy=rolling(1, 0)) for image in "ba")
    (warning,) = list_warnings(create_fixture(), new, oldObject=old)
    assert f"5 5 {GPU}" in warning
    assert "never" in warning


def test_the_growth_from_an_unknown_template_is_unknown() -> None:
    old = claiming_workload("missing", replicas=3)
    fixture = create_fixture(DENY)
    request: dict[str, Any] = {"kind": {"group": "apps", "kind": "Deployment"}, "oldObject": old}
    assert read_warnings(fixture.admit(claiming_workload("two", replicas=3), **request)) == [
        "ResourceClaimTemplate missing unknown"
    ]


def test_an_unknown_template_leaves_the_forecast_of_the_pods_themselves() -> None:
    fixture = create_fixture()
    kind = {"group": "apps", "kind": "Deployment"}
    first, second = read_warnings(fixture.admit(claiming_workload("missing", gpus=2, replicas=3), kind=kind))
    assert f"3 6 {GPU}" in first
    assert second == "ResourceClaimTemplate missing unknown"


def test_a_scale_counts_the_claims_of_the_new_pods() -> None:
    stored = claiming_workload("two", replicas=1) | {"metadata": {"name": "w", "uid": "u", "resourceVersion": "7"}}
    store = create_store(TWO)
    fixture = GateFixture(CAP, claim_templates=store, resources_by_class=CLASSES, workloads=StoredWorkload(stored))
    (warning,) = read_warnings(scale_workload(fixture, 3, scale(1)))
    assert f"3 6 {GPU}" in warning


def test_of_several_unknown_templates_only_one_is_waited_for() -> None:
    class NoTemplates:
        """A source without templates, which records what it is asked for."""

        def __init__(self) -> None:
            self.asked: list[str] = []

        def find_claim(self, namespace: str, name: str) -> ResourceClaim | None:
            """Return None."""
            self.asked.append(f"{namespace}/{name}")
            return None

    templates = NoTemplates()
    fixture = GateFixture(CAP, claim_templates=templates, resources_by_class=CLASSES)
    fixture.admit(claiming(*(f"t{number}" for number in range(99))))
    assert templates.asked == ["team-a/t0"]


PRODUCT = (
    "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: gpus}\n"
    f"spec:\n  hard: {{gpu-memory: 20000}}\n  counts: {{gpu-memory: {{product: [{GPU}, nvidia.com/gpumem]}}}}\n"
)
NO_PRODUCT = f"spec.resourceClaims: gpus = {GPU} × nvidia.com/gpumem TG203 gpus"


def test_a_pod_whose_claims_have_one_factor_of_a_product_is_denied_as_they_would_be() -> None:
    fixture = create_fixture(PRODUCT)
    assert read_denial(fixture.admit(claiming("one"))) == NO_PRODUCT
    assert fixture.read_reserved() == {}
    owned = claiming("nics", "two", uid="owned")
    owned["metadata"] |= CONTROLLED
    assert read_denial(fixture.admit(owned)) == NO_PRODUCT


def test_claims_that_are_no_factor_of_a_product_are_accepted() -> None:
    fixture = create_fixture(PRODUCT)
    assert read_warnings(fixture.admit(claiming("nics"))) == []
    assert read_warnings(fixture.admit(claiming("missing", uid="v"))) == ["ResourceClaimTemplate missing unknown"]
    exempt = create_fixture(f"{PRODUCT}  exceed: {{users: [system:kube-controller-manager]}}\n")
    assert read_warnings(exempt.admit(claiming("one"))) == []


def test_a_workload_whose_claims_have_one_factor_of_a_product_is_reported_once() -> None:
    fixture = create_fixture(PRODUCT)
    (warning,) = list_warnings(fixture, claiming_workload("one", "two"))
    assert warning.endswith(f"spec.template.{NO_PRODUCT}")
    assert list_warnings(fixture, claiming_workload("one", replicas=0)) == []
    assert list_warnings(create_fixture(f"{PRODUCT}  workloads: ignore\n"), claiming_workload("one")) == []
    denying = create_fixture(f"{PRODUCT}  workloads: deny\n")
    assert NO_PRODUCT in get_rejection(denying, claiming_workload("one"))["message"]


def test_a_change_that_leaves_such_claims_is_not_reported_again() -> None:
    fixture = create_fixture(PRODUCT)
    old, scaled = claiming_workload("one"), claiming_workload("one", replicas=3)
    assert list_warnings(fixture, scaled, operation="UPDATE", oldObject=old) == []
    (warning,) = list_warnings(fixture, claiming_workload("two"), operation="UPDATE", oldObject=old)
    assert "TG203" in warning


FUTURE = template("future", exactly(5, "future"))
UNSEEN = f"gpus DeviceClass future {GPU}"


def test_claims_of_an_unseen_class_are_named_and_not_forecast() -> None:
    fixture = create_fixture(DENY, FUTURE)
    assert read_warnings(fixture.admit(claiming("future"))) == [UNSEEN]
    kind = {"group": "apps", "kind": "Deployment"}
    assert read_warnings(fixture.admit(claiming_workload("future"), kind=kind)) == [UNSEEN]


def test_a_template_of_an_unseen_class_is_allowed_with_a_warning() -> None:
    kind = {"group": "resource.k8s.io", "kind": "ResourceClaimTemplate"}
    assert read_warnings(create_fixture().admit(FUTURE, kind=kind, name="future")) == [UNSEEN]
    assert read_warnings(create_fixture().admit(TWO, kind=kind, name="two")) == []
