"""ResourceSlices: pools of one node, of several, of parts of devices and of shared devices, some of them broken."""

from collections.abc import Sequence
from dataclasses import replace

from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import HOSTNAME, ZONE, Json

DRIVERS = ("gpu.example.com", "nic.example.com")
_STATES = {"whole": 16.0, "replaced": 1.5, "half-replaced": 0.6, "incomplete": 0.7, "invalid": 0.4}
"""States of a pool; that of 'half-replaced' has a newer slice for other nodes."""
_KINDS = {"node": 8.0, "selector": 1.5, "all": 1.5, "devices": 1.5}
"""The nodes of a pool's slices."""
_DEVICES = {"plain": 6.0, "parts": 2.0, "shared": 2.5}
_POLICIES: tuple[Json, ...] = (
    {},
    {"requestPolicy": {"default": "8Gi", "validRange": {"min": "4Gi", "step": "4Gi"}}},
    {"requestPolicy": {"default": "4Gi", "validRange": {"min": "2Gi", "max": "16Gi"}}},
    {"requestPolicy": {"default": "10Gi", "validValues": ["5Gi", "10Gi", "20Gi"]}},
    {"requestPolicy": {"default": "8Gi"}},
)
_SLOT_POLICIES: tuple[Json, ...] = (
    {},
    {"requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}},
    {"requestPolicy": {"default": "500m", "validRange": {"min": "500m", "step": "250m"}}},
    {"requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
)
_ATTRIBUTES: dict[str, tuple[float, tuple[Json, ...]]] = {
    "model": (0.9, ({"string": "a100"}, {"string": "a100"}, {"string": "h100"})),
    "numa": (0.8, ({"int": 0}, {"int": 1})),
    "version": (0.5, ({"version": "1.9.0"}, {"version": "1.10.2"})),
    "spare": (0.3, ({"bool": True}, {"bool": False})),
    "example.com/rack": (0.4, ({"string": "1"}, {"string": "2"})),
}
_EFFECTS = {"NoSchedule": 5.0, "NoExecute": 3.0, "None": 1.0}


def draw_slices(dice: Dice, nodes: Sequence[str], tag: str = "") -> list[Json]:
    """Return the slices of a cluster, in random order; `tag` is a part of the names of pools and slices."""
    slices = []
    for driver in DRIVERS if dice.chance(0.5) else DRIVERS[:1]:
        usual = dice.pick_weighted(_DEVICES)
        for node in nodes:
            if dice.chance(0.85):
                kind = usual if dice.chance(0.8) else dice.pick_weighted(_DEVICES)
                slices += _draw_pool(dice, driver, node + tag, {"nodeName": node}, kind)
        for number in range(dice.pick_weighted({0: 5, 1: 3, 2: 1})):
            slices += _draw_pool(
                dice, driver, f"net-{number}{tag}", _draw_nodes(dice, nodes), dice.pick_weighted(_DEVICES)
            )
    return dice.sample(slices, len(slices), len(slices))


def _draw_nodes(dice: Dice, nodes: Sequence[str]) -> Json:
    """Return the part of a slice about its nodes."""
    kind = dice.pick_weighted(_KINDS)
    if kind == "node" and nodes:
        return {"nodeName": dice.pick(nodes)}
    if kind == "selector":
        return {"nodeSelector": {"nodeSelectorTerms": [_draw_term(dice, nodes)]}}
    return {"perDeviceNodeSelection": True} if kind == "devices" else {"allNodes": True}


def _draw_term(dice: Dice, nodes: Sequence[str]) -> Json:
    names = dice.sample((*nodes, "n0"), 1, 2)
    return dice.pick(
        (
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": dice.sample(("a", "b", "c"), 1, 2)}]},
            {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": names}]},
            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names[:1]}]},
        )
    )


def _draw_pool(dice: Dice, driver: str, name: str, nodes: Json, kind: str) -> list[Json]:
    """Return the slices of a pool."""
    devices = _draw_devices(dice, kind, 4 * dice.count(0, 1) + dice.count(1, 4))
    if "perDeviceNodeSelection" in nodes:
        devices = [each | _draw_nodes_of_device(dice) for each in devices]
    cut = dice.count(0, len(devices)) if dice.chance(0.4) else len(devices)
    parts: list[Json] = [{"devices": each} for each in (devices[:cut], devices[cut:]) if each]
    if kind == "parts":
        parts.append({"sharedCounters": _draw_counter_sets(dice)})
    state, generation = dice.pick_weighted(_STATES), dice.count(1, 2)
    if state == "invalid" and kind != "parts":
        parts.append({"devices": devices[:1]})
    elif state == "invalid":
        parts.pop()
    count = len(parts) + (state == "incomplete")
    pool = {"name": name, "generation": generation, "resourceSliceCount": count}
    made = [_create_slice(f"{driver[:3]}-{name}-{dice.count(0, 9999)}", driver, pool, nodes, each) for each in parts]
    if len(made) > 1 and "nodeName" in nodes and dice.chance(0.1):
        made[0]["spec"]["nodeName"] = dice.pick(("n0", "n1", "elsewhere"))
    if kind == "parts" and dice.chance(0.25) and "sharedCounters" in made[-1]["spec"]:
        counters = made[-1]["spec"]
        counters.pop(next(iter(nodes)))
        counters |= dice.pick(({"allNodes": True}, {"nodeName": "n1"}, {"nodeName": "elsewhere"}))
    if state in {"replaced", "half-replaced"}:
        other = pool | {"generation": generation + (1 if state == "half-replaced" else -1), "resourceSliceCount": 1}
        its_nodes = nodes if state == "replaced" else {"nodeName": "elsewhere"}
        part: Json = {"devices": _draw_devices(dice, "plain", 2)}
        if "perDeviceNodeSelection" in its_nodes:
            part = {"devices": [each | {"allNodes": True} for each in part["devices"]]}
        made.append(_create_slice(f"{driver[:3]}-{name}-other", driver, other, its_nodes, part))
    return made


