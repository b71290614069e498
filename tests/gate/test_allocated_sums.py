"""The counted amounts of 1,000 drawn clusters with slices and allocated claims equal a plain sum over both."""

import random
from fractions import Fraction
from math import ceil
from typing import Any

from tallygate.cluster.consumers import sum_used
from tallygate.kube.resource_codec import Bookmark
from tallygate.state.ledger.ledger import Ledger
from tests.accounting.claims import Object, claim_object, exactly, result
from tests.gate.claim_replica import ClaimReplica
from tests.gate.gate_fixture import CAP
from tests.state.informers.claims import claim_page
from tests.state.informers.slices import DRIVER, create_slice, slice_page

_CLUSTERS = 1000
_MODELS = ("h100", "a100", "t4")
_SUFFIXES = {
    each: Fraction(units) for each, units in {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 1000}.items()
}
_SUFFIXES["m"] = Fraction(1, 1000)
_DEFINITIONS = f"""\
devices:
    h100: {{selector: 'device.attributes["{DRIVER}"].model == "h100"'}}
    big: {{selector: 'device.capacity["{DRIVER}"].?memory.orValue(quantity("0")).isGreaterThan(quantity("1Mi"))'}}
    any: {{selector: 'true'}}
    gpu-memory: {{sum: memory}}
    h100-memory: {{sum: {DRIVER}/memory, selector: 'device.attributes["{DRIVER}"].model == "h100"'}}
    cores: {{sum: cores}}"""
_NAMES = ("h100", "big", "any", "gpu-memory", "h100-memory", "cores")
_GUARANTEE = f"\n  guarantee: [{{namespaces: [team-a], amounts: {{{_NAMES[0]}: 1}}}}]\n"
_POLICIES = CAP.replace(
    "{nvidia.com/gpu: 4}", f"{{{', '.join(f'{name}: 1000' for name in _NAMES)}}}\n  {_DEFINITIONS}{_GUARANTEE}"
).replace("hard:", "shared: true\n  hard:")


def _draw_quantity(rng: random.Random) -> str:
    return f"{rng.choice((0, 1, 3, 40, 1500))}{rng.choice(list(_SUFFIXES))}"


def _parse(quantity: str) -> Fraction:
    digits = quantity.rstrip("KMGikm")
    return Fraction(int(digits) * _SUFFIXES[quantity[len(digits) :]])


def _draw_device(rng: random.Random, name: str) -> Object:
    """Return a device that is whole, shared, or a partition."""
    attributes = {rng.choice(("model", f"{DRIVER}/model")): {"string": rng.choice(_MODELS)}}
    device: Object = {"name": name, "attributes": attributes}
    names = [each for each in ("memory", "cores") if rng.random() < 0.7]
    if rng.random() < 0.3:
        sets = range(rng.randint(1, 2))
        device["consumesCounters"] = [
            {"counterSet": f"set-{index}", "counters": {each: {"value": _draw_quantity(rng)} for each in names}}
            for index in sets
        ]
    else:
        device["capacity"] = {rng.choice((each, f"{DRIVER}/{each}")): {"value": _draw_quantity(rng)} for each in names}
        if rng.random() < 0.3:
            device["allowMultipleAllocations"] = True
    return device


def _draw_result(rng: random.Random, pool: str, device: Object) -> Object:
    drawn = result(driver=DRIVER, pool=pool, device=device["name"])
    if device.get("allowMultipleAllocations"):
        drawn["consumedCapacity"] = {each: _draw_quantity(rng) for each in device["capacity"]}
    if rng.random() < 0.1:
        drawn["adminAccess"] = True
    return drawn


def _find(amounts: dict[str, Any], name: str) -> Any:
    return next((amounts[each] for each in (name, f"{DRIVER}/{name}") if each in amounts), None)


