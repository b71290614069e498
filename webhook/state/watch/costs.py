"""What pods cost under a cap, found once for each cap and shape."""

from collections import OrderedDict
from typing import Protocol
from weakref import WeakKeyDictionary

from webhook.accounting.amounts import Amounts
from webhook.accounting.charge import Charge
from webhook.accounting.quantity_parser import QuantityError
from webhook.objects.core import Pod
from webhook.state.watch.shapes import ChargeGroup

_MAX_CAPS = 4096
NO_AMOUNTS = Amounts()


class ChargeableCap(Protocol):
    """A cap that can say what a pod holds under it: nothing if it does not count the pod."""

    def compute_charge(self, pod: Pod | None) -> Charge:
        """What this pod holds.

        Raises:
            QuantityError: one of its quantities is none.
        """
        ...


class GroupCharges:
    """What each shape costs under one cap; None for a shape with a quantity that cannot be read."""

    def __init__(self, cap: ChargeableCap) -> None:
        self.cap = cap
        self._amounts_by_group: WeakKeyDictionary[ChargeGroup, Amounts | None] = WeakKeyDictionary()

    def get_amounts(self, group: ChargeGroup) -> Amounts | None:
        """What a pod of this shape costs as long as it has not ended."""
        try:
            return self._amounts_by_group[group]
        except KeyError:
            amounts = self._amounts_by_group[group] = self._compute_amounts(group)
            return amounts

    def _compute_amounts(self, group: ChargeGroup) -> Amounts | None:
        try:
            return self.cap.compute_charge(group.to_pod()).amounts
        except QuantityError:
            return None


class CapChargesCache:
    """The costs of the caps in use: those of an earlier policy are forgotten as new ones come."""

    def __init__(self) -> None:
        self._charges_by_cap_id: OrderedDict[int, GroupCharges] = OrderedDict()

    def get_charges(self, cap: ChargeableCap) -> GroupCharges:
        """The costs under this cap, which is known by identity: an equal one may count other names.

        Its costs hold on to it, so that no other can have its identity as long as they are known.
        """
        charges = self._charges_by_cap_id.get(id(cap))
        if charges is None:
            charges = self._charges_by_cap_id[id(cap)] = GroupCharges(cap)
        self._charges_by_cap_id.move_to_end(id(cap))
        if len(self._charges_by_cap_id) > _MAX_CAPS:
            self._charges_by_cap_id.popitem(last=False)
        return charges
