"""Volume claims in every state that the scheduler distinguishes, and volumes."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import DELETION_TIMESTAMP, DRIVER, HOSTNAME, REGION, ZONE, Json

_BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
_SIZES = ("1Gi", "5Gi", "10Gi")
_STATES = {
    "bound": 7.0,
    "static": 4.0,
    "late": 2.0,
    "late-zone": 3.0,
    "measured": 2.0,
    "single": 3.0,
    "now": 0.6,
    "vanished": 0.5,
    "going": 0.4,
    "lost": 0.3,
    "classless": 0.3,
    "nosuch": 0.3,
    "prebound": 0.4,
    "chosen": 0.5,
    "reserved": 1.0,
    "unnamed": 0.2,
    "annotated": 1.0,
}
_WITH_VOLUME = {"bound", "single", "going", "prebound", "reserved"}
_WITHOUT = {"lost", "vanished"}
"""States of a claim whose volume is missing."""
_MODES = {"ReadWriteOnce": 6.0, "ReadWriteMany": 2.0, "ReadOnlyMany": 1.0}
_CLASSES = {"local": 8.0, "dyn": 1.0, "": 1.0}
_CLASS_OF = {
    "late": "dyn",
    "late-zone": "dyn-zone",
    "measured": "measured",
    "now": "now",
    "classless": "",
    "nosuch": "nosuch",
    "prebound": "dyn",
    "chosen": "dyn",
}


def claim(dice: Dice, number: int, namespace: str, nodes: list[str]) -> list[Json]:
    """Return a claim, and the volume that it has or references."""
    state = dice.pick_weighted(_STATES)
    made = _claim(dice, state, f"{state}-{number}", namespace, nodes)
    if state not in _WITH_VOLUME:
        return [made]
    return [made, volume(dice, f"pv-{state}-{number}", nodes, made)]


def _claim(dice: Dice, state: str, name: str, namespace: str, nodes: list[str]) -> Json:
    claim: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "annotations": {}},
        "spec": {
            "accessModes": ["ReadWriteOncePod" if state == "single" else dice.pick_weighted(_MODES)],
            "resources": {"requests": {"storage": dice.pick(_SIZES)}},
            "storageClassName": _CLASS_OF.get(state, "local"),
        },
    }
    if state == "static" and dice.chance(0.25):
        claim["spec"]["selector"] = {"matchLabels": {"disk": dice.pick(("ssd", "hdd"))}}
    if state == "static" and dice.chance(0.15):
        claim["spec"]["volumeMode"] = "Block"
    if state == "chosen" and nodes:
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": dice.pick(nodes)}
    if state == "unnamed":
        del claim["spec"]["storageClassName"]
    if state == "annotated":
        claim["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": dice.pick(("local", "dyn-zone"))}
        del claim["spec"]["storageClassName"]
    if state in (_WITH_VOLUME | _WITHOUT) - {"reserved"}:
        claim["spec"]["volumeName"] = f"pv-{name}"
    if state in (_WITH_VOLUME | _WITHOUT) - {"prebound", "reserved"}:
        claim["metadata"]["annotations"] = dict(_BIND_COMPLETED)
        claim["status"] = {"phase": "Lost" if state == "lost" else "Bound"}
    if state == "going":
        claim["metadata"] |= {"finalizers": ["kubernetes.io/pvc-protection"], "deletionTimestamp": DELETION_TIMESTAMP}
    return claim


def volume(dice: Dice, name: str, nodes: list[str], claim: Json | None = None) -> Json:
    """Return a volume: free, or of a claim, whose UID is set once it is known."""
    spec: Json = {
        "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"] if claim else dice.pick(_SIZES)},
        "accessModes": claim["spec"]["accessModes"] if claim else dice.sample(tuple(_MODES), 1, 2),
        "storageClassName": claim["spec"]["storageClassName"] if claim else dice.pick_weighted(_CLASSES),
        "persistentVolumeReclaimPolicy": "Retain",
    }
    spec |= {"csi": {"driver": DRIVER, "volumeHandle": name}} if dice.chance(0.6) else {"local": {"path": "/x"}}
    if "local" in spec or dice.chance(0.4):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_place(dice, nodes)]}}
    if claim is None and dice.chance(0.1):
        spec["volumeMode"] = "Block"
    if claim:
        spec["claimRef"] = {"kind": "PersistentVolumeClaim", "apiVersion": "v1"} | {
            key: claim["metadata"][key] for key in ("namespace", "name")
        }
    volume: Json = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    volume["metadata"]["labels"] = _marks(dice)
    return volume | {"status": {"phase": "Bound" if claim else dice.pick_weighted({"Available": 9, "Released": 1})}}


def _marks(dice: Dice) -> Json:
    entries = {
        ZONE: (0.3, ("a", "b", "a__b", "d")),
        REGION: (0.1, ("r1", "r2")),
        "failure-domain.beta.kubernetes.io/zone": (0.05, ("a", "b")),
        "disk": (0.5, ("ssd", "hdd")),
    }
    return {key: dice.pick(values) for key, (chance, values) in entries.items() if dice.chance(chance)}


def _place(dice: Dice, nodes: list[str]) -> Json:
    return dice.pick(
        (
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": dice.sample(("a", "b", "c"), 1, 2)}]},
            {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": dice.sample((*nodes, "n0"), 1, 3)}]},
            {"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]},
        )
    )
