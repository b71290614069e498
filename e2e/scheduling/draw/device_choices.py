"""Clusters of which most nodes have devices for a pod: alternatives and resources decide the choice among them."""

from collections.abc import Sequence

from e2e.scheduling.draw.device_claims import BACKED
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import Json

_DRIVER = "gpu.example.com"
_MODELS = ("a100", "h100", "b200")
_NUMA = (0, 1)
_SELECTORS = (
    *(f'device.attributes["{_DRIVER}"].model == "{each}"' for each in _MODELS),
    *(f'device.attributes["{_DRIVER}"].numa == {each}' for each in _NUMA),
    "true",
)


def draw_choice_classes(dice: Dice) -> list[Json]:
    """Return two classes; one of them mostly backs an extended resource, which some nodes have themselves."""
    classes: list[Json] = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
        for name in ("gpu", "any")
    ]
    if dice.chance(0.8):
        classes[0]["spec"]["extendedResourceName"] = BACKED[0]
    return classes


def draw_choice_slices(dice: Dice, nodes: Sequence[str], tag: str) -> list[Json]:
    """Return a slice for nearly each node, with devices of several models."""
    return [_draw_slice(dice, node, node + tag) for node in nodes if dice.chance(0.95)]


def _draw_slice(dice: Dice, node: str, name: str) -> Json:
    devices = [
        {
            "name": f"d{number}",
            "attributes": {"model": {"string": dice.pick(_MODELS)}, "numa": {"int": dice.pick(_NUMA)}},
        }
        for number in range(dice.count(2, 5))
    ]
    if dice.chance(0.1):
        devices[0]["bindingConditions"] = ["example.com/attached"]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def _draw_device(dice: Dice, name: str) -> Json:
    attributes = {"model": {"string": dice.pick(_MODELS)}, "numa": {"int": dice.pick(_NUMA)}}
    return {"name": name, "attributes": attributes}


def draw_choice_spec(dice: Dice) -> Json:
    """Return the spec of a claim whose requests nearly all have alternatives."""
    return {"devices": {"requests": [_draw_request(dice, f"r{number}") for number in range(dice.count(1, 2))]}}


def _draw_request(dice: Dice, name: str) -> Json:
    if dice.chance(0.15):
        return {"name": name, "exactly": _draw_wish(dice)}
    wishes = [{"name": f"s{number}"} | _draw_wish(dice) for number in range(dice.count(2, 5))]
    return {"name": name, "firstAvailable": wishes}


def _draw_wish(dice: Dice) -> Json:
    selector = {"cel": {"expression": dice.pick(_SELECTORS)}}
    return {"deviceClassName": dice.pick(("gpu", "any")), "selectors": [selector], "count": dice.pick((1, 1, 1, 2))}
