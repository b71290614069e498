"""Claims for devices: the charge of a ResourceQuota, as forecast and beside that of a cap.

The forecast is exact, but for classes with one extended resource: Kubernetes counts one of them, in no certain order,
and the forecast has the least. A cap means the same as a quota, with three exceptions, each on purpose. A ResourceQuota
charges admin access, which takes no device from anyone; more devices than the 32 that any claim can get; and, where
several classes have one extended resource, the devices of one of them only.
"""

from collections.abc import Iterator
from typing import Any

from tallygate.accounting.claim_charge import MAX_DEVICES, compute_claim_charge, find_device_sources
from tallygate.accounting.names import DEVICES_SUFFIX, REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.resource_quota import compute_claim_quota_charge
from tallygate.objects.devices import ResourceClaim
from tests.conformance.case import Case, Outcome
from tests.conformance.typed_objects import decode_object


def compare(case: Case) -> Outcome:
    """Compare the charge by class, by the resource of the class, and by its extended resource."""
    resources_by_class: dict[str, str] = case["classes"]
    theirs = {key: Quantity.from_json(f'"{text}"'.encode()).value() for key, text in case["answer"].items()}
    return Outcome(tuple(_list_differences(case["claim"], resources_by_class, theirs)))


def _list_differences(claim: Case, resources_by_class: dict[str, str], theirs: dict[str, int]) -> Iterator[str]:
    resources = {*resources_by_class.values()} - {""}
    forecast = compute_claim_quota_charge(decode_object(claim, ResourceClaim), resources_by_class)
    for key in sorted(theirs.keys() | forecast.keys()):
        if key.removeprefix(REQUESTS_PREFIX) not in resources and theirs.get(key, 0) != forecast.get(key, 0):
            yield f"{key}: Kubernetes charges {theirs.get(key, 0)}, the forecast {forecast.get(key, 0)}"
    for class_name in resources_by_class:
        yield from _compare_charge(claim, class_name + DEVICES_SUFFIX, resources_by_class, {class_name})
    for resource in sorted(resources):
        classes = {name for name, each in resources_by_class.items() if each == resource}
        by_class = {_charge_as_quota(claim, {name}) for name in classes} - {0} or {0}
        charged, least = theirs.get(REQUESTS_PREFIX + resource, 0), forecast.get(REQUESTS_PREFIX + resource, 0)
        if charged not in by_class:
            yield f"{resource}: Kubernetes charges {charged}, its rule one of {sorted(by_class)}"
        if least != min(by_class):
            yield f"{resource}: the forecast charges {least}, the least is {min(by_class)}"
        yield from _compare_charge(claim, resource, resources_by_class, classes)


def _compare_charge(claim: Case, name: str, resources_by_class: dict[str, str], classes: set[str]) -> Iterator[str]:
    """Compare the charge with the rule of a ResourceQuota, but for what differs on purpose."""
    expected = min(_charge_as_quota(_drop_admin_access(claim), classes), MAX_DEVICES)
    charged = _charge(claim, name, resources_by_class)
    if charged != expected:
        yield f"{name}: tallygate charges {charged}, not {expected}"


def _charge(claim: Case, name: str, resources_by_class: dict[str, str]) -> int:
    sources = find_device_sources([name], resources_by_class, {})
    return compute_claim_charge(decode_object(claim, ResourceClaim), sources).get(name, 0)


def _drop_admin_access(claim: Case) -> Case:
    """Return the claim without its requests for admin access."""
    requests = [each for each in claim["spec"]["devices"]["requests"] if not each.get("exactly", {}).get("adminAccess")]
    return {**claim, "spec": {"devices": {"requests": requests}}}


def _charge_as_quota(claim: Case, classes: set[str]) -> int:
    """Return the devices of these classes by the rule of a ResourceQuota: the largest alternative of each request."""
    total = 0
    for request in claim["spec"]["devices"]["requests"]:
        alternatives: list[dict[str, Any]] = request.get("firstAvailable") or [request.get("exactly") or {}]
        counts = [_count(each) for each in alternatives if each.get("deviceClassName") in classes]
        total += max(counts, default=0)
    return total


def _count(alternative: dict[str, Any]) -> int:
    return MAX_DEVICES if alternative.get("allocationMode") == "All" else int(alternative.get("count") or 1)
