"""The sum of the charges of many pods."""

from collections.abc import Collection, Iterable

from tallygate.accounting.amounts import Amounts
from tallygate.accounting.charge import compute_charge
from tallygate.objects.core import Pod


def sum_charges(pods: Iterable[Pod], names: Collection[str]) -> Amounts:
    """Return the sum of the charges of pods, every pod rounded up by itself; a name that no pod requests is 0."""
    total = dict.fromkeys(names, 0)
    for pod in pods:
        for name, amount in compute_charge(pod, names).amounts.items():
            total[name] += amount
    return Amounts(total)
