"""Charges of a ResourceQuota for claims for devices, those that kube-scheduler makes for a pod included."""

from collections.abc import Mapping

import pytest

from tallygate.accounting.claim_charge import list_device_resources
from tallygate.accounting.resource_quota import (
    compute_claim_quota_charge,
    compute_scheduler_claim_charge,
    is_claim_key,
    requests_any,
)
from tallygate.objects.core import Pod
from tallygate.objects.devices import ResourceClaim
from tests.accounting.claims import CLASS, claim, exactly, first_available, result
from tests.accounting.objects import container, pod, sidecar

GPU = "nvidia.com/gpu"
TWIN, NIC = "twin.example.com", "nic.example.com"
CLASSES = {CLASS: GPU, NIC: ""}
TWINS = {**CLASSES, TWIN: GPU}
COUNT = "count/resourceclaims.resource.k8s.io"
BY_CLASS, BY_RESOURCE = f"{CLASS}.deviceclass.resource.k8s.io/devices", f"requests.{GPU}"
OF_CLASS = f"deviceclass.resource.kubernetes.io/{CLASS}"
BY_CLASS_RESOURCE = f"requests.{OF_CLASS}"
BY_NIC, BY_NIC_RESOURCE = (
    f"{NIC}.deviceclass.resource.k8s.io/devices",
    f"requests.deviceclass.resource.kubernetes.io/{NIC}",
)
ALL = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "allocationMode": "All"}}


def count_gpus(number: int) -> dict[str, int]:
    """Return this number of devices under the three keys that count them."""
    return dict.fromkeys((BY_CLASS, BY_CLASS_RESOURCE, BY_RESOURCE), number)


_CLAIMS: dict[str, tuple[ResourceClaim, dict[str, int]]] = {
    "a claim without requests is one claim": (claim(), {}),
    "a request without a count is for one device": (claim(exactly()), count_gpus(1)),
    "requests add up": (claim(exactly(3), exactly(2, name="more")), count_gpus(5)),
    "a class without an extended resource has two keys": (claim(exactly(3, NIC)), {BY_NIC: 3, BY_NIC_RESOURCE: 3}),
    "a class that does not exist has one": (
        claim(exactly(3, "none")),
        {"none.deviceclass.resource.k8s.io/devices": 3},
    ),
    "all devices are 32": (claim(ALL), count_gpus(32)),
    "more than 32 devices count": (claim(exactly(20), exactly(20, name="more")), count_gpus(40)),
    "devices for admin access count": (claim(exactly(3, adminAccess=True)), count_gpus(3)),
    "of alternatives the largest of each class counts": (
        claim(first_available((CLASS, 1), (NIC, 4), (CLASS, 2))),
        {**count_gpus(2), BY_NIC: 4, BY_NIC_RESOURCE: 4},
    ),
    "an allocation changes nothing": (
        claim(first_available((CLASS, 4), (CLASS, 1)), results=[result()]),
        count_gpus(4),
    ),
    "an unknown allocation mode counts nothing": (claim(exactly(3, allocationMode="Some")), {}),
}


@pytest.mark.parametrize("case", _CLAIMS)
def test_a_claim_is_charged_under_its_count_its_classes_and_their_resources(case: str) -> None:
    asked, expected = _CLAIMS[case]
    assert compute_claim_quota_charge(asked, CLASSES) == {COUNT: 1, **expected}


def test_of_two_classes_with_one_extended_resource_the_least_is_sure() -> None:
    both = claim(exactly(3), exactly(5, TWIN, name="more"))
    assert compute_claim_quota_charge(both, TWINS)[BY_RESOURCE] == 3
    assert compute_claim_quota_charge(claim(exactly(5, TWIN)), TWINS)[BY_RESOURCE] == 5


