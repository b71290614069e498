"""Slices of devices as the API server sends them, in lists and watch events."""

import json
from typing import Any

from tallygate.kube.resource_codec import Replaced, WatchEvent
from tallygate.state.informers.device_store import RESOURCE_SLICE_CODEC, SliceRecord

DRIVER = "gpu.example.com"
POOL = "node-1"

Object = dict[str, Any]


def create_device(name: str, model: str = "h100", memory: str = "80Gi", **more: Any) -> Object:
    """Return a device with a model and an amount of memory."""
    return {
        "name": name,
        "attributes": {"model": {"string": model}},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def create_slice(
    revision: int, *devices: Object, name: str = "slice-1", pool: str = POOL, generation: int = 1
) -> Object:
    """Return a slice of a pool."""
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": str(revision)},
        "spec": {
            "driver": DRIVER,
            "nodeName": pool,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def slice_line(kind: str, item: Object) -> WatchEvent[SliceRecord]:
    """Return the watch event of a line."""
    return RESOURCE_SLICE_CODEC.decode_event(json.dumps({"type": kind, "object": item}).encode())


def slice_page(revision: int, *items: Object) -> Replaced[SliceRecord]:
    """Return the event of a complete list."""
    body = json.dumps({"metadata": {"resourceVersion": str(revision)}, "items": items}).encode()
    return Replaced(RESOURCE_SLICE_CODEC.decode_page(body).items, revision)
