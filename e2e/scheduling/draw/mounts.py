"""The volumes of pods: claims, disks by name, and ephemeral volumes."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import DRIVER, Json
from e2e.scheduling.draw.storage import Storage

_DISKS: tuple[Json, ...] = (
    {"gcePersistentDisk": {"pdName": "disk-1"}},
    {"gcePersistentDisk": {"pdName": "disk-1", "readOnly": True}},
    {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:s", "lun": 0}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:s", "lun": 0, "readOnly": True}},
    {"rbd": {"monitors": ["10.0.0.1", "10.0.0.2"], "image": "i", "pool": "p"}},
    {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/s/d", "kind": "Managed"}},
    {"csi": {"driver": DRIVER}},
    {"emptyDir": {}},
)
_EPHEMERAL: Json = {
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "dyn",
            }
        }
    }
}


def mounts(dice: Dice, storage: Storage, *, is_placed: bool) -> list[Json]:
    """Draw the volumes of a pod; those of a `settled` pod exist."""
    if not dice.often("volumes", 0.0, 0.4 if is_placed else 0.95):
        return []
    sources = [_claim(name) for name in dice.sample(storage.claims, 0 if is_placed else 1, 2)]
    if dice.chance(0.4):
        sources.append(dice.pick(_DISKS))
    if not is_placed and dice.chance(0.03):
        sources.append(_claim("missing"))
    if not is_placed and dice.chance(0.02):
        sources.append(_EPHEMERAL)
    return [{"name": f"v{number}", **source} for number, source in enumerate(sources)]


def _claim(name: str) -> Json:
    return {"persistentVolumeClaim": {"claimName": name}}
