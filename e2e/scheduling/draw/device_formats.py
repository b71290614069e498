"""Quantities of shared capacities in other formats: policies and requests as decimal numbers, and mixed ones."""

from collections.abc import Iterator

from e2e.scheduling.draw.cluster_parts import DrawnCase
from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import Json

_MEMORY = "memory"
_VALUES = ("40G", "40Gi", "40000000000", "4e10")
_POLICIES: tuple[Json, ...] = (
    {},
    {"requestPolicy": {"default": "8G", "validRange": {"min": "1G", "step": "1G"}}},
    {"requestPolicy": {"default": "3G", "validRange": {"min": "1000M", "step": "500M"}}},
    {"requestPolicy": {"default": "8Gi", "validRange": {"min": "1Gi", "step": "1M"}}},
    {"requestPolicy": {"default": "3000000000", "validRange": {"min": "1000000000", "step": "1000000000"}}},
    {"requestPolicy": {"default": "3e9", "validRange": {"min": "1e9", "step": "1e9"}}},
    {"requestPolicy": {"default": "2000000Ki", "validRange": {"min": "1000000Ki", "step": "1000000Ki"}}},
    {"requestPolicy": {"default": "3G", "validValues": ["3G", "6000M", "9e9", "12000000000", "16Gi"]}},
)
_REQUESTS = ("1G", "2500M", "3G", "3e9", "3000000000", "4Gi", "0.5G", "1500000Ki", "7.25G", "10000M", "1")


def change_formats(dice: Dice, case: DrawnCase) -> None:
    """Write the policies of shared devices and the requests for them in other formats, in a third of all cases."""
    if not dice.chance(1 / 3):
        return
    for device in (device for each in case.objects if each["kind"] == "ResourceSlice" for device in _list_shared(each)):
        device["capacity"][_MEMORY] = {"value": dice.pick(_VALUES)} | dice.pick(_POLICIES)
    for request in (request for each in case.objects for request in _list_requests(each)):
        if dice.chance(0.5):
            request["capacity"] = {"requests": {_MEMORY: dice.pick(_REQUESTS)}}


def _list_shared(published: Json) -> Iterator[Json]:
    for device in published["spec"].get("devices", ()):
        if device.get("allowMultipleAllocations") and _MEMORY in device.get("capacity", {}):
            yield device


def _list_requests(stored: Json) -> Iterator[Json]:
    """Yield what a claim without devices, or a template of claims, requests."""
    if stored["kind"] not in {"ResourceClaim", "ResourceClaimTemplate"} or "allocation" in stored.get("status", {}):
        return
    spec = stored["spec"].get("spec", stored["spec"])
    for request in spec.get("devices", {}).get("requests", ()):
        yield from request.get("firstAvailable") or [request["exactly"]]