def _create_slice(name: str, driver: str, pool: Json, nodes: Json, part: Json) -> Json:
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}}
    return kind | {"spec": {"driver": driver, "pool": pool, **nodes, **part}}


def _draw_nodes_of_device(dice: Dice) -> Json:
    nodes = ("n0", "n1", "n2", "n3")
    terms = [_draw_term(dice, nodes) for _ in range(dice.pick_weighted({1: 12, 2: 1}))]
    return dice.pick(
        (
            {"nodeName": dice.pick(nodes)},
            {"allNodes": True},
            {"nodeSelector": {"nodeSelectorTerms": terms}},
        )
    )


def _draw_devices(dice: Dice, kind: str, count: int) -> list[Json]:
    """Return devices; those of a pool are alike in most respects."""
    has_taints, has_conditions = dice.chance(0.2), dice.chance(0.05)
    devices = []
    for number in range(count):
        device: Json = {"name": f"d{number}", "attributes": _draw_attributes(dice)}
        if kind == "parts":
            device["consumesCounters"] = _draw_consumption(dice)
        if kind == "shared" or dice.chance(0.5):
            device["capacity"] = _draw_capacity(dice, is_shared=kind == "shared")
        if kind == "shared" or dice.chance(0.03):
            device["allowMultipleAllocations"] = True
            if dice.chance(0.1):
                device["consumesCounters"] = _draw_consumption(dice)
        if has_taints and dice.chance(0.5):
            device["taints"] = [_draw_taint(dice) for _ in range(dice.count(1, 2))]
        if has_conditions and dice.chance(0.5):
            device["bindingConditions"] = ["example.com/attached"]
            device["bindingFailureConditions"] = ["example.com/failed"]
        if dice.chance(0.03):
            device["bindsToNode"] = True
        devices.append(device)
    return devices


def _draw_attributes(dice: Dice) -> Json:
    return {name: dice.pick(values) for name, (chance, values) in _ATTRIBUTES.items() if dice.chance(chance)}


def _draw_capacity(dice: Dice, *, is_shared: bool) -> Json:
    amounts: Json = {"memory": {"value": dice.pick(("40Gi", "40Gi", "80Gi", "0"))}}
    if dice.chance(0.3):
        amounts["slots"] = {"value": dice.pick(("2", "4", "2500m"))}
    if dice.chance(0.1):
        amounts["example.com/links"] = {"value": "2"}
    if is_shared and dice.chance(0.7):
        amounts["memory"] |= dice.pick(_POLICIES)
        if "slots" in amounts:
            amounts["slots"] |= dice.pick(_SLOT_POLICIES)
    return amounts


def _draw_counter_sets(dice: Dice) -> list[Json]:
    sets: list[Json] = [{"name": "c0", "counters": {"memory": {"value": dice.pick(("40Gi", "40Gi", "60Gi"))}}}]
    sets[0]["counters"] |= {"slices": {"value": "7"}} if dice.chance(0.7) else {}
    if dice.chance(0.5):
        sets.append({"name": "c1", "counters": {"memory": {"value": "40Gi"}, "slices": {"value": "3500m"}}})
    return sets


def _draw_consumption(dice: Dice) -> list[Json]:
    return [
        {
            "counterSet": name,
            "counters": {"memory": {"value": dice.pick(("10Gi", "20Gi", "20Gi", "40Gi"))}}
            | ({"slices": {"value": dice.pick(("1", "2", "3", "500m"))}} if dice.chance(0.3) else {}),
        }
        for name in dice.sample(("c0", "c0", "c0", "c1"), 1, 1)
    ]


def _draw_taint(dice: Dice) -> Json:
    taint = {"key": dice.pick(("example.com/broken", "example.com/slow")), "effect": dice.pick_weighted(_EFFECTS)}
    return taint | ({"value": dice.pick(("x", "y"))} if dice.chance(0.6) else {})


def add_taint_rules(dice: Dice, case: DrawnCase) -> DrawnCase:
    """Return a case with rules that taint devices, in a quarter of all cases; Kubernetes 1.36 does not serve them."""
    slices = [each for each in case.objects if each["kind"] == "ResourceSlice"]
    count = dice.pick_weighted({0: 12, 1: 3, 2: 1}) if slices else 0
    return replace(case, objects=[*case.objects, *(_draw_taint_rule(dice, each, slices) for each in range(count))])


def _draw_taint_rule(dice: Dice, number: int, slices: Sequence[Json]) -> Json:
    spec = dice.pick(slices)["spec"]
    names = {"driver": spec["driver"], "pool": spec["pool"]["name"]}
    if spec.get("devices"):
        names["device"] = dice.pick(spec["devices"])["name"]
    selector = {field: name for field, name in names.items() if dice.chance(0.5)}
    selected = {"deviceSelector": selector} if dice.chance(0.95) else {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"rule{number}"},
        "spec": {**selected, "taint": _draw_taint(dice)},
    }
