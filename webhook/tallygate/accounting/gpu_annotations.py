"""GPUs that a pod requests by its annotations, besides all resources: a part of a GPU, or an amount of its memory.

KAI-Scheduler and NVIDIA Run:ai read `gpu-fraction` (a part of a GPU, as in `0.5`) or `gpu-memory` (MiB), of each of
`gpu-fraction-num-devices` GPUs, one without it. `nvidia.com/container.NAME.gpu-memory.request`, or `.limit` without a
request, is the memory as a quantity, which must agree with `gpu-memory`. Source: pkg/common/constants/constants.go,
pkg/common/resources/gpu_sharing.go and gpu_sharing_nvfractions.go of kai-scheduler/KAI-Scheduler (commit 10eae30d).

The containers of such a pod request no `nvidia.com/gpu`, so that nothing but the annotations shows its GPUs.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError


class GpuAnnotation(StrEnum):
    """The amounts that annotations request, by the annotation that every version of the schedulers reads."""

    FRACTION = "gpu-fraction"
    """Thousandths of a GPU."""
    MEMORY = "gpu-memory"
    """MiB of the memory of GPUs."""


DEVICE_COUNT_ANNOTATION = "gpu-fraction-num-devices"
"""The number of GPUs, of each of which a pod requests the part or the memory."""

CONTAINER_MEMORY_PREFIX = "nvidia.com/container."
"""The prefix of annotations with the memory that a container requests."""

KEYS = frozenset({*map(str, GpuAnnotation), DEVICE_COUNT_ANNOTATION})
"""The annotations that request GPUs, but for those with the prefix."""

VENDOR = "nvidia.com"
"""The vendor of the GPUs that the annotations request."""

_REQUEST, _LIMIT = ".gpu-memory.request", ".gpu-memory.limit"
_FRACTION = re.compile(r"\+?([0-9]{0,9})(?:\.([0-9]{0,18}))?", re.ASCII)
_WHOLE_NUMBER = re.compile(r"\+?[0-9]{1,15}", re.ASCII)
_THOUSAND = 1000
_MEBI = 1 << 20


class RequestedAmount(NamedTuple):
    """The amount that annotations request, of all GPUs together, and its calculation by the texts of the annotations.

    `invalid` are the annotations that are no amount; they count nothing, and an invalid number of GPUs as one.
    """

    amount: int = 0
    calculation: str = ""
    invalid: tuple[str, ...] = ()


_NOTHING = RequestedAmount()


def select_gpu_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations that request GPUs, sorted by name."""
    if not annotations:
        return {}
    keys = (key for key in annotations if key in KEYS or _is_container_memory(key))
    return {key: annotations[key] for key in sorted(keys)}


def list_requested(annotations: Mapping[str, str] | None) -> list[tuple[GpuAnnotation, str]]:
    """Return the kinds of amounts that annotations request, valid or not, each with the first such annotation."""
    selected = select_gpu_annotations(annotations)
    first = {_find_kind(key): key for key in reversed(selected) if key != DEVICE_COUNT_ANNOTATION}
    return sorted(first.items())


def compute_requested(annotations: Mapping[str, str] | None, kind: GpuAnnotation) -> RequestedAmount:
    """Return the amount of one kind that annotations request, rounded up once for each annotation.

    Memory that `gpu-memory` and the annotation of a container request is one amount, the larger of both.
    """
    selected = select_gpu_annotations(annotations)
    keys = [key for key in selected if key != DEVICE_COUNT_ANNOTATION and _find_kind(key) is kind]
    if not keys:
        return _NOTHING
    devices, factor, invalid = _read_device_count(selected)
    plain = [_multiply(key, selected[key], devices, factor) for key in keys if key in KEYS]
    by_container = [_multiply(key, selected[key], devices, factor) for key in keys if _is_effective(key, selected)]
    invalid += tuple(name for request in (*plain, *by_container) for name in request.invalid)
    largest = max(plain, by_container, key=lambda shares: sum(share.amount for share in shares))
    terms = (request.calculation for request in largest if request.calculation)
    return RequestedAmount(sum(request.amount for request in largest), " + ".join(terms), invalid)


def describe_form(annotation: str) -> str:
    """Return the form of a valid annotation, with an example."""
    if annotation == GpuAnnotation.FRACTION:
        return "a decimal number, as in 0.5"
    if annotation == GpuAnnotation.MEMORY:
        return "a whole number of MiB, as in 2048"
    return "a whole number from 1 on, as in 2" if annotation == DEVICE_COUNT_ANNOTATION else "a quantity, as in 2Gi"


def _is_container_memory(key: str) -> bool:
    return key.startswith(CONTAINER_MEMORY_PREFIX) and key.endswith((_REQUEST, _LIMIT))


def _find_kind(key: str) -> GpuAnnotation:
    return GpuAnnotation.FRACTION if key == GpuAnnotation.FRACTION else GpuAnnotation.MEMORY


def _is_effective(key: str, selected: Mapping[str, str]) -> bool:
    """Return whether an annotation is the request of a container, or its limit in place of one."""
    return key not in KEYS and (key.endswith(_REQUEST) or key.removesuffix(_LIMIT) + _REQUEST not in selected)


def _read_device_count(selected: Mapping[str, str]) -> tuple[int, str, tuple[str, ...]]:
    """Return the number of GPUs, its factor in a calculation, and the annotation if it is not valid."""
    text = selected.get(DEVICE_COUNT_ANNOTATION)
    if text is None:
        return 1, "", ()
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) == 0:
        return 1, "", (DEVICE_COUNT_ANNOTATION,)
    return int(text), f" × {int(text)} {DEVICE_COUNT_ANNOTATION}", ()


def _multiply(key: str, text: str, devices: int, factor: str) -> RequestedAmount:
    """Return the amount of one annotation for `devices` GPUs; `factor` is their number in a calculation."""
    if key == GpuAnnotation.FRACTION:
        share = _read_fraction(text)
        factor += f" × {_THOUSAND}"
    elif key == GpuAnnotation.MEMORY:
        share = (int(text), 1) if _WHOLE_NUMBER.fullmatch(text) else None
    else:
        share = _read_memory(text)
    if share is None:
        return RequestedAmount(invalid=(key,))
    amount, unit = share
    return RequestedAmount(-(-amount * devices // unit), f"{text} {key}{factor}" if amount else "")


def _read_fraction(text: str) -> tuple[int, int] | None:
    """Return a decimal number in thousandths, as amount and unit: `0.5` is 500 of 1; None if the text is invalid."""
    match = _FRACTION.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        return None
    decimals = match[2] or ""
    return int(f"{match[1]}{decimals}") * _THOUSAND, 10 ** len(decimals)


def _read_memory(text: str) -> tuple[int, int] | None:
    """Return a quantity of bytes in MiB, as amount and unit; None if the text is invalid or negative."""
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return None
    if quantity.sign < 0:
        return None
    return quantity.mantissa * 10 ** max(quantity.scale, 0), _MEBI * 10 ** max(-quantity.scale, 0)
