"""The storage of a case: classes, drivers, claims and volumes."""

from dataclasses import dataclass, field

from e2e.scheduling.draw.claims import claim, volume
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.drivers import drivers
from e2e.scheduling.draw.names import DRIVER, HOSTNAME, MEASURED, REGION, ZONE, Json

_LATE = "WaitForFirstConsumer"


@dataclass
class Storage:
    """The drawn storage: its objects, claims before their volumes, and the names of the claims."""

    objects: list[Json] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)


def storage(dice: Dice, namespace: str, nodes: list[str]) -> Storage:
    """Draw storage for the pods of a namespace, mostly none if the case does not have the feature."""
    if not dice.often("volumes", 0.06, 1.0):
        return Storage()
    claimed = [claim(dice, number, namespace, nodes) for number in range(dice.count(2, 6))]
    free = [volume(dice, f"free-{number}", nodes) for number in range(dice.count(0, 4))]
    made = [each for sample in claimed for each in sample]
    names = [claim["metadata"]["name"] for claim, *_ in claimed]
    return Storage([*_classes(dice), *drivers(dice, nodes), *made, *free], names)


def _classes(dice: Dice) -> list[Json]:
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": dice.sample(("a", "b", "c"), 1, 2)}]}]
    if dice.chance(0.3):
        zones[0]["matchLabelExpressions"].append({"key": REGION, "values": ["r1"]})
    if dice.chance(0.3):
        zones.append({"matchLabelExpressions": [{"key": HOSTNAME, "values": dice.sample(("n0", "n1", "n2"), 1, 2)}]})
    return [
        _class("local", "kubernetes.io/no-provisioner", _LATE),
        _class("dyn", DRIVER, _LATE),
        _class("dyn-zone", DRIVER, _LATE) | {"allowedTopologies": zones},
        _class("now", DRIVER, "Immediate"),
        _class("measured", MEASURED, _LATE),
    ]


def _class(name: str, provisioner: str, mode: str) -> Json:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return kind | {"provisioner": provisioner, "volumeBindingMode": mode}
