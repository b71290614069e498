"""The nodes of a prediction and the pools of devices that they can reach, as columns."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from tallygate.accounting.amounts import format_amount, is_milli
from tallygate.accounting.node_fit import Shortfall
from tallygate.accounting.scheduling.device_shortfalls import DeviceHolder, NodePool
from tallygate.answers.columns import UNKNOWN, Column, Columns
from tallygate.answers.prediction_details import NodeLine
from tallygate.answers.prediction_lines import MAX_NAMES, format_names, format_shortfall

FITS, NOT_NOW, NEVER = "fits", "not now", "never"
"""The answers of a node for a pod."""


def list_pool_rows(lines: Iterable[NodeLine]) -> list[list[str]]:
    """Return a row of `POOL_HEADINGS` for each pool that a node can reach; none if the pods need no devices."""
    return [[line.diagnosis.name, *row] for line in lines for row in POOLS.list_rows(line.pools)]


def _format_free(pool: NodePool) -> str:
    free = [device for device in pool.devices if not device.holders]
    return _format_devices((device.name, ", ".join(f"taint {taint}" for taint in device.taints)) for device in free)


def _format_allocated(pool: NodePool) -> str:
    return _format_devices(
        (device.name, "; ".join(map(str, device.holders))) for device in pool.devices if device.holders
    )


def _format_devices(devices: Iterable[tuple[str, str]]) -> str:
    """Return the names of devices, those with one note together; a dash without devices."""
    names: dict[str, list[str]] = {}
    for name, note in devices:
        names.setdefault(note, []).append(name)
    groups = [f"{format_names(names[note])}{f' ({note})' if note else ''}" for note in sorted(names)]
    omitted = f"; {len(groups) - MAX_NAMES} more" if len(groups) > MAX_NAMES else ""
    return "; ".join(groups[:MAX_NAMES]) + omitted or UNKNOWN


def _get_answer(line: NodeLine) -> str:
    """Return whether the pod fits the node now, after other pods are removed, or never."""
    if not line.diagnosis.reasons:
        return FITS
    return NOT_NOW if line.diagnosis.can_ever_run else NEVER


def format_reason(line: NodeLine) -> str:
    """Return why the pod does not fit the node: the scheduler's reasons, with shortfalls in numbers."""
    diagnosis = line.diagnosis
    shortfalls = {
        shortfall.reason: f"Insufficient {format_shortfall(shortfall, shortfall.requested)}"
        for shortfall in diagnosis.shortfalls
    }
    reasons = [shortfalls.pop(reason, reason) for reason in diagnosis.reasons]
    return "; ".join([*reasons, *(f"also {shortfall}" for shortfall in shortfalls.values())])


def _format_tightest(shortfall: Shortfall) -> str:
    used, requested, capacity = (
        format_amount(shortfall.resource, amount)
        for amount in (shortfall.used, shortfall.requested, shortfall.allocatable)
    )
    return f"{shortfall.resource} {used} + {requested} of {capacity}"


def shortfall_to_dict(shortfall: Shortfall) -> dict[str, Any]:
    """Return a shortfall as plain data."""
    return {
        "resource": shortfall.resource,
        "unit": "milli" if is_milli(shortfall.resource) else "whole",
        "requests": shortfall.requested,
        "allocatable": shortfall.allocatable,
        "used": shortfall.used,
        "free": shortfall.free,
        "short": max(shortfall.short, 0),
    }


def holder_to_dict(holder: DeviceHolder) -> dict[str, Any]:
    """Return the claim and the pods that a device is allocated to as plain data."""
    return {"claim": holder.claim or None, "pods": list(holder.pods)}


def _devices_to_list(pool: NodePool) -> list[dict[str, Any]]:
    return [
        {"device": device.name, "allocatedTo": list(map(holder_to_dict, device.holders)), "taints": list(device.taints)}
        for device in pool.devices
    ]


POOLS = Columns[NodePool](
    Column("POOL", "pool", attrgetter("name")),
    Column("", "problem", lambda pool: pool.problem or None),
    Column("DEVICES", "devices", _devices_to_list, lambda pool: UNKNOWN if pool.problem else str(len(pool.devices))),
    Column("FREE", "", text=lambda pool: UNKNOWN if pool.problem else _format_free(pool)),
    Column("ALLOCATED", "", text=lambda pool: pool.problem or _format_allocated(pool)),
)
POOL_HEADINGS = ("NODE", *POOLS.headings)
NODES = Columns[NodeLine](
    Column("NODE", "", attrgetter("diagnosis.name")),
    Column("ANSWER", "answer", _get_answer),
    Column("COPIES", "copies", text=lambda line: str(line.copies or UNKNOWN)),
    Column("FIT", "", attrgetter("allocation_score")),
    Column("BALANCE", "", attrgetter("balance_score")),
    Column(
        "",
        "scores",
        lambda line: {"NodeResourcesFit": line.allocation_score, "NodeResourcesBalancedAllocation": line.balance_score},
    ),
    Column(
        "TIGHTEST",
        "tightest",
        lambda line: shortfall_to_dict(line.tightest),
        lambda line: _format_tightest(line.tightest),
    ),
    Column("", "pools", lambda line: list(map(POOLS.to_dict, line.pools))),
    Column("REASON", "", format_reason),
)
"""The nodes; in JSON and YAML, the fields of their diagnosis come before these."""
