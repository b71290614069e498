"""DeviceClasses, and the specs of ResourceClaims."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import Json

CLASSES = ("gpu", "big", "any", "nic")
BACKED = ("example.com/card", "nvidia.com/gpu")
"""Extended resources that classes may back; nodes have the second one, too."""
LATE = "example.com/late"
"""The annotation of a template from which no claims are made."""
_ANY_DRIVER = "true"
_SELECTORS = {
    'device.attributes["gpu.example.com"].?model.orValue("") == "a100"': 5.0,
    'device.attributes["gpu.example.com"].?model.orValue("") == "h100"': 2.0,
    "device.attributes[device.driver].?numa.orValue(0) == 1": 2.0,
    'device.driver == "gpu.example.com"': 1.0,
    'has(device.attributes["gpu.example.com"].model)': 1.0,
    'device.attributes["gpu.example.com"].model == "a100"': 0.4,
    'device.attributes["gpu.example.com"].numa == 0': 0.15,
    'device.capacity[device.driver].memory.compareTo(quantity("40Gi")) >= 0': 0.4,
    "has(device.capacity[device.driver].memory) && "
    'device.capacity[device.driver].memory.compareTo(quantity("60Gi")) < 0': 1.0,
    'device.attributes["gpu.example.com"].?spare.orValue(false)': 0.7,
    "device.allowMultipleAllocations == true": 0.7,
    'device.attributes["gpu.example.com"].nope': 0.04,
    "device.nope": 0.03,
}
"""Selectors by weight; some fail for a device that lacks an attribute."""
_ATTRIBUTES = (
    "gpu.example.com/numa",
    "gpu.example.com/numa",
    "gpu.example.com/model",
    "gpu.example.com/version",
    "example.com/rack",
    "nic.example.com/numa",
)
_AMOUNTS = {
    "memory": ("0", "1Gi", "5Gi", "8Gi", "10Gi", "16Gi", "20Gi", "40Gi", "41Gi"),
    "slots": ("1", "1200m", "2", "500m", "3"),
    "gpu.example.com/memory": ("1Gi",),
}


def draw_classes(dice: Dice) -> list[Json]:
    """Return classes; each of them mostly exists."""
    classes = [_draw_class(dice, name) for name in CLASSES if dice.chance(0.97)]
    resources = dice.sample(BACKED, 0, 2)
    for each, resource in zip(dice.sample(classes, 0, len(classes)), resources, strict=False):
        each["spec"]["extendedResourceName"] = resource
    if resources and dice.chance(0.15):
        classes.append(_draw_class(dice, "gpu-too"))
        classes[-1]["spec"]["extendedResourceName"] = dice.pick(resources)
    return classes


def draw_claim_spec(dice: Dice, *, may_administer: bool = True) -> Json:
    """Return the spec of a claim: mostly one request for few devices."""
    requests = [
        _draw_request(dice, f"r{number}", may_administer=may_administer)
        for number in range(dice.pick_weighted({0: 0.1, 1: 7, 2: 3, 3: 1}))
    ]
    devices: Json = {"requests": requests}
    if requests and dice.chance(0.2):
        devices["constraints"] = [_draw_constraint(dice, requests) for _ in range(dice.pick_weighted({1: 5, 2: 1}))]
    return {"devices": devices if requests else {}}


def _draw_class(dice: Dice, name: str) -> Json:
    expressions = {
        "gpu": 'device.driver == "gpu.example.com"',
        "nic": 'device.driver == "nic.example.com"',
        "any": _ANY_DRIVER,
    }
    spec: Json = {"selectors": [_create_selector(expressions.get(name) or dice.pick_weighted(_SELECTORS))]}
    if dice.chance(0.1):
        spec["selectors"].append(_create_selector(dice.pick_weighted(_SELECTORS)))
    if name == "any" and dice.chance(0.7):
        spec.pop("selectors")
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def _create_selector(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _draw_request(dice: Dice, name: str, *, may_administer: bool) -> Json:
    if dice.chance(0.2):
        wishes = [{"name": f"s{number}", **_draw_wish(dice)} for number in range(dice.count(1, 3))]
        return {"name": name, "firstAvailable": wishes}
    wish = _draw_wish(dice)
    if may_administer and dice.chance(0.08):
        wish["adminAccess"] = True
    return {"name": name, "exactly": wish}


def _draw_wish(dice: Dice) -> Json:
    """Return the class and number of devices, with selectors, tolerations and capacity in some cases."""
    names = {"gpu": 6.0, "any": 4.0, "big": 1.0, "nic": 1.0, "missing": 0.02}
    wish: Json = {"deviceClassName": dice.pick_weighted(names)}
    if dice.chance(0.08):
        wish["allocationMode"] = "All"
    elif dice.chance(0.35):
        wish["count"] = dice.pick_weighted({1: 4, 2: 5, 3: 2, 4: 1, 6: 0.5, 33: 0.05})
    if dice.chance(0.22):
        expressions = [dice.pick_weighted(_SELECTORS) for _ in range(dice.pick_weighted({1: 5, 2: 1}))]
        wish["selectors"] = [_create_selector(each) for each in expressions]
    if dice.chance(0.2):
        wish["tolerations"] = [_draw_toleration(dice) for _ in range(dice.count(1, 2))]
    if dice.chance(0.15):
        names_of = dice.sample(("memory", "memory", "slots", "gpu.example.com/memory"), 1, 1)
        wish["capacity"] = {"requests": {each: dice.pick(_AMOUNTS[each]) for each in names_of}}
    return wish


def _draw_toleration(dice: Dice) -> Json:
    if dice.chance(0.3):
        return {"operator": "Exists"} | dice.pick(({}, {"effect": "NoSchedule"}, {"effect": "NoExecute"}))
    toleration: Json = {"key": dice.pick(("example.com/broken", "example.com/slow"))}
    toleration |= dice.pick(({"operator": "Exists"}, {"operator": "Equal", "value": "x"}, {"value": "y"}))
    return toleration | dice.pick(({}, {}, {"effect": "NoSchedule"}))


def _draw_constraint(dice: Dice, requests: list[Json]) -> Json:
    constraint: Json = {dice.pick(("matchAttribute", "matchAttribute", "distinctAttribute")): dice.pick(_ATTRIBUTES)}
    if dice.chance(0.4):
        names = [each["name"] for each in requests]
        names += [f"{each['name']}/{sub['name']}" for each in requests for sub in each.get("firstAvailable", ())]
        constraint["requests"] = dice.sample(names, 1, 2)
    return constraint
