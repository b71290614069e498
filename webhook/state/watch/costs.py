"""What pods cost under a cap, found once for each cap and shape."""

from collections import OrderedDict
from typing import Protocol
from weakref import WeakKeyDictionary

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge
from webhook.accounting.quantity_parser import QuantityError
from webhook.objects.core import Pod
from webhook.state.watch.shapes import Shape

_MOST_CAPS = 4096
NOTHING = Amounts()


class Counts(Protocol):
    """A cap that can say what a pod holds under it: nothing if it does not count the pod."""

    def compute_charge(self, pod: Pod | None) -> Charge:
        """What this pod holds.

        Raises:
            QuantityError: one of its quantities is none.
        """
        ...


class Costs:
    """What each shape costs under one cap; None for a shape with a quantity that cannot be read."""

    def __init__(self, cap: Counts) -> None:
        self.cap = cap
        self._known: WeakKeyDictionary[Shape, Amounts | None] = WeakKeyDictionary()

    def of(self, shape: Shape) -> Amounts | None:
        """What a pod of this shape costs as long as it has not ended."""
        try:
            return self._known[shape]
        except KeyError:
            cost = self._known[shape] = self._find(shape)
            return cost

    def _find(self, shape: Shape) -> Amounts | None:
        try:
            return self.cap.compute_charge(shape.pod()).amounts
        except QuantityError:
            return None


class Caps:
    """The costs of the caps in use: those of an earlier policy are forgotten as new ones come."""

    def __init__(self) -> None:
        self._costs: OrderedDict[int, Costs] = OrderedDict()

    def of(self, cap: Counts) -> Costs:
        """The costs under this cap, which is known by identity: an equal one may count other names.

        Its costs hold on to it, so that no other can have its identity as long as they are known.
        """
        costs = self._costs.get(id(cap))
        if costs is None:
            costs = self._costs[id(cap)] = Costs(cap)
        self._costs.move_to_end(id(cap))
        if len(self._costs) > _MOST_CAPS:
            self._costs.popitem(last=False)
        return costs
