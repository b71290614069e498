"""Claims for devices, in short."""

from typing import Any

import msgspec

from tallygate.objects.devices import ResourceClaim

CLASS = "gpu.example.com"

Object = dict[str, Any]


def exactly(count: int | None = None, device_class: str = CLASS, name: str = "gpu", **more: Any) -> Object:
    """Return a request for devices of one class."""
    fields: Object = {"deviceClassName": device_class, **more}
    return {"name": name, "exactly": fields if count is None else {**fields, "count": count}}


def first_available(*alternatives: tuple[str, int], name: str = "gpu") -> Object:
    """Return a request for the first available of several alternatives, each a class and a number of devices."""
    listed = [
        {"name": f"choice-{index}", "deviceClassName": device_class, "count": count}
        for index, (device_class, count) in enumerate(alternatives)
    ]
    return {"name": name, "firstAvailable": listed}


def claim_object(*requests: Object, results: list[Object] | None = None, **metadata: Any) -> Object:
    """Return a claim as the API server sends it; `results` are its allocated devices."""
    claim: Object = {
        "kind": "ResourceClaim",
        "metadata": {"name": "claim-u1", "namespace": "team-a", "uid": "u1", "resourceVersion": "5", **metadata},
        "spec": {"devices": {"requests": list(requests)}},
    }
    return claim if results is None else {**claim, "status": {"allocation": {"devices": {"results": results}}}}


def result(request: str = "gpu", **more: Any) -> Object:
    """Return an allocated device of a request."""
    return {"request": request, "driver": "d", "pool": "p", "device": "gpu-0", **more}


def claim(*requests: Object, results: list[Object] | None = None) -> ResourceClaim:
    """Return a decoded claim."""
    return msgspec.convert(claim_object(*requests, results=results), ResourceClaim)