_PODS: dict[str, tuple[Pod, Mapping[str, str], dict[str, int]]] = {
    "the claim has the devices, and the pod the resource": (
        pod(container("a", None, {GPU: 2})),
        CLASSES,
        {BY_CLASS: 2, BY_CLASS_RESOURCE: 2},
    ),
    "for the resource of a class the claim adds the extended resource": (
        pod(container("a", None, {OF_CLASS: 2})),
        CLASSES,
        {BY_CLASS: 2, BY_RESOURCE: 2},
    ),
    "both resources are one claim": (
        pod(container("a", None, {GPU: 1}), container("b", None, {OF_CLASS: 2})),
        CLASSES,
        {BY_CLASS: 3, BY_CLASS_RESOURCE: 1, BY_RESOURCE: 2},
    ),
    "init containers share the devices of later ones": (
        pod(container("a", {GPU: 1}), initContainers=[sidecar("s", {GPU: 2}), container("i", {GPU: 3})]),
        CLASSES,
        {BY_CLASS: 5, BY_CLASS_RESOURCE: 5},
    ),
    "overhead is not a device": (
        pod(container("a", None, {GPU: 1}), overhead={GPU: 1}),
        CLASSES,
        {BY_CLASS: 1, BY_CLASS_RESOURCE: 1},
    ),
    "of two classes any may serve the resource": (pod(container("a", None, {GPU: 2})), TWINS, {}),
}


@pytest.mark.parametrize("case", _PODS)
def test_the_claim_of_the_scheduler_is_charged_beside_its_pod(case: str) -> None:
    asked, classes, expected = _PODS[case]
    assert compute_scheduler_claim_charge(asked, classes, lambda _: False) == {COUNT: 1, **expected}


_WITHOUT: dict[str, Pod] = {
    "a pod of other resources": pod(container("a", None, {"example.com/other": 1, "cpu": 1})),
    "a pod that requests none": pod(container("a", None, {GPU: 0})),
    "a pod that names its node": pod(container("a", None, {GPU: 1}), nodeName="n"),
    "a pod of another scheduler": pod(container("a", None, {GPU: 1}), schedulerName="other"),
    "a pod with the resource of a class that does not exist": pod(
        container("a", None, {"deviceclass.resource.kubernetes.io/none": 1})
    ),
    "a pod without a spec": Pod(),
}


@pytest.mark.parametrize("case", _WITHOUT)
def test_the_scheduler_makes_no_claim_for(case: str) -> None:
    assert compute_scheduler_claim_charge(_WITHOUT[case], CLASSES, lambda _: False) == {}


def test_the_scheduler_may_make_no_claim_for_a_resource_that_a_node_advertises() -> None:
    asked = pod(container("a", None, {GPU: 2, OF_CLASS: 1}))
    assert compute_scheduler_claim_charge(asked, CLASSES, lambda _: True) == {}
    advertised = compute_scheduler_claim_charge(asked, CLASSES, lambda name: name == GPU)
    assert advertised == {COUNT: 1, BY_CLASS: 1}


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        (COUNT, True),
        (BY_CLASS, True),
        ("none.deviceclass.resource.k8s.io/devices", True),
        (BY_CLASS_RESOURCE, True),
        (BY_NIC_RESOURCE, True),
        ("requests.deviceclass.resource.kubernetes.io/none", False),
        (BY_RESOURCE, True),
        ("requests.example.com/other", False),
        (GPU, False),
        ("requests.cpu", False),
        ("pods", False),
        ("count/resourceclaimtemplates.resource.k8s.io", False),
    ],
)
def test_a_key_counts_claims(key: str, counts: bool) -> None:  # noqa: FBT001  # a table
    assert is_claim_key(key, CLASSES) is counts


def test_only_a_resource_of_a_known_class_stands_for_devices() -> None:
    asked = pod(container("a"), initContainers=[container("i", {OF_CLASS: 1})])
    assert asked.spec
    assert requests_any(asked.spec, list_device_resources(CLASSES))
    assert not requests_any(asked.spec, list_device_resources({}))
    assert not requests_any(asked.spec, list_device_resources({NIC: GPU}))
