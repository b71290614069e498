"""Nodes with amounts and their field managers, as an API server sends them."""

from typing import Any

Object = dict[str, Any]

SEAT = "example.com/seat"
OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"
OURS = "tallygate-advertise"


def create_node(  # noqa: PLR0913  # each is a part of the node
    name: str = "n1",
    capacity: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    *,
    managers: dict[str, list[str]] | None = None,
    followers: dict[str, list[str]] | None = None,
    version: str = "7",
) -> Object:
    """Return a node. `managers` own names in its capacity, `followers` in allocatable; without it the same ones.

    Without `allocatable` it is the capacity.
    """
    followers = managers if followers is None else followers
    entries = [
        {
            "manager": manager,
            "operation": "Apply" if manager.startswith("tallygate") else "Update",
            "subresource": "status",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:status": {
                    "f:capacity": {f"f:{each}": {} for each in (managers or {}).get(manager, ())},
                    "f:allocatable": {".": {}, **{f"f:{each}": {} for each in (followers or {}).get(manager, ())}},
                    "f:conditions": {'k:{"type":"Ready"}': {".": {}}},
                }
            },
        }
        for manager in {**(managers or {}), **(followers or {})}
    ]
    cpu = {"cpu": "8"}
    has = {**cpu, **(capacity or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": version, "managedFields": entries},
        "status": {"capacity": has, "allocatable": has if allocatable is None else {**cpu, **allocatable}},
    }