def _sum_one(name: str, device: Object, allocated: Object) -> int:
    """Return the amount of one result under a capacity, rounded up to whole units."""
    consumed = _find(allocated.get("consumedCapacity", {}), name)
    whole = _find(device.get("capacity", {}), name)
    if consumed is not None:
        return ceil(_parse(consumed))
    if whole is not None:
        return ceil(_parse(whole["value"]))
    counters = [_find(each["counters"], name) for each in device.get("consumesCounters", ())]
    return sum(ceil(_parse(each["value"])) for each in counters if each is not None)


def _sum_plainly(devices: dict[tuple[str, str], Object], claims: list[Object]) -> dict[str, int]:
    """Return the amounts of all claims, straight from the objects."""
    total = dict.fromkeys(_NAMES, 0)
    for claim in claims:
        if claim["metadata"]["namespace"] != "team-a":
            continue
        for allocated in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
            if allocated.get("adminAccess"):
                continue
            device = devices[allocated["pool"], allocated["device"]]
            is_h100 = _find(device["attributes"], "model")["string"] == "h100"
            memory = _find(device.get("capacity", {}), "memory")
            total["h100"] += is_h100
            total["big"] += memory is not None and _parse(memory["value"]) > 1 << 20
            total["any"] += 1
            total["gpu-memory"] += _sum_one("memory", device, allocated)
            total["h100-memory"] += _sum_one("memory", device, allocated) if is_h100 else 0
            total["cores"] += _sum_one("cores", device, allocated)
    return {name: amount for name, amount in total.items() if amount}


def _draw_cluster(rng: random.Random) -> tuple[list[Object], dict[tuple[str, str], Object], list[Object]]:
    """Return slices, their devices by pool and name, and claims; some slices are of a former generation."""
    slices, devices = [], {}
    for pool in [f"node-{index}" for index in range(rng.randint(1, 3))]:
        newest = rng.randint(1, 3)
        for number in range(rng.randint(1, 3)):
            generation = newest if number == 0 else rng.randint(1, newest)
            part = number if generation == newest else 0  # a former generation has devices of the same names
            drawn = [_draw_device(rng, f"gpu-{part}-{index}") for index in range(rng.randint(0, 4))]
            slices.append(
                create_slice(rng.randint(1, 90), *drawn, name=f"{pool}-{number}", pool=pool, generation=generation)
            )
            if generation == newest:
                devices.update({(pool, each["name"]): each for each in drawn})
    claims = []
    for number in range(rng.randint(0, 8)):
        chosen = rng.sample(sorted(devices), min(len(devices), rng.randint(0, 3)))
        results = [_draw_result(rng, pool, devices[pool, name]) for pool, name in chosen]
        identity = {"name": f"claim-{number}", "uid": f"c{number}", "resourceVersion": str(rng.randint(1, 90))}
        namespace = rng.choice(("team-a", "team-a", "other"))
        claims.append(claim_object(exactly(1), results=results or None, namespace=namespace, **identity))
    return slices, devices, claims


def test_a_snapshot_counts_the_plain_sum_over_slices_and_claims() -> None:
    replica = ClaimReplica(_POLICIES)
    (cap,) = replica.caps.list_caps()
    replica.claims.apply(Bookmark(replica.revision))
    amounts = 0
    for seed in range(_CLUSTERS):
        slices, devices, claims = _draw_cluster(random.Random(seed))  # noqa: S311  # repeatable
        revision = replica.next_revision()
        replica.devices.apply(slice_page(revision, *slices))
        replica.claims.apply(claim_page(revision, *claims))
        (key,) = [each for each, _ in replica.reconciler.list_ledgers(["team-a"])]
        snapshot = replica.usage_lister.take_snapshot(cap, key, Ledger(cap.hard))
        assert snapshot is not None
        assert dict(snapshot.used) == _sum_plainly(devices, claims), f"seed {seed}"
        assert not snapshot.uncounted
        assert snapshot.used_by_namespace == {"team-a": dict(snapshot.used)}, f"seed {seed}"
        one_by_one = sum_used(replica.usage_lister.list_consumers(cap, key)).used
        assert dict(one_by_one) == dict(snapshot.used), f"seed {seed}"
        amounts += len(snapshot.used)
    assert amounts > 2 * _CLUSTERS
