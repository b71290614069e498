"""The amounts that pods and claims may use, and those that a count must give them, by plain arithmetic.

A device may count the least of all that slices have ever published of it: its driver may change it at any time.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

import msgspec

from tallygate.accounting.devices.device_meter import DeviceId, KnownDevice
from tallygate.state.ledger.ledger import Ledger
from tests.accounting.claims import CLASS
from tests.gate.simulation.cluster_objects import Claim, Pod
from tests.gate.simulation.counts import Count
from tests.gate.simulation.device_policies import H100, MEMORY
from tests.gate.simulation.ground_truth import GroundTruth
from tests.state.informers.pods import GPU

Sizes = dict[str, int]
"""Amounts by name, also zero."""

MEASURED = (H100, MEMORY)
"""The names that count devices by attributes and capacities."""


def measure_least(truth: GroundTruth, devices: Iterable[DeviceId]) -> Sizes:
    """Return the least that devices may count."""
    return _measure(truth, devices, min)


def _measure(truth: GroundTruth, devices: Iterable[DeviceId], choose: Callable[[Iterable[int]], int]) -> Sizes:
    sizes = dict.fromkeys(MEASURED, 0)
    for device in devices:
        for name in MEASURED:
            sizes[name] += choose(each.amounts[name] for each in truth.published[device])
    return sizes


def compute_right(truth: GroundTruth, claim: Claim) -> Sizes:
    """Return the amounts that a stored claim may use without a decision."""
    if not claim.is_bound:
        return {GPU: 0}
    if claim.devices:
        return {GPU: len(claim.devices), **measure_least(truth, claim.devices)}
    return {GPU: 0 if claim.is_flexible and claim.has_ended else max(claim.alternatives)}


def compute_requested(truth: GroundTruth, claim: Claim) -> Sizes:
    """Return the amounts that a claim may use once the API server has stored it."""
    if not claim.is_bound:
        return {GPU: 0}
    return {GPU: claim.counted, **measure_least(truth, claim.devices)}


def belongs_to_pod(claim: Claim, pods: Mapping[str, Pod]) -> bool:
    """Return whether a claim is the scheduler's for a pod: the statuses of both say so (rule 10)."""
    pod = pods.get(claim.owner)
    if pod is None or not claim.is_annotated or claim.reserved_for != claim.owner:
        return False
    return not pod.ended and pod.claim == claim.name and pod.namespace == claim.namespace


def split_used(truth: GroundTruth, count: Count, ledger: Ledger, members: Collection[str]) -> dict[str, Sizes]:
    """Return the part of each pod and claim in the used amounts of a count."""
    parts = {
        uid: {GPU: pod.used} for uid, pod in truth.list_pods_at(count.pods_revision).items() if pod.namespace in members
    }
    owners = truth.list_pods_at(count.owners_revision)
    for uid, claim in truth.claim_history.list_at(count.claims_revision).items():
        if claim.namespace in members:
            counted = claim.counted if (CLASS, GPU) in ledger.mappings else 0
            if belongs_to_pod(claim, owners):
                counted = max(counted - owners[claim.owner].size, 0)
            parts[uid] = {GPU: counted, **_measure_found(truth, claim, count, ledger)}
    return parts


def _measure_found(truth: GroundTruth, claim: Claim, count: Count, ledger: Ledger) -> Sizes:
    """Return the amounts of the devices of a claim as a replica knows them.

    If it does not know one, the ledger has the amounts, within the limits of all contents that slices have published.
    Without these a device counts once, and the ledger does not count a sum of capacities.
    """
    found = [count.found.get(each) for each in claim.devices]
    known = [each for each in found if each is not None]
    if len(known) == len(found):
        return {name: sum(_read_device(each)[name] for each in known) for name in MEASURED}
    kept, least = ledger.unpublished.get(claim.uid), measure_least(truth, claim.devices)
    if kept is None:
        return {**least, H100: sum(1 if each is None else _read_device(each)[H100] for each in found)}
    most = {**_measure(truth, claim.devices, max), H100: len(found)}
    return {name: min(max(kept.get(name, 0), least[name]), most[name]) for name in MEASURED}


def _read_device(known: KnownDevice) -> Sizes:
    return _decode_device(known.content)


@cache
def _decode_device(content: bytes) -> Sizes:
    device = msgspec.json.decode(content)
    is_h100 = device["attributes"]["model"]["string"] == "h100"
    return {H100: int(is_h100), MEMORY: int(device["capacity"]["memory"]["value"])}
