"""Lint of the unit of an amount: bytes of a device, a few bytes of memory, a giga of cores.

Each such amount is legal, and hardly meant. The commonest cause is a unit that was left out, or carried over from
another line.
"""

from tallygate.accounting.names import LIMITS_PREFIX, REQUESTS_PREFIX, is_countable
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import Format
from tallygate.policy.formats import PODS_RESOURCE

_BYTES = frozenset({"memory", "ephemeral-storage", "storage"})
_MIN_BYTES = 1 << 20
_MAX_CORES = 1_000_000
_GIGA = 10**9


def describe_odd_unit(name: str, quantity: Quantity) -> str:
    """Return the sentence on an amount whose unit does not fit its resource, or an empty text; 0 is never odd.

    `name` may have the prefix of requests or limits, as in a cap.
    """
    resource = name.removeprefix(LIMITS_PREFIX).removeprefix(REQUESTS_PREFIX)
    if quantity.sign <= 0:
        return ""
    if resource == "cpu" and (quantity.format is Format.BINARY_SI or quantity.value() >= _MAX_CORES):
        return f"{quantity} is {quantity.value():,} cores; write a number of cores, or 500m for half of one"
    if resource in _BYTES and quantity.value() < _MIN_BYTES:
        return f"{_describe_bytes(quantity)} of {resource}; write a unit, as in {max(quantity.value(), 1)}Gi or 512Mi"
    if (resource == PODS_RESOURCE or is_countable(resource)) and (
        quantity.format is Format.BINARY_SI or quantity.value() >= _GIGA
    ):
        return f"{quantity} is {quantity.value():,} of {resource}, which is counted in whole units; write the number"
    return ""


def _describe_bytes(quantity: Quantity) -> str:
    if quantity.is_whole:
        return f"{quantity} is {quantity.value():,} byte{'s' * (quantity.value() != 1)}"
    return f"{quantity} is a fraction of a byte{' (m stands for thousandths)' if str(quantity).endswith('m') else ''}"
