"""A tally: what many pods hold together under a cap's counted names."""

from collections.abc import Collection, Iterable

from webhook.accounting.amounts import Amounts
from webhook.accounting.caps import compute_charge
from webhook.objects.pods import Pod


def tally(pods: Iterable[Pod], names: Collection[str]) -> Amounts:
    """The sum of what each pod is charged, every pod rounded up by itself. Every name is in it, if with zero.

    Raises:
        QuantityError: a quantity of a pod that has not ended is none.
    """
    total = dict.fromkeys(names, 0)
    for pod in pods:
        for name, cost in compute_charge(pod, names).amounts.items():
            total[name] += cost
    return Amounts(total)
